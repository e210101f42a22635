//! One look at an instance, and what two of them say together.

use std::time::Duration;

use serde_json::Value;

use super::super::exposition::{Labels, Samples};

/// The metrics that the live view is made of.
pub const WANTED: &[&str] = &[
    "http_requests_total",
    "http_request_duration_seconds_bucket",
    "http_inflight_requests",
    "http_inflight_limit",
    "stability_rate_limited_total",
    "stability_breaker_state",
    "stability_breaker_open_total",
    "stability_breaker_rejected_total",
    "stability_breaker_failure_ratio",
    "stability_ramp_percent",
    "stability_bulkhead_in_flight",
    "stability_bulkhead_waiting",
    "stability_bulkhead_cap",
    "stability_bulkhead_rejected_total",
    "stability_retry_total",
    "stability_degrade_hit_total",
    "stability_quota_redis_paused",
    "stability_quota_round_trips_total",
    "downstream_request_duration_seconds_bucket",
    "downstream_request_duration_seconds_count",
    "process_resident_memory_bytes",
    "db_pool_connections",
    "db_pool_connections_max",
    "cache_events_total",
    "outbox_backlog",
    "outbox_oldest_age_seconds",
    "kafka_consumer_lag",
    "dead_letters_total",
    "orders_total",
    "orders_entered_total",
    "orders_open",
    "payment_pending",
    "payment_pending_oldest_age_seconds",
    "payment_reviews",
    "payment_refund_reviews",
    "compensation_backlog",
];

/// How an instance was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    Up,
    NotReady(String),
    Unreachable(&'static str),
}

/// What one look came to. Of an instance that cannot be reached nothing else is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Since the watch began.
    pub at: Duration,
    pub condition: Condition,
    pub samples: Samples,
    /// What it says at `/internal/state`.
    pub state: Value,
}

impl Look {
    #[must_use]
    pub fn unreachable(at: Duration, why: &'static str) -> Self {
        Self { at, condition: Condition::Unreachable(why), samples: Samples::default(), state: Value::Null }
    }

    #[must_use]
    pub const fn is_answered(&self) -> bool {
        !matches!(self.condition, Condition::Unreachable(_))
    }
}

/// An instance as it was seen last, and as it was seen some seconds before; rates are those of the time between.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub service: &'a str,
    pub instance: &'a str,
    pub earlier: Option<&'a Look>,
    pub later: Option<&'a Look>,
}

impl<'a> View<'a> {
    /// The last look, if the instance answered it.
    pub fn now(self) -> Option<&'a Look> {
        self.later.filter(|look| look.is_answered())
    }

    /// Both looks with the seconds between them, where rates can be told.
    fn span(self) -> Option<(&'a Samples, &'a Samples, f64)> {
        let (earlier, later) = (self.earlier.filter(|look| look.is_answered())?, self.now()?);
        let seconds = later.at.checked_sub(earlier.at)?.as_secs_f64();
        (seconds > 0.0).then_some((&earlier.samples, &later.samples, seconds))
    }

    #[must_use]
    pub fn has_rates(self) -> bool {
        self.span().is_some()
    }

    /// How much a counter grows in a second, over the series that match.
    pub fn rate(self, name: &str, matches: impl Fn(Labels<'_>) -> bool) -> f64 {
        let Some((earlier, later, seconds)) = self.span() else { return 0.0 };
        let grown = later.growth(earlier, name).filter(|(labels, _)| matches(*labels)).map(|(_, by)| by);
        rounded(grown.sum::<f64>() / seconds)
    }

    /// [`Self::rate`] for each value of a label, where it is not zero.
    pub fn rates_by(self, name: &str, label: &str) -> Vec<(&'a str, Labels<'a>, f64)> {
        let Some((earlier, later, seconds)) = self.span() else { return Vec::new() };
        let grown = later.growth(earlier, name).filter(|(_, by)| *by > 0.0);
        grown.filter_map(|(labels, by)| Some((labels.get(label)?, labels, by / seconds))).collect()
    }

    /// A quantile of a histogram of seconds, in milliseconds.
    pub fn quantile_ms(self, name: &str, q: f64, matches: impl Fn(Labels<'_>) -> bool) -> Option<f64> {
        let (earlier, later, _) = self.span()?;
        later.quantile(earlier, name, q, matches).map(|seconds| rounded(seconds * 1_000.0))
    }

    /// What a gauge says now, over the series that match.
    pub fn gauge(self, name: &str, matches: impl Fn(Labels<'_>) -> bool) -> Option<f64> {
        self.now()?.samples.sum(name, matches)
    }

    /// A gauge without a fraction.
    pub fn count(self, name: &str, matches: impl Fn(Labels<'_>) -> bool) -> Option<u64> {
        self.gauge(name, matches).map(whole)
    }
}

/// Gauges are floats, counts are not; the cast ends at the bounds.
#[must_use]
pub fn whole(value: f64) -> u64 {
    value.max(0.0).round() as u64
}

/// More digits than these say nothing, and each costs every listener a byte.
#[must_use]
pub fn rounded(value: f64) -> f64 {
    // The sum of nothing is a negative zero, which would be told as one.
    (value * 100.0).round() / 100.0 + 0.0
}
