//! Patterns that bound what an operation may consume, one file each: no HTTP, no SQL, no messaging.

pub mod breaker;
pub mod bulkhead;
pub mod composite;
pub mod deadline;
pub mod degrade;
pub mod invalid;
pub mod last_known;
pub mod ramp;
pub mod rate_limit;
pub mod retry;

mod millis;
mod sync;

pub use breaker::{Breaker, BreakerConfig};
pub use bulkhead::{Bulkhead, BulkheadConfig};
pub use deadline::Deadline;
pub use invalid::Invalid;
pub use last_known::{LastKnown, LastKnownConfig};
pub use ramp::{Ramp, RampConfig};
