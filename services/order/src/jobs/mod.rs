//! What runs without being asked.

pub mod gauges;
pub mod prune;
pub mod recover;
pub mod walk;
