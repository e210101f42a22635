//! A configuration in force: which policy governs a key, and which store it lives in.

use std::{collections::HashMap, hash::Hash};

use super::{PerKeyConfig, Tier, TierConfig, config::MOST_TIERS};
use crate::rate_limit::{
    Invalid,
    clock::Clock,
    gcra::{Bucket, Policy},
};

pub(super) struct Rules<K> {
    /// By number: a number once given keeps its name, since buckets carry it.
    pub tiers: Vec<TierRules>,
    overrides: HashMap<K, Policy>,
}

pub(super) struct TierRules {
    pub name: String,
    /// Whether a tier has a store of its own is fixed when the limiter is made, or handles would point to empty buckets.
    pub store: u8,
    policy: Policy,
}

impl<K: Hash + Eq> Rules<K> {
    pub fn new(config: &PerKeyConfig<K>, clock: &Clock, before: Option<&Self>) -> Result<Self, Invalid>
    where
        K: Clone,
    {
        let mut named: Vec<(String, u8)> = vec![(String::new(), 0)];
        if let Some(before) = before {
            named = before.tiers.iter().map(|tier| (tier.name.clone(), tier.store)).collect();
        }
        let mut next_store = 1;
        for (name, tier) in &config.tiers {
            if named.iter().all(|(known, _)| known != name) {
                let own = before.is_none() && tier.max_keys.is_some();
                named.push((name.clone(), if own { next_store } else { 0 }));
                next_store += u8::from(own);
            }
        }
        if named.len() > MOST_TIERS + 1 {
            return Err(Invalid::new("tiers", format!("more than {MOST_TIERS} names since the start")));
        }
        let mut tiers = Vec::with_capacity(named.len());
        for (number, (name, store)) in (0..).zip(named) {
            // A tier that is gone is treated like everybody.
            let quota = config.tiers.get(&name).map_or(config.default, TierConfig::quota);
            tiers.push(TierRules { name, store, policy: Policy::new(quota.shape()?, number, clock.clone()) });
        }
        let mut overrides = HashMap::with_capacity(config.overrides.len());
        for (key, quota) in &config.overrides {
            overrides.insert(key.clone(), Policy::new(quota.shape()?, 0, clock.clone()));
        }
        Ok(Self { tiers, overrides })
    }

    #[inline]
    pub fn of(&self, key: &K, tier: Tier) -> &Policy {
        // A handle from another limiter may be out of range.
        self.of_override(key).unwrap_or(&self.tiers.get(usize::from(tier.number)).unwrap_or(&self.tiers[0]).policy)
    }

    /// The policy by which this bucket was last spent from.
    pub fn by_bucket(&self, key: &K, bucket: &Bucket) -> &Policy {
        self.of_override(key).unwrap_or(&self.tiers.get(usize::from(bucket.tag())).unwrap_or(&self.tiers[0]).policy)
    }

    fn of_override(&self, key: &K) -> Option<&Policy> {
        // Most limiters have none, and then the key need not be hashed.
        if self.overrides.is_empty() { None } else { self.overrides.get(key) }
    }
}
