//! The coupon process: who owns coupons.

fn main() -> std::process::ExitCode {
    chassis::service::main(contracts::Service::Coupon, coupon::Config::from_env, coupon::app::build)
}
