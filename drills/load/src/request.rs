//! A request, and what became of it.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use contracts::{OrderId, UserId, order::PlaceOrder};
use reqwest::Method;
use serde::{Serialize, Serializer};

use crate::mix::Kind;

/// What is sent. No `Debug`: it holds a token.
#[derive(Clone, Serialize)]
pub struct Request {
    pub number: u64,
    /// From 0; above it, the client asks again.
    pub attempt: u32,
    pub kind: Kind,
    /// Of the user who wants most, or for what everybody wants.
    pub hot: bool,
    pub user: UserId,
    #[serde(skip)]
    pub token: Arc<str>,
    #[serde(serialize_with = "method")]
    pub method: Method,
    pub path: String,
    /// The idempotency key of a write.
    pub key: Option<String>,
    pub body: Option<PlaceOrder>,
    /// Sent along, so that a line of a log leads back here.
    pub request_id: String,
}

impl Request {
    /// The same once more, with a key of its own if its client starts over.
    #[must_use]
    pub fn again(&self, new_key: bool) -> Self {
        let attempt = self.attempt + 1;
        let key = self.key.as_ref().map(|key| if new_key { format!("{key}~") } else { key.clone() });
        Self { attempt, key, ..self.clone() }
    }
}

/// An answer that arrived whole.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    /// Whether it said that it repeats an earlier outcome.
    pub replayed: bool,
    pub body: Bytes,
}

/// Why none did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// There was no connection, so nothing was asked.
    NotSent,
    /// The connection ended before the answer did.
    Broken,
}

/// How a request ended, as its client saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    Status(u16),
    /// The client gave up waiting.
    TimedOut,
    NotSent,
    Broken,
}

/// A request with its end: what an oracle compares with the stores afterwards.
#[derive(Clone, Serialize)]
pub struct Answer {
    #[serde(flatten, serialize_with = "request")]
    pub request: Arc<Request>,
    pub outcome: Outcome,
    /// Whether the client leaves it at that.
    pub last: bool,
    pub replayed: bool,
    /// The order that the answer speaks of, in an order or in a problem.
    pub order_id: Option<OrderId>,
    /// That order's status as it was told.
    pub order_status: Option<String>,
    /// The problem's type.
    pub problem: Option<String>,
    /// The intended start, from the start of the run.
    #[serde(rename = "intended_ms", serialize_with = "millis")]
    pub intended: Duration,
    /// The real one; later than intended by the generator's own lag.
    #[serde(rename = "sent_ms", serialize_with = "millis")]
    pub sent: Duration,
    #[serde(rename = "answered_ms", serialize_with = "millis")]
    pub answered: Duration,
    /// When the answer was there, by the wall clock.
    pub at: DateTime<Utc>,
}

impl Answer {
    /// What a user would have waited: from the intended start.
    #[must_use]
    pub fn latency(&self) -> Duration {
        self.answered.saturating_sub(self.intended)
    }
}

impl Outcome {
    /// 2xx.
    #[must_use]
    pub fn is_success(self) -> bool {
        matches!(self, Self::Status(200..=299))
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotSent => Self::NotSent,
            Failure::Broken => Self::Broken,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => f.pad(&status.to_string()),
            Self::TimedOut => f.pad("timed_out"),
            Self::NotSent => f.pad("not_sent"),
            Self::Broken => f.pad("broken"),
        }
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

// serde serializes an `Arc` only with a feature that nothing else here needs.
fn request<S: Serializer>(request: &Arc<Request>, serializer: S) -> Result<S::Ok, S::Error> {
    request.as_ref().serialize(serializer)
}

fn method<S: Serializer>(method: &Method, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(method.as_str())
}

fn millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_micros() as f64 / 1000.0)
}
