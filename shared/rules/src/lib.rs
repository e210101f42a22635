//! The typed rule set: everything that governs traffic and that an operator may want to change.
//!
//! An empty document is valid: each value has a default, with its reason beside it. [`Rules::from_toml`] reads a
//! document, refuses unknown keys, and validates it as a whole, so that a bad one never comes into force.
//!
//! Reading order: [`schema`](self) (what can be said, with the defaults) · `document` (from text to rules, and every
//! refusal with its path and line) · `validate` (what one value must be given another) ·
//! `changes` (what differs between two) · [`source`] (which document
//! to start with, and what to keep for the next time) · [`handle`] (the rules in force, and their change).

mod changes;
mod document;
pub mod handle;
mod millis;
mod path;
mod schema;
pub mod source;
mod validate;

pub use changes::Change;
pub use document::{Invalid, RulesError};
pub use handle::{InForce, RulesHandle};
pub use schema::{
    AdmissionLevel, AvailabilityLevel, Cache, Chain, Compensate, CouponLevel, Criticality, Database, Degrade,
    Downstream, Downstreams, FEATURES, Gateway, Idempotency, KeyLimit, KeyLimits, Levels, Messaging, Network,
    PaymentLevel, Quota, QuotaAlgorithm, ROUTES, RecommendationLevel, Reconcile, Recover, Route, Rules, Service,
    Services, feature, service_of,
};

/// How long a service keeps a connection that is not used. No rule: it is what the rules of its callers are held
/// against, since a client that keeps one for longer meets closed connections.
pub const KEEP_ALIVE: std::time::Duration = std::time::Duration::from_secs(75);

/// Where the rules in force came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Console,
    LastKnownGood,
    File,
    Default,
}

impl Origin {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Console => "console",
            Self::LastKnownGood => "last_known_good",
            Self::File => "file",
            Self::Default => "default",
        }
    }
}
