//! Whose word counts: that of Redis, of the local share, or of both.
//!
//! After any failure the counters of Redis are not the whole truth: they may be lost, and what the replicas admitted by
//! themselves meanwhile is not in them. So when Redis is back, every admission has to pass the local share *and* be
//! leased, for two windows: the one in which Redis came back is counted in part only, and weighed as if it were whole
//! it would make room for a quarter of the limit at once. After it there is a whole one, of traffic within the shares,
//! and Redis decides alone again. What nobody reported needs no reporting, and no replica has to wait for another.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use serde::Serialize;
use tokio::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Authority {
    /// Leases alone.
    Redis,
    /// The local share alone.
    Local,
    /// Redis is back: a lease and the local share.
    Both,
}

pub(super) struct Trust {
    began: Instant,
    window: Duration,
    /// Nanoseconds after `began`. Until then both; `LOST` for ever.
    both_until: AtomicU64,
}

const LOST: u64 = u64::MAX;

impl Trust {
    pub(super) fn new(began: Instant, window: Duration) -> Self {
        Self { began, window, both_until: AtomicU64::new(0) }
    }

    /// For windows of another width: what was lost still is, and counts of theirs there are none yet.
    pub(super) fn successor(&self, now: Instant, window: Duration) -> Self {
        let successor = Self::new(self.began, window);
        match self.at(now) {
            Authority::Local => successor.both_until.store(LOST, Relaxed),
            Authority::Both | Authority::Redis => successor.start_over(now),
        }
        successor
    }

    pub(super) fn at(&self, now: Instant) -> Authority {
        match self.both_until.load(Relaxed) {
            LOST => Authority::Local,
            until if self.nanos(now) < until => Authority::Both,
            _ => Authority::Redis,
        }
    }

    /// True for the first to find out.
    pub(super) fn lose(&self) -> bool {
        self.both_until.swap(LOST, Relaxed) != LOST
    }

    /// Redis answered. True when it had been lost.
    pub(super) fn regain(&self, now: Instant) -> bool {
        let until = self.nanos(now + 2 * self.window);
        self.both_until.compare_exchange(LOST, until, Relaxed, Relaxed).is_ok()
    }

    /// Redis answers and has forgotten everything.
    pub(super) fn start_over(&self, now: Instant) {
        self.both_until.store(self.nanos(now + 2 * self.window), Relaxed);
    }

    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.began).as_nanos()).unwrap_or(LOST - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn after_a_failure_redis_decides_alone_only_when_it_has_answered_for_two_windows() {
        let (window, tick) = (Duration::from_secs(1), Duration::from_nanos(1));
        let now = Instant::now();
        let trust = Trust::new(now, window);
        assert_eq!(trust.at(now), Authority::Redis);
        assert!(!trust.regain(now), "an answer is nothing new");
        assert!(trust.lose() && !trust.lose());
        assert_eq!(trust.at(now + 10 * window), Authority::Local, "time alone does not bring it back");
        assert!(trust.regain(now));
        assert_eq!(trust.at(now + 2 * window - tick), Authority::Both);
        assert!(!trust.regain(now + 2 * window - tick), "a further answer does not prolong it");
        assert_eq!(trust.at(now + 2 * window), Authority::Redis);
        trust.start_over(now);
        assert_eq!(trust.at(now), Authority::Both);
        assert!(trust.lose());
        assert_eq!(trust.at(now), Authority::Local);
    }
}
