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

use super::{Admitted, Exceeds, Invalid, RateLimited, Refused, TokenBucket, clock::Clock};
use rules::Rules;
use store::Store;

pub use config::{PerKeyConfig, TierConfig};

/// A tier of one [`PerKey`], resolved once by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tier {
    number: u8,
    store: u8,
}

impl Tier {
    pub const DEFAULT: Self = Self { number: 0, store: 0 };
}

pub struct PerKey<K> {
    clock: Clock,
    /// The shared one first, then those of the tiers that have one.
    stores: Vec<Store<K>>,
    /// For looking up tiers; what governs a check lies in the store.
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
        Self::with_clock(config, Clock::counter())
    }

    pub fn with_clock(config: PerKeyConfig<K>, clock: Clock) -> Result<Self, Invalid> {
        config.validate()?;
        let rules = Arc::new(Rules::new(&config, &clock, None)?);
        let own = config.tiers.values().filter_map(|tier| tier.max_keys);
        let stores = std::iter::once(config.max_keys).chain(own).map(|cap| Store::new(cap, &rules)).collect();
        let overflow = TokenBucket::with_clock(config.overflow, clock.clone())?;
        let rules = ArcSwap::new(rules);
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
        let found = (0..).zip(&rules.tiers).find(|(_, tier)| tier.name == name);
        found.map_or(Tier::DEFAULT, |(number, tier)| Tier { number, store: tier.store })
    }

    /// Admits one operation of this key, or says when to come back.
    #[inline]
    pub fn check(&self, key: &K, tier: Tier) -> Result<Admitted, RateLimited> {
        match self.store(tier).with(key, &self.clock, |rules, bucket| rules.of(key, tier).check(bucket)) {
            Some(verdict) => verdict,
            None => {
                self.overflowed.fetch_add(1, Ordering::Relaxed);
                self.overflow.check()
            }
        }
    }

    /// Admits an operation that weighs `weight`, whole or not at all.
    pub fn check_n(&self, key: &K, tier: Tier, weight: NonZeroU32) -> Result<Admitted, Refused> {
        match self.store(tier).with(key, &self.clock, |rules, bucket| rules.of(key, tier).check_n(bucket, weight)) {
            Some(verdict) => verdict,
            None => {
                self.overflowed.fetch_add(1, Ordering::Relaxed);
                let limit = self.rules.load().of(key, tier).shape.burst;
                if weight > limit {
                    return Err(Exceeds { weight, limit: limit.get() }.into());
                }
                // What fits the key's own bucket must not be refused for good because of others: where the overflow is
                // smaller, it takes the whole of it.
                self.overflow.check_n(weight.min(self.overflow.burst()))
            }
        }
    }

    /// Other quotas, while in use: every bucket keeps what it holds, up to its new burst. They are in force everywhere
    /// when this returns; checks go on meanwhile. Whether a tier has a store of its own does not change.
    pub fn reconfigure(&self, config: &PerKeyConfig<K>) -> Result<(), Invalid> {
        config.validate()?;
        let _turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = Arc::new(Rules::new(config, &self.clock, Some(&self.rules.load()))?);
        self.overflow.reconfigure(config.overflow)?;
        for (number, store) in (0..).zip(&self.stores) {
            let owner = rules.tiers.iter().find(|tier| number > 0 && tier.store == number);
            let cap = match owner {
                // A tier that is gone keeps the room that it had.
                Some(owner) => config.tiers.get(&owner.name).and_then(|tier| tier.max_keys).unwrap_or(store.cap()),
                None => config.max_keys,
            };
            store.change(&rules, cap, &self.clock);
        }
        self.rules.store(rules);
        Ok(())
    }

    /// Forgets keys whose buckets are full again, and gives their memory back. For a job, every few seconds.
    pub fn evict_idle(&self) -> usize {
        let evicted = self.stores.iter().map(|store| store.evict_idle(&self.clock)).sum();
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

    fn store(&self, tier: Tier) -> &Store<K> {
        // A handle from another limiter may be out of range.
        self.stores.get(usize::from(tier.store)).unwrap_or(&self.stores[0])
    }
}

impl<K: Hash + Eq + Clone + fmt::Debug> fmt::Debug for PerKey<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PerKey").field(&self.snapshot()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Barrier, sync::atomic::AtomicU32, time::Duration};

    use tokio::time::advance;

    use super::*;
    use crate::rate_limit::Quota;

    const SECOND: Duration = Duration::from_secs(1);

    fn config<K: Ord>(per_second: f64, burst: u32, max_keys: usize) -> PerKeyConfig<K> {
        PerKeyConfig {
            default: Quota::new(per_second, burst),
            tiers: BTreeMap::new(),
            overrides: BTreeMap::new(),
            max_keys,
            overflow: Quota::new(5.0, 5),
        }
    }

    fn tier(per_second: f64, burst: u32, max_keys: Option<usize>) -> TierConfig {
        TierConfig { per_second, burst, max_keys }
    }

    fn admitted_now<K: Hash + Eq + Clone + fmt::Debug>(limiter: &PerKey<K>, key: &K, tier: Tier) -> u32 {
        (0..1_000).map(|_| u32::from(limiter.check(key, tier).is_ok())).sum()
    }

    proptest::proptest! {
        /// The last of the keys find no place, and share the overflow.
        #[test]
        fn over_any_window_no_key_gets_more_than_its_quota_and_its_burst_or_its_share_of_the_overflow(
            arrivals in proptest::collection::vec((0_u64..400, 0_u64..12, proptest::bool::weighted(0.05)), 1..300),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            let admissions = runtime.block_on(async {
                let limiter = PerKey::with_clock(config(10.0, 4, 8), Clock::tokio()).unwrap();
                let (start, mut admissions) = (tokio::time::Instant::now(), Vec::new());
                for (gap, key, evict) in arrivals {
                    advance(Duration::from_millis(gap)).await;
                    if evict {
                        limiter.evict_idle();
                    }
                    if limiter.check(&key, Tier::DEFAULT).is_ok() {
                        admissions.push((start.elapsed().as_secs_f64(), key));
                    }
                    proptest::prop_assert!(limiter.snapshot().keys <= 8);
                }
                Ok(admissions)
            })?;
            for (first, &(from, key)) in admissions.iter().enumerate() {
                let mut sum = 0.0;
                for &(at, _) in admissions[first..].iter().filter(|(_, other)| *other == key) {
                    sum += 1.0;
                    let own = 10.0 * (at - from) + 4.0;
                    let shared = 5.0 * (at - from) + 5.0;
                    proptest::prop_assert!(sum <= own + shared + 1e-6, "{sum} of key {key} in {} s", at - from);
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_key_has_its_own_quota_by_override_then_tier_then_default() {
        let mut config = config(10.0, 10, 1_000);
        config.tiers.insert("vip".to_owned(), tier(100.0, 100, None));
        config.overrides.insert("partner".to_owned(), Quota::new(1.0, 3));
        let limiter = PerKey::with_clock(config, Clock::tokio()).unwrap();
        let vip = limiter.tier("vip");
        for (key, tier, expected) in [
            ("ann", Tier::DEFAULT, 10),
            ("bob", Tier::DEFAULT, 10),
            ("cleo", vip, 100),
            ("partner", vip, 3),
            ("dan", limiter.tier("no such tier"), 10),
        ] {
            assert_eq!(admitted_now(&limiter, &key.to_owned(), tier), expected, "{key}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn in_a_shared_store_a_change_of_tier_is_no_second_quota() {
        let mut config = config(10.0, 10, 1_000);
        config.tiers.insert("vip".to_owned(), tier(100.0, 100, None));
        config.tiers.insert("apart".to_owned(), tier(100.0, 100, Some(10)));
        let limiter = PerKey::with_clock(config, Clock::tokio()).unwrap();
        assert_eq!(admitted_now(&limiter, &7_u64, Tier::DEFAULT), 10);
        assert_eq!(admitted_now(&limiter, &7, limiter.tier("vip")), 0, "spent is spent");
        assert_eq!(admitted_now(&limiter, &7, limiter.tier("apart")), 100, "a store of its own knows nothing of it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_million_keys_stay_inside_the_cap() {
        let limiter = PerKey::with_clock(config::<u64>(1.0, 10, 50_000), Clock::tokio()).unwrap();
        for key in 0..1_000_000 {
            let _ = limiter.check(&key, Tier::DEFAULT);
        }
        let peak = limiter.snapshot();
        assert!(peak.keys <= 50_000 && peak.keys > 49_000, "{peak:?}");
        // 64 tables of 781 keys, each with room for 1 024: 16 bytes a key and bucket, and one beside.
        assert!(peak.bytes <= 64 * 1_024 * 17, "{peak:?}");
        assert_eq!(peak.overflowed, 1_000_000 - peak.keys as u64);

        assert_eq!(limiter.evict_idle(), 0, "all in use");
        advance(10 * SECOND).await;
        assert_eq!(limiter.evict_idle(), peak.keys);
        assert_eq!((limiter.snapshot().keys, limiter.snapshot().bytes), (0, 0), "the tables shrink as well");
    }

    #[tokio::test(start_paused = true)]
    async fn long_keys_of_strangers_are_not_kept_either() {
        let limiter = PerKey::with_clock(config::<String>(1.0, 10, 1_000), Clock::tokio()).unwrap();
        for key in 0..100_000 {
            let _ = limiter.check(&format!("{key:0>200}"), Tier::DEFAULT);
        }
        assert!(limiter.snapshot().keys <= 1_000, "{:?}", limiter.snapshot());
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_cap_known_keys_notice_nothing_and_new_ones_share_the_overflow() {
        let limiter = PerKey::with_clock(config::<u64>(0.1, 10, 100), Clock::tokio()).unwrap();
        for key in 0..100 {
            assert!(limiter.check(&key, Tier::DEFAULT).is_ok());
        }
        let strangers = (1_000..2_000).filter(|key| limiter.check(key, Tier::DEFAULT).is_ok()).count();
        assert_eq!(strangers, 5, "the burst of the overflow, for all of them together");
        assert_eq!(admitted_now(&limiter, &42, Tier::DEFAULT), 9, "what it had left");
        advance(SECOND).await;
        let strangers = (1_000..2_000).filter(|key| limiter.check(key, Tier::DEFAULT).is_ok()).count();
        assert_eq!(strangers, 5, "nobody is locked out");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_key_takes_the_place_of_an_idle_one() {
        let limiter = PerKey::with_clock(config::<u64>(10.0, 10, 100), Clock::tokio()).unwrap();
        for key in 0..100 {
            assert!(limiter.check(&key, Tier::DEFAULT).is_ok());
        }
        advance(SECOND / 10).await;
        assert_eq!(admitted_now(&limiter, &1_000, Tier::DEFAULT), 10, "a bucket of its own, not the overflow's 5");
        assert_eq!(limiter.snapshot().overflowed, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_takes_no_place_from_a_tier_with_a_store_of_its_own() {
        let mut config = config::<u64>(0.1, 10, 100);
        config.tiers.insert("vip".to_owned(), tier(10.0, 50, Some(100)));
        let limiter = PerKey::with_clock(config, Clock::tokio()).unwrap();
        for key in 0..10_000 {
            let _ = limiter.check(&key, Tier::DEFAULT);
        }
        assert_eq!(admitted_now(&limiter, &20_000, limiter.tier("vip")), 50);
    }

    #[tokio::test(start_paused = true)]
    async fn what_weighs_more_than_the_keys_own_burst_is_refused_for_good_with_and_without_a_place() {
        let limiter = PerKey::with_clock(config::<u64>(0.1, 10, 1), Clock::tokio()).unwrap();
        let weight = |weight| NonZeroU32::new(weight).unwrap();
        assert!(limiter.check(&1, Tier::DEFAULT).is_ok());
        for key in [1, 2] {
            let exceeds = Exceeds { weight: weight(11), limit: 10 };
            assert_eq!(limiter.check_n(&key, Tier::DEFAULT, weight(11)), Err(Refused::Exceeds(exceeds)));
        }
        // Heavier than the overflow's five, lighter than the key's own ten: it takes all five.
        assert!(limiter.check_n(&2, Tier::DEFAULT, weight(8)).is_ok());
        assert!(matches!(limiter.check_n(&2, Tier::DEFAULT, weight(8)), Err(Refused::Limited(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_quotas_gives_no_key_a_burst_and_locks_none_out() {
        let mut config = config::<u64>(10.0, 10, 1_000);
        config.tiers.insert("vip".to_owned(), tier(100.0, 100, None));
        config.overrides.insert(3, Quota::new(1.0, 5));
        let limiter = PerKey::with_clock(config.clone(), Clock::tokio()).unwrap();
        let vip = limiter.tier("vip");
        advance(3_600 * SECOND).await;
        for (key, tier, expected) in [(1, Tier::DEFAULT, 10), (2, vip, 100), (3, Tier::DEFAULT, 5)] {
            assert_eq!(admitted_now(&limiter, &key, tier), expected);
        }
        assert!(limiter.check_n(&4, vip, NonZeroU32::new(60).unwrap()).is_ok());

        // The default goes up, the tier down, the override away.
        config.default = Quota::new(50.0, 500);
        config.tiers.insert("vip".to_owned(), tier(1.0, 20, None));
        config.overrides.clear();
        limiter.reconfigure(&config).unwrap();
        for (key, tier, retry_after) in
            [(1, Tier::DEFAULT, SECOND / 50), (2, vip, SECOND), (3, Tier::DEFAULT, SECOND / 50)]
        {
            assert_eq!(limiter.check(&key, tier).unwrap_err().retry_after, retry_after, "key {key}");
        }
        assert_eq!(admitted_now(&limiter, &4, vip), 20, "40 held, 20 allowed");
        assert_eq!(admitted_now(&limiter, &5, Tier::DEFAULT), 500, "a new key, a new bucket");
        advance(SECOND).await;
        assert_eq!((admitted_now(&limiter, &1, Tier::DEFAULT), admitted_now(&limiter, &2, vip)), (50, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn handles_to_tiers_outlive_changes() {
        let mut config = config::<u64>(10.0, 10, 1_000);
        config.tiers.insert("vip".to_owned(), tier(100.0, 100, None));
        let limiter = PerKey::with_clock(config.clone(), Clock::tokio()).unwrap();
        let vip = limiter.tier("vip");
        config.tiers.insert("a tier that sorts before it".to_owned(), tier(1.0, 1, None));
        limiter.reconfigure(&config).unwrap();
        assert_eq!(admitted_now(&limiter, &1, vip), 100);
        config.tiers.remove("vip");
        limiter.reconfigure(&config).unwrap();
        assert_eq!(admitted_now(&limiter, &2, vip), 10, "gone: like everybody");
    }

    #[test]
    fn threads_that_meet_in_a_new_key_are_never_admitted_beyond_its_burst() {
        let limiter = PerKey::with_clock(config::<u64>(0.01, 20, 1_000), Clock::tokio()).unwrap();
        for key in 0..50 {
            let (together, admitted) = (Barrier::new(4), AtomicU32::new(0));
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        together.wait();
                        let mine = (0..20).map(|_| u32::from(limiter.check(&key, Tier::DEFAULT).is_ok())).sum();
                        admitted.fetch_add(mine, Ordering::Relaxed);
                    });
                }
            });
            assert_eq!(admitted.into_inner(), 20);
        }
    }

    #[test]
    fn uuids_are_keys_and_a_bad_configuration_is_refused_by_its_path() {
        let user = uuid::Uuid::from_u64_pair(1, 2);
        let mut config = config(10.0, 10, 10);
        config.overrides.insert(user, Quota::new(1.0, 1));
        let limiter = PerKey::with_clock(config.clone(), Clock::tokio()).unwrap();
        assert_eq!(admitted_now(&limiter, &user, Tier::DEFAULT), 1);

        config.tiers.insert("vip".to_owned(), tier(0.0, 1, None));
        assert_eq!(config.validate().unwrap_err().field, "tiers.vip.per_second");
        assert!(limiter.reconfigure(&config).is_err());
        config.tiers.clear();
        config.overrides.insert(user, Quota::new(1.0, 0));
        assert_eq!(config.validate().unwrap_err().field, format!("overrides.{user}.burst"));
        config.overrides.clear();
        config.max_keys = 0;
        assert_eq!(config.validate().unwrap_err().field, "max_keys");
    }
}
