//! What a per-key limiter is told: quotas by default, tier and key, and how many keys it may keep.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::rate_limit::{Invalid, Quota};

/// Tiers fit the tag of a bucket's word, with the default as number 0.
pub(super) const MOST_TIERS: usize = 63;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "K: Deserialize<'de> + Ord", serialize = "K: Serialize + Ord"))]
pub struct PerKeyConfig<K> {
    /// For keys without a tier and without an override.
    pub default: Quota,
    /// By name, such as `vip`.
    #[serde(default = "BTreeMap::new")]
    pub tiers: BTreeMap<String, TierConfig>,
    /// By key; they win over the tier.
    #[serde(default = "BTreeMap::new")]
    pub overrides: BTreeMap<K, Quota>,
    /// Keys kept at most. Each takes some 30 bytes and what the key itself owns.
    pub max_keys: usize,
    /// Shared by all keys that found no room.
    pub overflow: Quota,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierConfig {
    pub per_second: f64,
    pub burst: u32,
    /// A store of its own, of this size. Absent: shared with the default. Whether it has one is fixed at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_keys: Option<usize>,
}

impl TierConfig {
    pub(super) const fn quota(&self) -> Quota {
        Quota::new(self.per_second, self.burst)
    }
}

impl<K: fmt::Debug> PerKeyConfig<K> {
    pub fn validate(&self) -> Result<(), Invalid> {
        self.default.validate().map_err(|invalid| invalid.within("default"))?;
        self.overflow.validate().map_err(|invalid| invalid.within("overflow"))?;
        if self.max_keys == 0 {
            return Err(Invalid::new("max_keys", "0 would put everybody into the overflow"));
        }
        if self.tiers.len() > MOST_TIERS {
            return Err(Invalid::new("tiers", format!("{} are more than {MOST_TIERS}", self.tiers.len())));
        }
        for (name, tier) in &self.tiers {
            let path = format!("tiers.{name}");
            if name.is_empty() {
                return Err(Invalid::new("tiers", "a tier without a name would be the default"));
            }
            tier.quota().validate().map_err(|invalid| invalid.within(&path))?;
            if tier.max_keys == Some(0) {
                return Err(Invalid::new("max_keys", "0 would put the whole tier into the overflow").within(&path));
            }
        }
        for (key, quota) in &self.overrides {
            quota.validate().map_err(|invalid| invalid.within(&format!("overrides.{key:?}")))?;
        }
        Ok(())
    }
}
