//! The limits of one quota, and why a set of them is refused.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How the quota counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// Two counters: this window's, and the one before in proportion to what of it is still in view.
    Sliding,
    /// One counter that begins anew. Simpler to explain; admits up to twice the limit around its edge.
    Fixed,
}

/// What one quota admits, and what it may cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuotaConfig {
    /// Part of every key, and the name in logs.
    pub name: String,
    /// Put before every key, so that several systems can share one Redis. Usually empty.
    pub prefix: String,
    /// Weight that all replicas together admit in a window.
    pub limit: u32,
    #[serde(with = "millis")]
    pub window_ms: Duration,
    pub algorithm: Window,
    /// What all replicas together hold in advance at most, each an equal part of it and at least 1: this is the error
    /// of the quota. Absent: a tenth of the limit.
    pub max_lease: Option<u32>,
    /// Lease what `lease_for_ms` will use at the present rate, instead of always the most.
    pub adaptive: bool,
    #[serde(with = "millis")]
    pub lease_for_ms: Duration,
    /// What a call waits for Redis at most, everything together.
    #[serde(with = "millis")]
    pub timeout_ms: Duration,
    /// Failures in a row after which Redis is left alone, and for how long.
    pub pause_after: u32,
    #[serde(with = "millis")]
    pub pause_ms: Duration,
    /// The time whose part of the quota may be admitted at once while Redis is away.
    #[serde(with = "millis")]
    pub local_burst_ms: Duration,
    /// Replicas assumed until Redis has told how many there are.
    pub expected_replicas: u32,
    /// How often a replica says that it is there. It counts for three times as long.
    #[serde(with = "millis")]
    pub heartbeat_ms: Duration,
    /// Keys remembered at once. Keys beyond that share one quota among them until an idle one has gone.
    pub max_keys: usize,
}

impl Default for QuotaConfig {
    fn default() -> Self {
        Self {
            name: "quota".to_owned(),
            prefix: String::new(),
            limit: 1_000,
            window_ms: Duration::from_secs(1),
            algorithm: Window::Sliding,
            max_lease: None,
            adaptive: true,
            // Ten round trips a second and key at most, whatever the rate, as long as the greatest lease allows it.
            lease_for_ms: Duration::from_millis(100),
            // A round trip takes under 1 ms; who waits longer had better be limited by the local share.
            timeout_ms: Duration::from_millis(20),
            pause_after: 3,
            pause_ms: Duration::from_secs(1),
            local_burst_ms: Duration::from_millis(100),
            // Too many make the local share too small, which is the harmless error.
            expected_replicas: 2,
            heartbeat_ms: Duration::from_secs(1),
            max_keys: 10_000,
        }
    }
}

/// A field that cannot stand, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {reason}")]
pub struct BadQuota {
    pub field: &'static str,
    pub reason: &'static str,
}

impl QuotaConfig {
    pub fn validate(&self) -> Result<(), BadQuota> {
        let positive = "must be at least 1";
        let window = self.window_ms;
        let checks = [
            (!self.name.is_empty(), "name", "must not be empty"),
            (self.limit >= 1, "limit", positive),
            (window >= Duration::from_millis(10), "window_ms", "must be at least 10"),
            (window <= Duration::from_secs(86_400), "window_ms", "must be at most a day"),
            (self.max_lease != Some(0), "max_lease", positive),
            (self.max_lease.is_none_or(|lease| lease <= self.limit), "max_lease", "must not exceed limit"),
            (!self.lease_for_ms.is_zero(), "lease_for_ms", positive),
            (self.lease_for_ms <= window, "lease_for_ms", "must not exceed window_ms: leases end with their window"),
            (!self.timeout_ms.is_zero(), "timeout_ms", positive),
            (self.pause_after >= 1, "pause_after", positive),
            (!self.pause_ms.is_zero(), "pause_ms", positive),
            (self.local_burst_ms <= window, "local_burst_ms", "must not exceed window_ms"),
            (self.expected_replicas >= 1, "expected_replicas", positive),
            (self.heartbeat_ms >= Duration::from_millis(10), "heartbeat_ms", "must be at least 10"),
            (self.max_keys >= 1, "max_keys", positive),
        ];
        match checks.into_iter().find(|(holds, ..)| !holds) {
            Some((_, field, reason)) => Err(BadQuota { field, reason }),
            None => Ok(()),
        }
    }

    /// The most that one of `replicas` holds in advance.
    pub(super) fn lease_cap(&self, replicas: u32) -> u32 {
        (self.max_lease.unwrap_or(self.limit / 10) / replicas.max(1)).max(1)
    }
}

/// Durations as whole milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u32::deserialize(deserializer).map(|ms| Duration::from_millis(u64::from(ms)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_stand_and_what_cannot_work_is_refused_by_field() {
        assert_eq!(QuotaConfig::default().validate(), Ok(()));
        let field = |change: &dyn Fn(&mut QuotaConfig)| {
            let mut config = QuotaConfig::default();
            change(&mut config);
            config.validate().err().map(|bad| bad.field)
        };
        assert_eq!(field(&|c| c.limit = 0), Some("limit"));
        assert_eq!(field(&|c| c.max_lease = Some(1_001)), Some("max_lease"));
        assert_eq!(field(&|c| c.max_lease = Some(0)), Some("max_lease"));
        assert_eq!(field(&|c| c.window_ms = Duration::ZERO), Some("window_ms"));
        assert_eq!(field(&|c| c.local_burst_ms = Duration::from_secs(2)), Some("local_burst_ms"));
        assert_eq!(field(&|c| c.lease_for_ms = Duration::from_secs(2)), Some("lease_for_ms"));
        assert_eq!(field(&|c| c.expected_replicas = 0), Some("expected_replicas"));
    }

    #[test]
    fn durations_are_whole_milliseconds_and_unknown_fields_are_refused() {
        let read = serde_json::from_str::<QuotaConfig>(r#"{"limit":7,"window_ms":250,"algorithm":"fixed"}"#).unwrap();
        assert_eq!((read.limit, read.window_ms, read.algorithm), (7, Duration::from_millis(250), Window::Fixed));
        assert!(serde_json::from_str::<QuotaConfig>(r#"{"limits":7}"#).is_err());
    }

    #[test]
    fn the_replicas_hold_one_lease_between_them() {
        let config = QuotaConfig { limit: 200, ..QuotaConfig::default() };
        assert_eq!((config.lease_cap(1), config.lease_cap(2), config.lease_cap(50)), (20, 10, 1));
    }
}
