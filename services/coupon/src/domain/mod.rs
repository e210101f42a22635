//! Decisions about coupons and redemptions, without I/O.

mod discount;
mod redemption;

pub use discount::{NoDiscount, discount};
pub use redemption::{Command, Decision, Record, Refusal, decide};
