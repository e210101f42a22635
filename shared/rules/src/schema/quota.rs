//! Quotas of the whole cluster, counted in Redis and leased in batches.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::ms;
use crate::millis;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quota {
    /// What all instances together admit in a window.
    pub limit: u32,
    #[serde(rename = "window_ms", with = "millis")]
    pub window: Duration,
    pub algorithm: QuotaAlgorithm,
    /// What all instances together hold in advance at most: the error of the quota. Unset: a tenth of the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lease: Option<u32>,
    /// Lease what `lease_for_ms` will use at the present rate, instead of always the most.
    pub adaptive: bool,
    #[serde(rename = "lease_for_ms", with = "millis")]
    pub lease_for: Duration,
    /// What a request waits for Redis at most, everything together.
    #[serde(rename = "timeout_ms", with = "millis")]
    pub timeout: Duration,
    /// Failures in a row after which Redis is left alone, and for how long.
    pub pause_after: u32,
    #[serde(rename = "pause_ms", with = "millis")]
    pub pause: Duration,
    /// The time whose part of the quota may be admitted at once while Redis is away.
    #[serde(rename = "local_burst_ms", with = "millis")]
    pub local_burst: Duration,
    /// Instances assumed until Redis has told how many there are.
    pub expected_replicas: u32,
    /// How often an instance says that it is there.
    #[serde(rename = "heartbeat_ms", with = "millis")]
    pub heartbeat: Duration,
    /// Keys remembered at once.
    pub max_keys: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaAlgorithm {
    /// Two counters: this window's, and the last one's in proportion to what of it is still in view.
    Sliding,
    /// One counter that begins anew; admits up to twice the limit around its edge.
    Fixed,
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            // Two instances at the limit of one: a third one adds safety and no load on what lies behind.
            limit: 600,
            window: ms(1_000),
            algorithm: QuotaAlgorithm::Sliding,
            max_lease: None,
            adaptive: true,
            // Ten round trips a second at most, whatever the rate.
            lease_for: ms(100),
            // A round trip takes under 1 ms; whoever waits longer had better be limited by the local share.
            timeout: ms(20),
            pause_after: 3,
            // As long as Redis takes to restart; one request in a second then pays the timeout to find out.
            pause: ms(1_000),
            local_burst: ms(100),
            // Too many make the local share too small, which is the harmless error.
            expected_replicas: 2,
            // It counts for three times as long, so that one that is lost makes no difference; one round trip a second.
            heartbeat: ms(1_000),
            // A route has one key; this is for a quota that would be counted for each of many, at some hundred bytes.
            max_keys: 10_000,
        }
    }
}

/// The one that order's route names.
pub(super) fn defaults() -> BTreeMap<String, Quota> {
    BTreeMap::from([("orders".to_owned(), Quota::default())])
}
