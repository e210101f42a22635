//! Patterns that bound what an operation may consume, one file each: no HTTP, no SQL, no messaging.

pub mod composite;
pub mod deadline;
pub mod degrade;
pub mod rate_limit;
pub mod retry;

mod millis;

pub use deadline::Deadline;
