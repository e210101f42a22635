//! What the metrics of this crate mean: a scrape says it with each name.

use metrics::describe_counter;

/// To be called once the recorder stands; again does no harm.
pub fn describe_metrics() {
    describe_counter!(
        "cache_events_total",
        "Look-ups in a cache by how they ended, and commands to Redis that failed."
    );
}
