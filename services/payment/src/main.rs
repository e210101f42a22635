//! The payment service's process.

use std::process::ExitCode;

use contracts::Service;
use payment::{app, config::Config};

fn main() -> ExitCode {
    chassis::service::main(Service::Payment, Config::from_env, app::build)
}
