//! The order service as a process.

use std::process::ExitCode;

use contracts::Service;
use order::{app, config::Config};

fn main() -> ExitCode {
    chassis::service::main(Service::Order, Config::from_env, app::build)
}
