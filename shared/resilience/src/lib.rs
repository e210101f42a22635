//! Patterns that bound what an operation may consume, one file each: no HTTP, no SQL, no messaging.

pub mod deadline;
pub mod rate_limit;

mod millis;

pub use deadline::Deadline;
