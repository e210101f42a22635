//! What governs the stores and the jobs on them: keys, the recoverer, messaging, the database, the cache.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::ms;
use crate::millis;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Idempotency {
    /// How long one run may hold a key before another may take the order over. Well above the 3 s of the route.
    #[serde(rename = "lease_ms", with = "millis")]
    pub lease: Duration,
    /// How long an outcome can be replayed.
    #[serde(rename = "retention_ms", with = "millis")]
    pub retention: Duration,
}

impl Default for Idempotency {
    fn default() -> Self {
        Self { lease: ms(10_000), retention: ms(86_400_000) }
    }
}

/// The job that resumes orders which a crash left standing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recover {
    #[serde(rename = "interval_ms", with = "millis")]
    pub interval: Duration,
    /// Orders resumed in one round, at most; as many of those that wait for their payment, and of those that ended.
    pub batch: NonZeroU32,
    /// How long an order may wait for its payment before payment is asked to fence it: the end of every wait that
    /// nothing else ends. Above the time for which the provider is asked about a charge.
    #[serde(rename = "pending_max_age_ms", with = "millis")]
    pub pending_max_age: Duration,
    /// How long after that, and after each answer that decides nothing, it is asked again; also about an order that its
    /// user wants back.
    #[serde(rename = "ask_again_ms", with = "millis")]
    pub ask_again: Duration,
    /// How long after an order's end its siblings are asked whether they have heard of it; what they have not is told
    /// again, after twice as long each time.
    #[serde(rename = "ack_after_ms", with = "millis")]
    pub ack_after: Duration,
    /// The longest of these pauses.
    #[serde(rename = "ack_retry_max_ms", with = "millis")]
    pub ack_retry_max: Duration,
    /// How long a message that came too early is tried again before a person has to look at it.
    #[serde(rename = "early_max_age_ms", with = "millis")]
    pub early_max_age: Duration,
}

impl Default for Recover {
    fn default() -> Self {
        // A second is soon for a person and rare for the database; 50 a second outpaces any crash under our load.
        Self {
            interval: ms(1_000),
            batch: NonZeroU32::MIN.saturating_add(49),
            // Reconciliation has asked for six minutes by then.
            pending_max_age: ms(900_000),
            ask_again: ms(30_000),
            // Messages take far less than a second; what has not arrived by then is late or lost.
            ack_after: ms(10_000),
            ack_retry_max: ms(300_000),
            // What a message may overtake is over within the lease of a run; the rest is a crash and its recovery.
            early_max_age: ms(600_000),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Messaging {
    /// How often the relay looks for events when nobody wakes it.
    #[serde(rename = "relay_poll_ms", with = "millis")]
    pub relay_poll: Duration,
    /// How long one relay owns the outbox before a replica may take over.
    #[serde(rename = "relay_lease_ms", with = "millis")]
    pub relay_lease: Duration,
    /// How long published events are kept, to be published again to a broker that lost them.
    #[serde(rename = "outbox_retention_ms", with = "millis")]
    pub outbox_retention: Duration,
    /// How long applied event ids are remembered; at least as long as events can come again.
    #[serde(rename = "inbox_retention_ms", with = "millis")]
    pub inbox_retention: Duration,
    /// Events that one consumer handles at once; of one key always one. Takes effect at the next start, like the pool
    /// that it has to fit.
    pub max_in_flight: NonZeroUsize,
    /// Of these, how many of one partition, so that one that is slow leaves room for the others.
    pub max_in_flight_per_partition: NonZeroUsize,
}

impl Default for Messaging {
    fn default() -> Self {
        Self {
            // A commit in this process wakes the relay; this is for those of the replicas that do not lead. One cheap
            // look at an index thirteen times a second, and nobody notices the wait.
            relay_poll: ms(75),
            // Events wait so long after a crash of the one that leads. It renews at a third, so that it loses the lease
            // only when two renewals fail.
            relay_lease: ms(5_000),
            // A broker that lost its messages is noticed and replaced within a day.
            outbox_retention: ms(86_400_000),
            // Kafka keeps messages for seven days unless told otherwise, and any of them may be read again.
            inbox_retention: ms(7 * 86_400_000),
            // What a pool of 5 or 9 serves, and as many again that wait for it: their waits are short.
            max_in_flight: NonZeroUsize::MIN.saturating_add(15),
            max_in_flight_per_partition: NonZeroUsize::MIN.saturating_add(3),
        }
    }
}

/// Connections to the service's own database. All of it takes effect at the next start, since connections are opened
/// with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Database {
    /// Unset: twice the cores and one, what a disk-bound server can make use of.
    pub pool: Option<NonZeroU32>,
    /// How long a request waits for a connection before it is told that storage is unavailable.
    #[serde(rename = "acquire_timeout_ms", with = "millis")]
    pub acquire_timeout: Duration,
    /// A lock that is not had by then is somebody else's trouble, and reported as such.
    #[serde(rename = "lock_timeout_ms", with = "millis")]
    pub lock_timeout: Duration,
    /// The most that one statement may take, for work without a deadline of its own.
    #[serde(rename = "statement_timeout_ms", with = "millis")]
    pub statement_timeout: Duration,
}

impl Default for Database {
    fn default() -> Self {
        Self {
            pool: None,
            // Half of what most routes have: who waited that long for a connection could not make use of it, and the
            // refusal still reaches its caller.
            acquire_timeout: ms(500),
            // A row is held for a few milliseconds; by now a hundred were in front, or somebody does not let go.
            lock_timeout: ms(200),
            // Ten times what any statement of ours takes on a server that is well.
            statement_timeout: ms(2_000),
        }
    }
}

impl Database {
    /// The connections that this process may open.
    #[must_use]
    pub fn connections(&self) -> u32 {
        let by_cores = || {
            let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
            u32::try_from(2 * cores + 1).unwrap_or(u32::MAX)
        };
        self.pool.map_or_else(by_cores, NonZeroU32::get)
    }
}

/// What is kept to be faster, and to have something to say when its source has not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cache {
    /// What one request waits for Redis at most, reading and writing together.
    #[serde(rename = "patience_ms", with = "millis")]
    pub patience: Duration,
    /// How long a value is used without asking its source.
    #[serde(rename = "fresh_ms", with = "millis")]
    pub fresh: Duration,
    /// How long after that it may still stand in for a source that fails.
    #[serde(rename = "keep_stale_ms", with = "millis")]
    pub keep_stale: Duration,
    /// Last answers of one kind that a process keeps in its own memory, for as long.
    pub last_answers: NonZeroU32,
}

impl Default for Cache {
    fn default() -> Self {
        // A round trip takes under a millisecond; at 50 ms it is no cache any more. Half a minute takes most of the
        // load off the source and is not noticed; ten minutes outlast a restart of it. 500 answers are most of what
        // a shop is asked for in that time, and a few MiB.
        Self {
            patience: ms(50),
            fresh: ms(30_000),
            keep_stale: ms(600_000),
            last_answers: NonZeroU32::MIN.saturating_add(499),
        }
    }
}
