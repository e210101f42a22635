//! A map of buckets whose memory has a hard cap.
//!
//! governor's own keyed stores never give memory back: a million string keys stay at 100 MB for ever. Here a key that
//! finds no room is told so ([`Store::with`] answers `None`), a bucket that is full again is forgotten (it would be
//! made anew exactly as it is), and the tables shrink after it.
//!
//! Sharded, each shard under a lock that a check takes for reading only: the state of a bucket is an atomic word. The
//! shard is chosen by a cheap hash with a random seed, the place in it by the standard library's keyed one, so that
//! chosen keys can fill a shard and never turn its look-ups linear.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, Hasher},
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use crate::rate_limit::gcra::Bucket;

/// More shards than cores, so that two threads seldom meet; fewer for small stores, so that each has some room.
const MOST_SHARDS: usize = 64;
const KEYS_PER_SHARD: usize = 256;
/// A full shard is swept at most this often: a flood of new keys must not turn every check into a sweep.
const SWEEP_EVERY: u64 = 50_000_000;

pub(super) struct Store<K> {
    shards: Box<[Shard<K>]>,
    room_per_shard: AtomicUsize,
    seed: u64,
}

struct Shard<K> {
    buckets: RwLock<HashMap<K, Bucket>>,
    swept_at: AtomicU64,
}

impl<K: Hash + Eq + Clone> Store<K> {
    /// Room for `cap` keys, a little less where `cap` is no multiple of the shards.
    pub fn new(cap: usize) -> Self {
        let shards = (cap / KEYS_PER_SHARD).next_power_of_two().clamp(1, MOST_SHARDS);
        let shard = || Shard { buckets: RwLock::new(HashMap::new()), swept_at: AtomicU64::new(0) };
        Self {
            room_per_shard: AtomicUsize::new((cap / shards).max(1)),
            shards: (0..shards).map(|_| shard()).collect(),
            seed: std::collections::hash_map::RandomState::new().hash_one(0_u8) | 1,
        }
    }

    /// Another cap. Keys above it are not thrown out: they go as they become idle.
    pub fn resize(&self, cap: usize) {
        self.room_per_shard.store((cap / self.shards.len()).max(1), Ordering::Relaxed);
    }

    /// Runs `spend` on the key's bucket. A new key gets a full one, after idle ones are forgotten where that is needed.
    /// `None`: there is no room, and `spend` has not run.
    pub fn with<R>(
        &self,
        key: &K,
        now: impl FnOnce() -> u64,
        idle: impl Fn(&K, &Bucket, u64) -> bool,
        spend: impl FnOnce(&Bucket) -> R,
    ) -> Option<R> {
        let shard = self.shard(key);
        if let Some(bucket) = shard.buckets.read().unwrap_or_else(PoisonError::into_inner).get(key) {
            return Some(spend(bucket));
        }
        let mut buckets = shard.buckets.write().unwrap_or_else(PoisonError::into_inner);
        let room = self.room_per_shard.load(Ordering::Relaxed);
        // Another thread may have made it meanwhile.
        if buckets.len() >= room && !buckets.contains_key(key) {
            let now = now();
            if now < shard.swept_at.load(Ordering::Relaxed).saturating_add(SWEEP_EVERY) {
                return None;
            }
            shard.swept_at.store(now, Ordering::Relaxed);
            buckets.retain(|key, bucket| !idle(key, bucket, now));
            if buckets.len() >= room {
                return None;
            }
        }
        // Spent under the same lock: a full bucket is an idle one, and could be forgotten before its first use.
        Some(spend(buckets.entry(key.clone()).or_insert_with(Bucket::full)))
    }

    /// Forgets idle buckets and gives their memory back. How many were forgotten.
    pub fn retain_recent(&self, idle: impl Fn(&K, &Bucket) -> bool) -> usize {
        let mut forgotten = 0;
        // One shard at a time, so that checks wait for a sixty-fourth of the work at most.
        for shard in &self.shards {
            let mut buckets = shard.buckets.write().unwrap_or_else(PoisonError::into_inner);
            let before = buckets.len();
            buckets.retain(|key, bucket| !idle(key, bucket));
            forgotten += before - buckets.len();
            // Only when most of the table is empty: shrinking copies, and growing again would too.
            if buckets.capacity() / 4 > buckets.len() {
                buckets.shrink_to_fit();
            }
        }
        forgotten
    }

    /// Every bucket once, a shard at a time, with checks going on beside it.
    pub fn for_each(&self, mut visit: impl FnMut(&K, &Bucket)) {
        for shard in &self.shards {
            let buckets = shard.buckets.read().unwrap_or_else(PoisonError::into_inner);
            buckets.iter().for_each(|(key, bucket)| visit(key, bucket));
        }
    }

    pub fn len(&self) -> usize {
        self.sum(HashMap::len)
    }

    /// What the tables take: an entry and a byte beside it for each place, and an eighth of the places always free.
    pub fn bytes(&self) -> usize {
        self.sum(HashMap::capacity) / 7 * 8 * (size_of::<(K, Bucket)>() + 1)
    }

    pub fn cap(&self) -> usize {
        self.room_per_shard.load(Ordering::Relaxed) * self.shards.len()
    }

    fn sum(&self, of: impl Fn(&HashMap<K, Bucket>) -> usize) -> usize {
        self.shards.iter().map(|shard| of(&shard.buckets.read().unwrap_or_else(PoisonError::into_inner))).sum()
    }

    fn shard(&self, key: &K) -> &Shard<K> {
        let mut hasher = Multiply(self.seed);
        key.hash(&mut hasher);
        // The upper bits are the well-mixed ones. The mask keeps the index inside: the count is a power of two.
        let index = (hasher.finish() >> 48) as usize & (self.shards.len() - 1);
        &self.shards[index]
    }
}

/// Multiply and fold, a few nanoseconds a word. Spreads; does not resist.
struct Multiply(u64);

impl Multiply {
    const fn mix(&mut self, word: u64) {
        let wide = (self.0 ^ word) as u128 * 0x9e37_79b9_7f4a_7c15;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}

impl Hasher for Multiply {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    fn write_u8(&mut self, byte: u8) {
        self.mix(u64::from(byte));
    }

    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
