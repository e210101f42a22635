//! A configuration in force: which policy governs a key, and which store it lives in.

use std::{collections::HashMap, hash::Hash};

use super::{PerKeyConfig, Tier, TierConfig, config::MOST_TIERS};
use crate::rate_limit::{
    Invalid,
    clock::EpochClock,
    gcra::{Bucket, Policy},
};

pub(super) struct Rules<K> {
    /// By number: a number once given keeps its name, since buckets carry it.
    pub tiers: Vec<TierRules>,
    overrides: HashMap<K, Policy>,
}

pub(super) struct TierRules {
    pub name: String,
    pub store: usize,
    policy: Policy,
}

impl<K: Hash + Eq + Clone> Rules<K> {
    pub fn new(config: &PerKeyConfig<K>, clock: EpochClock, before: Option<&Self>) -> Result<Self, Invalid> {
        let mut named: Vec<(String, usize)> = vec![(String::new(), 0)];
        if let Some(before) = before {
            named = before.tiers.iter().map(|tier| (tier.name.clone(), tier.store)).collect();
        }
        let mut next_store = 1;
        for (name, tier) in &config.tiers {
            if named.iter().all(|(known, _)| known != name) {
                let own = before.is_none() && tier.max_keys.is_some();
                named.push((name.clone(), if own { next_store } else { 0 }));
                next_store += usize::from(own);
            }
        }
        if named.len() > MOST_TIERS + 1 {
            return Err(Invalid::new("tiers", format!("more than {MOST_TIERS} names since the start")));
        }
        let mut tiers = Vec::with_capacity(named.len());
        for (number, (name, store)) in (0..).zip(named) {
            // A tier that is gone is treated like everybody.
            let quota = config.tiers.get(&name).map_or(config.default, TierConfig::quota);
            tiers.push(TierRules { name, store, policy: Policy::new(quota.shape()?, number, clock) });
        }
        let mut overrides = HashMap::with_capacity(config.overrides.len());
        for (key, quota) in &config.overrides {
            overrides.insert(key.clone(), Policy::new(quota.shape()?, 0, clock));
        }
        Ok(Self { tiers, overrides })
    }

    pub fn of(&self, key: &K, tier: Tier) -> (usize, &Policy) {
        // A handle from another limiter may be out of range.
        let tier = self.tiers.get(usize::from(tier.0)).unwrap_or(&self.tiers[0]);
        (tier.store, self.of_override(key).unwrap_or(&tier.policy))
    }

    /// The quota by which this bucket was last spent from.
    pub fn by_bucket(&self, key: &K, bucket: &Bucket) -> &Policy {
        let tier = self.tiers.get(usize::from(bucket.tag())).unwrap_or(&self.tiers[0]);
        self.of_override(key).unwrap_or(&tier.policy)
    }

    fn of_override(&self, key: &K) -> Option<&Policy> {
        // Most limiters have none, and then the key need not be hashed.
        if self.overrides.is_empty() { None } else { self.overrides.get(key) }
    }

    pub fn is_idle(&self, key: &K, bucket: &Bucket, now: u64) -> bool {
        bucket.is_full(&self.by_bucket(key, bucket).shape, now)
    }
}
