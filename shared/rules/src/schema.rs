//! The schema, with every default and its reason.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use serde::{Deserialize, Serialize};

use crate::millis;

const fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

/// A whole rule set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// Raised by whoever publishes the document; 0 is the built-in one.
    pub version: i64,
    pub network: Network,
    /// By method and path pattern, as in `[route."POST /v1/orders"]`. Routes that are not named take the default.
    pub route: BTreeMap<String, Route>,
    pub downstream: Downstreams,
    pub idempotency: Idempotency,
    pub recover: Recover,
    pub messaging: Messaging,
    pub database: Database,
    pub cache: Cache,
}

impl Default for Rules {
    fn default() -> Self {
        let order = Route { timeout: ms(3_000), ..Route::default() };
        // Payment has to outlast its provider, and to record the outcome after that.
        // Less than 50 ms cannot hold a provider's answer, so order does not begin a charge with less.
        let payment = Route { timeout: ms(2_000), min_useful_budget: ms(50) };
        Self {
            version: 0,
            network: Network::default(),
            route: BTreeMap::from([(Self::PLACE_ORDER.to_owned(), order), (Self::CHARGE.to_owned(), payment)]),
            downstream: Downstreams::default(),
            idempotency: Idempotency::default(),
            recover: Recover::default(),
            messaging: Messaging::default(),
            database: Database::default(),
            cache: Cache::default(),
        }
    }
}

impl Rules {
    pub const PLACE_ORDER: &'static str = "POST /v1/orders";
    pub const CHARGE: &'static str = "PUT /v1/payments/{attempt_id}";

    #[must_use]
    pub fn place_order_route(&self) -> Route {
        self.route.get(Self::PLACE_ORDER).cloned().unwrap_or_default()
    }

    #[must_use]
    pub fn charge_route(&self) -> Route {
        self.route.get(Self::CHARGE).cloned().unwrap_or_default()
    }

    /// The rule of a route, the default one where none is named.
    #[must_use]
    pub fn route(&self, method: &str, pattern: &str) -> Route {
        let found = self
            .route
            .iter()
            .find(|(name, _)| name.strip_prefix(method).and_then(|rest| rest.strip_prefix(' ')) == Some(pattern));
        found.map_or_else(Route::default, |(_, route)| route.clone())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// Taken off the remaining budget at each hop, for the answer to travel back and be written down.
    #[serde(rename = "reserve_ms", with = "millis")]
    pub reserve: Duration,
}

impl Default for Network {
    fn default() -> Self {
        Self { reserve: ms(20) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Route {
    /// The most time that a request may take, whatever its caller would wait.
    #[serde(rename = "timeout_ms", with = "millis")]
    pub timeout: Duration,
    /// A request that arrives with less is refused at once: nothing useful fits into it.
    #[serde(rename = "min_useful_budget_ms", with = "millis")]
    pub min_useful_budget: Duration,
}

impl Default for Route {
    fn default() -> Self {
        // One second holds any single statement many times over; 10 ms is about one of them and a hop.
        Self { timeout: ms(1_000), min_useful_budget: ms(10) }
    }
}

/// One entry a callee.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Downstreams {
    pub inventory: Downstream,
    pub payment: Downstream,
    pub coupon: Downstream,
    pub recommendation: Downstream,
    pub provider: Downstream,
}

impl Default for Downstreams {
    fn default() -> Self {
        let capped = |timeout| Downstream { timeout, ..Downstream::default() };
        Self {
            // A reservation is one short transaction; 400 ms leaves room for a lock queue on a hot product.
            inventory: capped(ms(400)),
            // Longer than the provider's cap by the time that it takes to record the outcome.
            payment: capped(ms(2_000)),
            // Degradable: better no discount now than a slow order.
            coupon: capped(ms(150)),
            // Degradable, and never waited for.
            recommendation: capped(ms(150)),
            provider: capped(ms(1_500)),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Downstream {
    /// The most time for one call; what remains of the request's budget may be less.
    #[serde(rename = "timeout_ms", with = "millis")]
    pub timeout: Duration,
    /// For the TCP connection alone. Short, since a peer in the same network answers in about a millisecond.
    #[serde(rename = "connect_timeout_ms", with = "millis")]
    pub connect_timeout: Duration,
    /// How long an unused connection is kept: below the callee's keep-alive (75 s), so that we close first.
    #[serde(rename = "pool_idle_ms", with = "millis")]
    pub pool_idle: Duration,
}

impl Default for Downstream {
    fn default() -> Self {
        Self { timeout: ms(1_000), connect_timeout: ms(200), pool_idle: ms(30_000) }
    }
}

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
    /// Orders resumed in one round, at most.
    pub batch: NonZeroU32,
}

impl Default for Recover {
    fn default() -> Self {
        // A second is soon for a person and rare for the database; 50 a second outpaces any crash under our load.
        Self { interval: ms(1_000), batch: NonZeroU32::MIN.saturating_add(49) }
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
}

impl Default for Messaging {
    fn default() -> Self {
        Self {
            relay_poll: ms(75),
            relay_lease: ms(5_000),
            outbox_retention: ms(86_400_000),
            inbox_retention: ms(7 * 86_400_000),
        }
    }
}

/// Connections to the service's own database. Pool sizes take effect at the next start.
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
        Self { pool: None, acquire_timeout: ms(500), lock_timeout: ms(200), statement_timeout: ms(2_000) }
    }
}

/// What is kept in Redis only to be faster.
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
}

impl Default for Cache {
    fn default() -> Self {
        // A round trip takes under a millisecond; at 50 ms it is no cache any more. Half a minute takes most of the
        // load off the source and is not noticed; ten minutes outlast a restart of it.
        Self { patience: ms(50), fresh: ms(30_000), keep_stale: ms(600_000) }
    }
}
