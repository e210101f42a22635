//! The console process: where operators look and act.

fn main() -> std::process::ExitCode {
    chassis::service::main(contracts::Service::Console, console::Config::from_env, console::app::build)
}
