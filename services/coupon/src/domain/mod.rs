//! Decisions about coupons and redemptions, without I/O.

mod compensation;
mod discount;
mod redemption;

pub use compensation::{Verdict, judge};
pub use discount::{NoDiscount, discount};
pub use redemption::{Command, Decision, Record, Refusal, decide};
