//! What became of calls to a cache, for the metrics and for `/internal/state`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

/// Counts since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CacheSnapshot {
    pub hits: u64,
    pub misses: u64,
    /// Stale values given because loading failed.
    pub stale: u64,
    /// Commands that failed or took too long, and values that could not be read or stored.
    pub errors: u64,
    /// Redis is left alone at the moment.
    pub paused: bool,
    pub in_flight: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    Hit,
    Miss,
    Stale,
    Error,
}

pub(crate) struct Counts {
    cache: &'static str,
    hits: AtomicU64,
    misses: AtomicU64,
    stale: AtomicU64,
    errors: AtomicU64,
}

impl Counts {
    pub(crate) fn new(cache: &'static str) -> Self {
        let zero = AtomicU64::default;
        Self { cache, hits: zero(), misses: zero(), stale: zero(), errors: zero() }
    }

    pub(crate) fn add(&self, event: Event) {
        let (count, event) = match event {
            Event::Hit => (&self.hits, "hit"),
            Event::Miss => (&self.misses, "miss"),
            Event::Stale => (&self.stale, "stale"),
            Event::Error => (&self.errors, "error"),
        };
        count.fetch_add(1, Relaxed);
        metrics::counter!("cache_events_total", "cache" => self.cache, "event" => event).increment(1);
    }

    pub(crate) fn snapshot(&self, paused: bool, in_flight: usize) -> CacheSnapshot {
        CacheSnapshot {
            hits: self.hits.load(Relaxed),
            misses: self.misses.load(Relaxed),
            stale: self.stale.load(Relaxed),
            errors: self.errors.load(Relaxed),
            paused,
            in_flight,
        }
    }
}
