//! What every drill writes down of the system, whether or not a check speaks of it: what the report draws.

use contracts::Service;

/// Whose guards are looked at: those who call others.
pub const SERVICES: [Service; 2] = [Service::Order, Service::Payment];

pub const IN_FLIGHT: &str = "http_inflight_requests";
pub const IN_FLIGHT_CAP: &str = "http_inflight_limit";
pub const BULKHEAD: &str = "stability_bulkhead_in_flight";
pub const BULKHEAD_CAP: &str = "stability_bulkhead_cap";
pub const BREAKER: &str = "stability_breaker_state";
/// Of the calls that a breaker would let through, how many in a hundred it does: less than all only on the ramp.
pub const RAMP: &str = "stability_ramp_percent";
pub const DEGRADED: &str = "stability_degrade_hit_total";
pub const REFUSED: &str = "stability_rate_limited_total";
pub const BULKHEAD_REFUSED: &str = "stability_bulkhead_rejected_total";
pub const BREAKER_REFUSED: &str = "stability_breaker_rejected_total";
pub const RETRIED: &str = "stability_retry_total";
pub const PENDING: &str = "payment_pending";
pub const DEFERRED: &str = "payment_deferred";
pub const OUTBOX: &str = "outbox_backlog";

pub const METRICS: [&str; 14] = [
    IN_FLIGHT,
    IN_FLIGHT_CAP,
    BULKHEAD,
    BULKHEAD_CAP,
    BREAKER,
    RAMP,
    DEGRADED,
    REFUSED,
    BULKHEAD_REFUSED,
    BREAKER_REFUSED,
    RETRIED,
    PENDING,
    DEFERRED,
    OUTBOX,
];

/// By service and metric, as looks are kept.
pub fn all() -> impl Iterator<Item = (String, String)> {
    SERVICES.iter().flat_map(|service| METRICS.iter().map(|metric| (service.to_string(), (*metric).to_owned())))
}
