//! The recommendation process: what goes with what.

fn main() -> std::process::ExitCode {
    chassis::service::main(
        contracts::Service::Recommendation,
        recommendation::Config::from_env,
        recommendation::app::build,
    )
}
