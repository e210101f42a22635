//! Patterns that bound what an operation may consume, one file each: no HTTP, no SQL, no messaging.

pub mod composite;
pub mod deadline;
pub mod degrade;
mod millis;
pub mod retry;

pub use deadline::Deadline;
