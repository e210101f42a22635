//! # Per key: a quota for each user, tenant or address, in bounded memory
//!
//! **Problem.** One hot user takes what belongs to all; and a map of users is itself a thing that an attacker can fill.
//!
//! **Rule.** Each key has a token bucket of its own, by its own override, else its tier's quota, else the default. At
//! most `max_keys` are kept. Buckets that are full again are forgotten, which changes nothing for their owners. When
//! all places are taken by keys in use, further keys share *one* overflow bucket: they are slowed together, nobody who
//! has a place is touched, and nobody is locked out.
//!
//! Tiers share one store, and with it the cap, unless a tier has `max_keys` of its own: a flood of anonymous keys then
//! takes no place from it. In a shared store a user who changes tier keeps the share of the quota that was spent.
//!
//! **Not for** limits across replicas (the distributed quota), or for keys whose number is small and known (one bucket
//! each).
//!
//! **When you copy this**, take `store`, `gcra`, `clock`, `quota` and `verdict` along, and call [`PerKey::evict_idle`]
//! from a job, every few seconds: without it memory follows the peak and not the present.
//!
//! **Proved by** the drill `hot-user`, and the test with a million keys.

mod config;
mod rules;
mod store;

use std::{
    fmt,
    hash::Hash,
    num::NonZeroU32,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use serde::Serialize;

use super::{Admitted, Exceeds, Invalid, RateLimited, Refused, TokenBucket, clock::EpochClock};
use rules::Rules;
use store::Store;

pub use config::{PerKeyConfig, TierConfig};

/// A tier of one [`PerKey`], resolved once by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tier(u8);

impl Tier {
    pub const DEFAULT: Self = Self(0);
}

pub struct PerKey<K> {
    clock: EpochClock,
    /// The shared one first, then those of the tiers that have one.
    stores: Vec<Store<K>>,
    rules: ArcSwap<Rules<K>>,
    overflow: TokenBucket,
    overflowed: AtomicU64,
    evicted: AtomicU64,
    /// Changes take turns; checks never wait for them.
    changing: Mutex<()>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PerKeySnapshot {
    pub keys: usize,
    pub max_keys: usize,
    /// Memory that the tables hold, without what the keys own themselves.
    pub bytes: usize,
    /// Checks that went to the overflow bucket.
    pub overflowed: u64,
    /// Idle keys forgotten.
    pub evicted: u64,
}

impl<K: Hash + Eq + Clone + fmt::Debug> PerKey<K> {
    pub fn new(config: PerKeyConfig<K>) -> Result<Self, Invalid> {
        config.validate()?;
        let clock = EpochClock::start();
        let mut stores = vec![Store::new(config.max_keys)];
        stores.extend(config.tiers.values().filter_map(|tier| tier.max_keys).map(Store::new));
        let overflow = TokenBucket::new(config.overflow)?;
        let rules = ArcSwap::from_pointee(Rules::new(&config, clock, None)?);
        Ok(Self {
            clock,
            stores,
            rules,
            overflow,
            overflowed: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            changing: Mutex::new(()),
        })
    }

    /// The tier of that name; the default where there is none, so that an unknown name gets no more than anybody.
    #[must_use]
    pub fn tier(&self, name: &str) -> Tier {
        let rules = self.rules.load();
        let index = rules.tiers.iter().position(|tier| tier.name == name);
        index.and_then(|index| u8::try_from(index).ok()).map_or(Tier::DEFAULT, Tier)
    }

    /// Admits one operation of this key, or says when to come back.
    pub fn check(&self, key: &K, tier: Tier) -> Result<Admitted, RateLimited> {
        let rules = self.rules.load();
        let (store, policy) = rules.of(key, tier);
        let spent = self.stores[store].with(
            key,
            || self.clock.read(),
            |key, bucket, now| rules.is_idle(key, bucket, now),
            |bucket| policy.check(bucket),
        );
        spent.unwrap_or_else(|| {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
            self.overflow.check()
        })
    }

    /// Admits an operation that weighs `weight`, whole or not at all.
    pub fn check_n(&self, key: &K, tier: Tier, weight: NonZeroU32) -> Result<Admitted, Refused> {
        let rules = self.rules.load();
        let (store, policy) = rules.of(key, tier);
        let limit = policy.shape.burst.get();
        if weight.get() > limit {
            return Err(Exceeds { weight, limit }.into());
        }
        let spent = self.stores[store].with(
            key,
            || self.clock.read(),
            |key, bucket, now| rules.is_idle(key, bucket, now),
            |bucket| policy.check_n(bucket, weight),
        );
        spent.unwrap_or_else(|| {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
            // The overflow may be smaller than the key's own bucket. What fits the key is never refused for good
            // because of others, so it takes the whole overflow then.
            self.overflow.check_n(weight.min(self.overflow.burst()))
        })
    }

    /// Other quotas, while in use: every bucket keeps what it holds, up to its new burst. Returns when all have been
    /// rewritten; checks go on meanwhile. Whether a tier has a store of its own does not change.
    pub fn reconfigure(&self, config: &PerKeyConfig<K>) -> Result<(), Invalid> {
        config.validate()?;
        let _turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.rules.load_full();
        let new = Arc::new(Rules::new(config, self.clock, Some(&old))?);
        self.overflow.reconfigure(config.overflow)?;
        self.stores[0].resize(config.max_keys);
        for tier in new.tiers.iter().filter(|tier| tier.store > 0) {
            if let Some(max_keys) = config.tiers.get(&tier.name).and_then(|tier| tier.max_keys) {
                self.stores[tier.store].resize(max_keys);
            }
        }
        // Faster quotas are converted before they are in force and slower ones after it, so that a bucket met between
        // the two steps is worth less, never more.
        self.convert(&old, &new, |from, to| to < from);
        self.rules.store(Arc::clone(&new));
        self.convert(&old, &new, |from, to| to >= from);
        Ok(())
    }

    /// Forgets keys whose buckets are full again, and gives their memory back. For a job, every few seconds.
    pub fn evict_idle(&self) -> usize {
        let rules = self.rules.load();
        let now = self.clock.read();
        let evicted =
            self.stores.iter().map(|store| store.retain_recent(|key, bucket| rules.is_idle(key, bucket, now))).sum();
        self.evicted.fetch_add(evicted as u64, Ordering::Relaxed);
        evicted
    }

    #[must_use]
    pub fn snapshot(&self) -> PerKeySnapshot {
        PerKeySnapshot {
            keys: self.stores.iter().map(Store::len).sum(),
            max_keys: self.stores.iter().map(Store::cap).sum(),
            bytes: self.stores.iter().map(Store::bytes).sum(),
            overflowed: self.overflowed.load(Ordering::Relaxed),
            evicted: self.evicted.load(Ordering::Relaxed),
        }
    }

    fn convert(&self, old: &Rules<K>, new: &Rules<K>, applies: impl Fn(u64, u64) -> bool) {
        let now = self.clock.read();
        for store in &self.stores {
            store.for_each(|key, bucket| {
                let (from, to) = (&old.by_bucket(key, bucket).shape, &new.by_bucket(key, bucket).shape);
                if from != to && applies(from.cell, to.cell) {
                    bucket.convert(from, to, now);
                }
            });
        }
    }
}

impl<K: Hash + Eq + Clone + fmt::Debug> fmt::Debug for PerKey<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PerKey").field(&self.snapshot()).finish()
    }
}
