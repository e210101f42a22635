//! Patterns that bound what an operation may consume, one file each: no HTTP, no SQL, no messaging.

pub mod deadline;

pub use deadline::Deadline;
