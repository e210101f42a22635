//! The limits of a relay, with what they are unless somebody knows better.

use std::time::Duration;

use durable::outbox;

#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// Created on a real broker that lacks them: name without prefix, partitions.
    pub topics: Vec<(String, i32)>,
    /// How long a committed row waits at most when nobody calls [`outbox::Outbox::wake`].
    pub poll_interval: Duration,
    /// Rows read at a time.
    pub batch: i64,
    /// After a crash the next replica takes over within this and a quarter.
    pub lease_ttl: Duration,
    /// After this a message counts as not delivered, and its key waits for `retry_after`.
    pub delivery_timeout: Duration,
    /// The pause after a first failure; it doubles up to `retry_after_max`.
    pub retry_after: Duration,
    pub retry_after_max: Duration,
    /// How often an idle relay asks whether the broker is still the one that it published to.
    pub broker_check_interval: Duration,
    /// How long published rows are kept.
    pub retention: Duration,
    /// At shutdown: how long messages that are on their way are waited for.
    pub flush_limit: Duration,
}

impl Default for RelayConfig {
    fn default() -> Self {
        Self {
            topics: contracts::topic::all(),
            poll_interval: Duration::from_millis(75),
            batch: 500,
            lease_ttl: Duration::from_secs(5),
            delivery_timeout: Duration::from_secs(5),
            retry_after: Duration::from_millis(200),
            retry_after_max: Duration::from_secs(5),
            broker_check_interval: Duration::from_secs(5),
            retention: outbox::RETENTION,
            flush_limit: Duration::from_secs(3),
        }
    }
}
