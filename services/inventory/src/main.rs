//! The inventory process: who owns stock.

fn main() -> std::process::ExitCode {
    chassis::service::main(contracts::Service::Inventory, inventory::Config::from_env, inventory::app::build)
}
