//! Patterns that bound what an operation may consume, one file each: no HTTP, no SQL, no messaging.

pub mod breaker;
pub mod bulkhead;
pub mod deadline;
pub mod invalid;
pub mod ramp;

mod millis;
mod sync;

pub use breaker::{Breaker, BreakerConfig};
pub use bulkhead::{Bulkhead, BulkheadConfig};
pub use deadline::Deadline;
pub use invalid::Invalid;
pub use ramp::{Ramp, RampConfig};
