//! The limits of a cache, with what they are unless somebody knows better.

use std::time::Duration;

/// The limits of one cache.
#[derive(Debug, Clone)]
pub struct CacheConfig {
    /// First part of every key, and the label of the metrics.
    pub name: &'static str,
    /// Put before every key, so that several systems can share one Redis. Usually empty.
    pub prefix: String,
    /// Second part of every key: values of another version are never read.
    pub schema: u32,
    /// What one call spends on Redis at most, reading and writing together.
    pub patience: Duration,
    /// How long a value is kept after its freshness has ended.
    pub keep_stale: Duration,
    /// Larger values are neither stored nor read.
    pub max_value_bytes: usize,
    /// Keys in flight at once. Calls beyond that load for themselves.
    pub max_flights: usize,
    /// Failures in a row after which Redis is left alone, and for how long.
    pub pause_after: u32,
    pub pause: Duration,
    /// The share of its lifetime, 0 to 1, by which a value may be shortened at random.
    pub jitter: f64,
    /// Fixed in tests, so that a run can be repeated.
    pub seed: u64,
}

impl CacheConfig {
    #[must_use]
    pub fn new(name: &'static str, schema: u32) -> Self {
        Self {
            name,
            prefix: String::new(),
            schema,
            // A round trip takes under 1 ms; at 50 ms the answer no longer is what a cache is for.
            patience: Duration::from_millis(50),
            keep_stale: Duration::from_secs(600),
            max_value_bytes: 64 * 1024,
            max_flights: 1_024,
            pause_after: 3,
            pause: Duration::from_secs(1),
            jitter: 0.1,
            seed: rand::random(),
        }
    }
}
