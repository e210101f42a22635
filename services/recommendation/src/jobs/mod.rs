//! What runs beside requests and events.

mod prune;

pub use prune::prune;
