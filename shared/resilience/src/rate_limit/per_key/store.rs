//! A map of buckets whose memory has a hard cap.
//!
//! governor's own keyed stores never give memory back: a million string keys stay at 100 MB for ever. Here a key that
//! finds no room is told so ([`Store::with`] answers `None`), a bucket that is full again is forgotten (it would be
//! made anew exactly as it is), and the tables shrink after it.
//!
//! Sharded, each shard under a lock that a check takes for reading only, since a bucket is an atomic word. The rules in
//! force lie in each shard, beside the buckets that they govern, so that both change in one step and no check ever
//! applies one quota to a bucket kept by another.
//!
//! Keys are hashed by a seeded multiplication, which costs a fifth of the standard library's SipHash and resists less:
//! somebody who found keys that collide would make the look-ups in a shard as slow as its room is large, which the cap
//! bounds, and could not do more.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::{BuildHasher, Hash, Hasher},
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::rules::Rules;
use crate::rate_limit::{clock::Clock, gcra::Bucket};

/// More shards than cores, so that two threads seldom meet; fewer for small stores, so that each has some room.
const MOST_SHARDS: usize = 64;
const KEYS_PER_SHARD: usize = 256;
/// A full shard is swept at most this often: a flood of new keys must not turn every check into a sweep.
const SWEEP_EVERY: u64 = 50_000_000;

pub(super) struct Store<K> {
    shards: Box<[RwLock<Shard<K>>]>,
    room_per_shard: AtomicUsize,
    seed: Seed,
}

struct Shard<K> {
    rules: Arc<Rules<K>>,
    buckets: HashMap<K, Bucket, Seed>,
    swept_at: u64,
}

impl<K: Hash + Eq + Clone> Store<K> {
    /// Room for `cap` keys, a little less where `cap` is no multiple of the shards.
    pub fn new(cap: usize, rules: &Arc<Rules<K>>) -> Self {
        let shards = (cap / KEYS_PER_SHARD).next_power_of_two().clamp(1, MOST_SHARDS);
        let seed = Seed::draw();
        let shard = |_| {
            RwLock::new(Shard { rules: Arc::clone(rules), buckets: HashMap::with_hasher(seed.clone()), swept_at: 0 })
        };
        Self { shards: (0..shards).map(shard).collect(), room_per_shard: AtomicUsize::new((cap / shards).max(1)), seed }
    }

    /// Runs `spend` on the key's bucket and the rules in force for it. A new key gets a full bucket, after idle ones are
    /// forgotten where that is needed. `None`: there is no room, and `spend` has not run.
    #[inline]
    pub fn with<R>(&self, key: &K, clock: &Clock, spend: impl FnOnce(&Rules<K>, &Bucket) -> R) -> Option<R> {
        let lock = self.lock_of(key);
        {
            let shard = read(lock);
            if let Some(bucket) = shard.buckets.get(key) {
                return Some(spend(&shard.rules, bucket));
            }
        }
        let shard = &mut *write(lock);
        let room = self.room_per_shard.load(Ordering::Relaxed);
        // Another thread may have made it meanwhile.
        if shard.buckets.len() >= room && !shard.buckets.contains_key(key) {
            let now = clock.read();
            if now < shard.swept_at.saturating_add(SWEEP_EVERY) {
                return None;
            }
            shard.swept_at = now;
            shard.forget_idle(now);
            if shard.buckets.len() >= room {
                return None;
            }
        }
        // Spent under the same lock: a full bucket is an idle one, and could be forgotten before its first use.
        Some(spend(&shard.rules, shard.buckets.entry(key.clone()).or_insert_with(Bucket::full)))
    }

    /// Forgets idle buckets and gives their memory back. How many were forgotten.
    pub fn evict_idle(&self, clock: &Clock) -> usize {
        let mut forgotten = 0;
        // A shard at a time, so that a check waits for a sixty-fourth of the work at most.
        for lock in &self.shards {
            let shard = &mut *write(lock);
            forgotten += shard.forget_idle(clock.read());
            // Only when most of the table is empty: shrinking copies, and growing again would too.
            if shard.buckets.capacity() / 4 > shard.buckets.len() {
                shard.buckets.shrink_to_fit();
            }
        }
        forgotten
    }

    /// Brings other rules into force, and each bucket into their measure. A cap that is smaller than what is kept throws
    /// nobody out: keys go as they become idle.
    pub fn change(&self, rules: &Arc<Rules<K>>, cap: usize, clock: &Clock) {
        self.room_per_shard.store((cap / self.shards.len()).max(1), Ordering::Relaxed);
        for lock in &self.shards {
            let shard = &mut *write(lock);
            let now = clock.read();
            for (key, bucket) in &mut shard.buckets {
                let (from, to) = (shard.rules.by_bucket(key, bucket).shape, rules.by_bucket(key, bucket).shape);
                if from != to {
                    bucket.convert(&from, &to, now);
                }
            }
            shard.rules = Arc::clone(rules);
        }
    }

    pub fn len(&self) -> usize {
        self.sum(|shard| shard.buckets.len())
    }

    /// What the tables take: an entry and a byte beside it for each place, and an eighth of the places always free.
    pub fn bytes(&self) -> usize {
        self.sum(|shard| shard.buckets.capacity()) / 7 * 8 * (size_of::<(K, Bucket)>() + 1)
    }

    pub fn cap(&self) -> usize {
        self.room_per_shard.load(Ordering::Relaxed) * self.shards.len()
    }

    fn sum(&self, of: impl Fn(&Shard<K>) -> usize) -> usize {
        self.shards.iter().map(|lock| of(&read(lock))).sum()
    }

    fn lock_of(&self, key: &K) -> &RwLock<Shard<K>> {
        // Bits that the table inside does not use. Masked, since the number of shards is a power of two.
        &self.shards[(self.seed.hash_one(key) >> 32) as usize & (self.shards.len() - 1)]
    }
}

impl<K: Hash + Eq> Shard<K> {
    fn forget_idle(&mut self, now: u64) -> usize {
        let before = self.buckets.len();
        self.buckets.retain(|key, bucket| !bucket.is_full(&self.rules.by_bucket(key, bucket).shape, now));
        before - self.buckets.len()
    }
}

fn read<K>(lock: &RwLock<Shard<K>>) -> RwLockReadGuard<'_, Shard<K>> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<K>(lock: &RwLock<Shard<K>>) -> RwLockWriteGuard<'_, Shard<K>> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Two secret numbers, drawn for each store.
#[derive(Clone)]
struct Seed {
    start: u64,
    factor: u64,
}

impl Seed {
    fn draw() -> Self {
        let random = RandomState::new();
        Self { start: random.hash_one(0_u8), factor: random.hash_one(1_u8) | 1 }
    }
}

impl BuildHasher for Seed {
    type Hasher = Fold;

    #[inline]
    fn build_hasher(&self) -> Fold {
        Fold { state: self.start, factor: self.factor }
    }
}

/// Multiplies and folds the product's halves together, word by word.
struct Fold {
    state: u64,
    factor: u64,
}

impl Fold {
    #[inline]
    const fn mix(&mut self, word: u64) {
        let product = (self.state ^ word) as u128 * self.factor as u128;
        self.state = (product >> 64) as u64 ^ product as u64;
    }
}

impl Hasher for Fold {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.mix(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    #[inline]
    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }

    #[inline]
    fn write_u8(&mut self, byte: u8) {
        self.mix(u64::from(byte));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }
}
