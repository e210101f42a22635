//! What runs beside requests and events.

mod gauges;

pub use gauges::gauges;
