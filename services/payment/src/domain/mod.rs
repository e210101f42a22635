//! What an attempt and a refund may do. No I/O.

pub mod attempt;
pub mod refund;
