//! Coupon over HTTP, on a database of its own and, where events matter, on a broker.

#![expect(clippy::unwrap_used, reason = "what the tests share may fail them as they may themselves")]

mod compensations;
mod concurrency;
mod guards;
mod operator;
mod orders;
mod redemptions;
mod till;
