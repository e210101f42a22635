//! # Cache-aside: single flight, stale on error
//!
//! **Problem.** A cache that is cold, slow or gone turns into load on what stands behind it: every caller that misses
//! loads the same value at once, every caller waits for a server that does not answer, and when the source fails there
//! is nothing left to say although the answer of a minute ago would do.
//!
//! **Rule.** Ask Redis, else load and store. Callers of one key that overlap share one flight: one of them asks and
//! loads, the others wait for its outcome; when it is cancelled, one of those takes over. A value carries the time
//! until which it is fresh and stays in Redis longer than that; past it, it is used only when loading fails, and says
//! so. Redis gets `patience` per call for everything together, and after `pause_after` failures in a row nobody asks
//! it for `pause`, then a single caller tries. A value that cannot be read, is too large, or was written under another
//! schema version counts as missing and is overwritten. Lifetimes are shortened at random, so that values stored
//! together do not expire together.
//!
//! **Not for** anything that must be right: balances, stock, permissions, idempotency. Not for values that callers
//! expect to see change at once, since nothing invalidates them. Not without a bound of its own on `load`: a flight
//! takes as long as its leader's load, and followers wait for it.
//!
//! **When you copy this**, take `single_flight`, `gate` and `counts` along. Raise `schema` whenever the stored type
//! changes its meaning, keep `patience` well below what the caller has in all, and set `keep_stale` to the age at which
//! an old answer is worse than none. Freshness is judged by the clocks of this process and of the one that stored the
//! value; their difference shifts it.
//!
//! **Proved by** the drill `redis-down`.

mod config;

use std::{
    future::Future,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use redis::{AsyncCommands, aio::ConnectionManager};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::time::Instant;

pub use config::CacheConfig;

use crate::{
    counts::{CacheSnapshot, Counts, Event},
    gate::Gate,
    single_flight::SingleFlight,
};

/// How old a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Loaded just now, by this call or one that it overlapped with.
    Fresh,
    /// Stored earlier, within its lifetime.
    FromCache,
    /// Stored earlier, past its lifetime; loading failed.
    Stale,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cached<T> {
    pub value: T,
    pub freshness: Freshness,
}

/// Values of one type, loaded with one type of error. The error is `Clone` because all callers in a flight get it.
pub struct Cache<T, E> {
    redis: ConnectionManager,
    config: CacheConfig,
    /// Of the configuration what may change, in milliseconds.
    patience_ms: AtomicU64,
    keep_stale_ms: AtomicU64,
    flights: SingleFlight<Result<Cached<T>, E>>,
    gate: Gate,
    chance: Mutex<StdRng>,
    counts: Counts,
}

impl<T, E> Cache<T, E>
where
    T: Clone + Serialize + DeserializeOwned,
    E: Clone,
{
    #[must_use]
    pub fn new(redis: ConnectionManager, config: CacheConfig) -> Self {
        Self {
            redis,
            flights: SingleFlight::new(config.max_flights),
            gate: Gate::new(config.name, config.pause_after, config.pause),
            chance: Mutex::new(StdRng::seed_from_u64(config.seed)),
            counts: Counts::new(config.name),
            patience_ms: AtomicU64::new(millis(config.patience)),
            keep_stale_ms: AtomicU64::new(millis(config.keep_stale)),
            config,
        }
    }

    /// From the next call on. What is stored already keeps its lifetime.
    pub fn reconfigure(&self, patience: Duration, keep_stale: Duration) {
        self.patience_ms.store(millis(patience), Relaxed);
        self.keep_stale_ms.store(millis(keep_stale), Relaxed);
    }

    /// The value of `key`, from Redis if it is fresh there, else from `load`, which is stored as fresh for `ttl`.
    /// An error is the one of `load`, when there is no stale value either; Redis never causes one.
    pub async fn get_or_load<F, Fut>(&self, key: &str, ttl: Duration, load: F) -> Result<Cached<T>, E>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let flown = self.flights.run(key, || self.fly(key, ttl, load)).await;
        if flown.joined {
            self.counts.add(if flown.value.is_ok() { Event::Hit } else { Event::Miss });
        }
        flown.value
    }

    /// Stores what was learnt elsewhere, if Redis takes it in time.
    pub async fn put(&self, key: &str, value: &T, ttl: Duration) {
        self.write(&self.full(key), value, ttl, self.patience()).await;
    }

    /// What is stored, however old, for who has no better source.
    pub async fn peek(&self, key: &str) -> Option<T> {
        let stored = self.read(&self.full(key), &mut self.patience()).await;
        self.counts.add(if stored.is_some() { Event::Stale } else { Event::Miss });
        stored.map(|stored| stored.value)
    }

    #[must_use]
    pub fn snapshot(&self) -> CacheSnapshot {
        self.counts.snapshot(self.gate.is_closed(), self.flights.in_flight())
    }

    fn full(&self, key: &str) -> String {
        format!("{}{}:v{}:{key}", self.config.prefix, self.config.name, self.config.schema)
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms.load(Relaxed))
    }

    async fn fly<F, Fut>(&self, key: &str, ttl: Duration, load: F) -> Result<Cached<T>, E>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let key = self.full(key);
        let mut patience = self.patience();
        let stored = self.read(&key, &mut patience).await;
        if let Some(stored) = &stored
            && stored.fresh_until_ms > unix_ms()
        {
            self.counts.add(Event::Hit);
            return Ok(Cached { value: stored.value.clone(), freshness: Freshness::FromCache });
        }
        self.counts.add(Event::Miss);
        match load().await {
            Ok(value) => {
                self.write(&key, &value, ttl, patience).await;
                Ok(Cached { value, freshness: Freshness::Fresh })
            }
            Err(error) => match stored {
                Some(stored) => {
                    self.counts.add(Event::Stale);
                    Ok(Cached { value: stored.value, freshness: Freshness::Stale })
                }
                None => Err(error),
            },
        }
    }

    /// Takes what it used off `patience`; all of it after a failure, so that the write is not tried either.
    async fn read(&self, key: &str, patience: &mut Duration) -> Option<Stored<T>> {
        let started = Instant::now();
        let mut redis = self.redis.clone();
        // One byte more than allowed tells a value that is too large without fetching all of it.
        let end = isize::try_from(self.config.max_value_bytes).unwrap_or(isize::MAX);
        let text: Option<Vec<u8>> = self.gate.ask(&self.counts, *patience, redis.getrange(key, 0, end)).await;
        *patience = match text {
            Some(_) => patience.saturating_sub(started.elapsed()),
            None => Duration::ZERO,
        };
        // A missing key reads as an empty text.
        let text = text.filter(|text| !text.is_empty())?;
        if text.len() <= self.config.max_value_bytes
            && let Ok(stored) = serde_json::from_slice(&text)
        {
            return Some(stored);
        }
        self.counts.add(Event::Error);
        tracing::warn!(cache = self.config.name, key, bytes = text.len(), "a stored value cannot be read");
        None
    }

    async fn write(&self, key: &str, value: &T, ttl: Duration, patience: Duration) {
        let chance: f64 = self.chance.lock().unwrap_or_else(PoisonError::into_inner).random();
        let ttl = ttl.mul_f64(1.0 - self.config.jitter.clamp(0.0, 1.0) * chance);
        let stored = Stored { fresh_until_ms: unix_ms().saturating_add(millis(ttl)), value };
        match serde_json::to_vec(&stored) {
            Ok(text) if text.len() <= self.config.max_value_bytes => {
                let lifetime = millis(ttl).saturating_add(self.keep_stale_ms.load(Relaxed)).max(1);
                let mut redis = self.redis.clone();
                let _: Option<()> = self.gate.ask(&self.counts, patience, redis.pset_ex(key, text, lifetime)).await;
            }
            _ => {
                self.counts.add(Event::Error);
                tracing::warn!(cache = self.config.name, key, "a value is too large to be stored, or is no JSON");
            }
        }
    }
}

/// What is in Redis.
#[derive(Serialize, Deserialize)]
struct Stored<T> {
    fresh_until_ms: u64,
    value: T,
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
