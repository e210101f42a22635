//! What runs beside requests and events.

mod gauges;
mod prune;

pub use gauges::gauges;
pub use prune::prune;
