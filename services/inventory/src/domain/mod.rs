//! Decisions about reservations and stock, without I/O.

mod level;
mod reservation;

pub use level::{Level, Movement};
pub use reservation::{Command, Decision, Refusal, decide};
