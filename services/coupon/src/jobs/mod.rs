//! What runs beside requests and events.

mod backlog;

pub use backlog::Backlog;
