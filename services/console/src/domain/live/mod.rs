//! The live view: what all instances say of themselves, as one picture of the system.
//!
//! Pure: from two looks at each instance (`look`), and what else is known, to one [`Snapshot`]. `instance` is what stands
//! in a box of the map, `hops` are its arrows, `totals` is what belongs to nobody alone.

mod hops;
mod instance;
pub mod look;
mod totals;

use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;

use look::View;

/// The system at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Snapshot {
    pub at: DateTime<Utc>,
    /// No instance has been seen twice yet, so that no rate is known.
    pub warming_up: bool,
    pub services: Vec<Instance>,
    pub hops: Vec<Hop>,
    pub funnel: Vec<Stage>,
    pub pending: Pending,
    /// What waits for a person: payments, refunds and discounts.
    pub reviews: u64,
    /// Those that were not sent again; null while Kafka does not answer.
    pub dead_letters: Option<u64>,
    /// Discounts that were promised and are not settled.
    pub compensations: u64,
    /// What refuses now, most first.
    pub refused: Vec<Refused>,
    pub degraded: Vec<Feature>,
    pub outbox: Vec<Outbox>,
    pub lag: Vec<Lag>,
    /// Whether faults can be set on links.
    pub links: bool,
    /// What a drill that runs would have people look at.
    pub drill_hint: Option<String>,
}

/// One process of a service. What an instance does not say, since it cannot be reached, is null or zero.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Instance {
    pub service: String,
    pub instance: String,
    pub state: InstanceState,
    pub reason: Option<String>,
    pub build: Option<String>,
    pub rules: Option<InForce>,
    pub in_flight: u64,
    pub in_flight_cap: Option<u64>,
    /// Requests a second.
    pub rate: f64,
    /// Requests a second that a guard refused.
    pub refused_rate: f64,
    /// Requests a second that ended with a server error, but for what a guard refused.
    pub error_rate: f64,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub db: Option<Pool>,
    pub memory_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum InstanceState {
    Up,
    NotReady,
    Unreachable,
}

/// Which rules an instance goes by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct InForce {
    pub version: i64,
    pub origin: String,
}

/// Connections to a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct Pool {
    pub used: u64,
    pub max: u64,
}

/// From one instance, or the only one, to what it calls. Null is what its metrics do not tell.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Hop {
    pub from: String,
    pub to: String,
    /// Of `from`, where there are several.
    pub instance: Option<String>,
    /// Whether no order is placed without it.
    pub core: bool,
    pub rate: Option<f64>,
    pub p99_ms: Option<f64>,
    pub in_flight: Option<u64>,
    pub cap: Option<u64>,
    pub waiting: Option<u64>,
    /// `closed`, `open`, `half_open` or `ramping`.
    pub breaker: Option<String>,
    /// While the breaker ramps.
    pub ramp_percent: Option<u64>,
    pub failure_ratio: Option<f64>,
    /// Since the process began.
    pub opened_total: u64,
    pub retry_rate: f64,
    /// Calls a second that a guard did not let out.
    pub rejected_rate: f64,
    /// The faults in force on the link of this hop, by name.
    pub faults: Vec<String>,
}

/// A status that orders pass.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Stage {
    pub status: String,
    /// How many stand there now; of a final status, how many came there since the processes began.
    pub total: u64,
    /// How many come there in a second.
    pub rate: f64,
}

/// Orders whose payment is not decided.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct Pending {
    pub count: u64,
    pub oldest_seconds: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Refused {
    pub mechanism: String,
    pub rate: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Feature {
    pub feature: String,
    pub level: String,
    pub normal: bool,
    /// Answers a second that were served with less.
    pub hit_rate: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Outbox {
    pub service: String,
    pub backlog: u64,
    pub oldest_seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Lag {
    pub topic: String,
    pub consumer: String,
    pub lag: u64,
}

/// What is known beside what the instances say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beside {
    pub dead_letters: Option<u64>,
    /// The faults in force, by link and name; `None` where no links run.
    pub faults: Option<Vec<(String, String)>>,
}

impl Snapshot {
    #[must_use]
    pub fn of(at: DateTime<Utc>, views: &[View<'_>], beside: &Beside) -> Self {
        Self {
            at,
            warming_up: !views.iter().any(|view| view.has_rates()),
            services: views.iter().map(|view| instance::instance(*view)).collect(),
            hops: hops::hops(views, beside.faults.as_deref().unwrap_or_default()),
            funnel: totals::funnel(views),
            pending: totals::pending(views),
            reviews: totals::reviews(views),
            dead_letters: beside.dead_letters,
            compensations: totals::compensations(views),
            refused: totals::refused(views),
            degraded: totals::degraded(views),
            outbox: totals::outbox(views),
            lag: totals::lag(views),
            links: beside.faults.is_some(),
            drill_hint: None,
        }
    }
}

#[cfg(test)]
mod tests;
