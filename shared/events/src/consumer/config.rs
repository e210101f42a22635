//! The limits of a consumer, with what they are unless somebody knows better.

use std::{num::NonZeroUsize, time::Duration};

#[derive(Debug, Clone)]
pub struct ConsumerConfig {
    /// The pause after a first transient failure; it doubles up to `retry_after_max`.
    pub retry_after: Duration,
    pub retry_after_max: Duration,
    /// A handler that takes longer is cut off, which counts as a transient failure.
    pub handle_limit: Duration,
    /// Events that are handled at once, of all partitions together: what the pool behind the handler can serve, and a
    /// few more that wait for it.
    pub max_in_flight: NonZeroUsize,
    /// Of these, how many of one partition. Of one key it is always one.
    pub max_in_flight_per_partition: NonZeroUsize,
    /// Messages of one partition in this process that have not all taken effect, before it is paused.
    pub max_waiting: usize,
    /// No event holds up its partition for longer, whatever it asks for: a garbled date must not do so for good.
    pub max_delay: Duration,
    /// At shutdown: how long the messages in hand are waited for, and again how long the client may take to leave.
    pub stop_limit: Duration,
}

impl Default for ConsumerConfig {
    fn default() -> Self {
        Self {
            retry_after: Duration::from_millis(100),
            retry_after_max: Duration::from_secs(5),
            handle_limit: Duration::from_secs(30),
            max_in_flight: NonZeroUsize::MIN.saturating_add(15),
            max_in_flight_per_partition: NonZeroUsize::MIN.saturating_add(3),
            max_waiting: 512,
            max_delay: Duration::from_secs(60 * 60),
            stop_limit: Duration::from_secs(4),
        }
    }
}

impl ConsumerConfig {
    /// The defaults, with these bounds of what is handled at once.
    #[must_use]
    pub fn in_flight(max: NonZeroUsize, max_per_partition: NonZeroUsize) -> Self {
        Self { max_in_flight: max, max_in_flight_per_partition: max_per_partition, ..Self::default() }
    }
}
