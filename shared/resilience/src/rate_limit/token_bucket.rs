//! # Token bucket: a sustained rate, and a burst after a rest
//!
//! **Problem.** A caller may come in bursts, but what it asks for on average has to stay below what we can carry.
//!
//! **Rule.** A bucket holds up to `burst` operations and earns `per_second` of them. Each operation takes one, a heavy
//! one takes several, and an empty bucket refuses and says when the next is earned. Over any window at most
//! `per_second × window + burst` get through. One compare-and-swap, on governor.
//!
//! **Not for** a callee that cannot take the burst (leaky bucket), or for bounding what is in flight (bulkhead).
//!
//! **When you copy this**, take `gcra`, `clock`, `quota` and `verdict` along. If the quota never changes while it runs,
//! `governor::RateLimiter::direct` alone will do.
//!
//! **Proved by** the drill `spike-16x`.

use std::{
    num::NonZeroU32,
    sync::{PoisonError, RwLock, RwLockReadGuard},
};

use super::{
    Admitted, Invalid, LimiterSnapshot, Quota, RateLimited, Refused,
    clock::Clock,
    gcra::{Bucket, Policy},
};

pub struct TokenBucket {
    clock: Clock,
    /// Bucket and quota change together. Checks take the lock for reading, and meet in the bucket's word anyway.
    state: RwLock<State>,
}

struct State {
    bucket: Bucket,
    policy: Policy,
}

impl TokenBucket {
    /// A bucket that starts full.
    pub fn new(quota: Quota) -> Result<Self, Invalid> {
        Self::with_clock(quota, Clock::counter())
    }

    pub fn with_clock(quota: Quota, clock: Clock) -> Result<Self, Invalid> {
        let policy = Policy::new(quota.shape()?, 0, clock.clone());
        Ok(Self { clock, state: RwLock::new(State { bucket: Bucket::full(), policy }) })
    }

    /// Admits one operation, or says when to come back.
    pub fn check(&self) -> Result<Admitted, RateLimited> {
        let state = self.state();
        state.policy.check(&state.bucket)
    }

    /// Admits an operation that weighs `weight`, whole or not at all.
    pub fn check_n(&self, weight: NonZeroU32) -> Result<Admitted, Refused> {
        let state = self.state();
        state.policy.check_n(&state.bucket, weight)
    }

    /// Another quota, while in use: what the bucket holds it keeps, up to the new burst.
    pub fn reconfigure(&self, quota: Quota) -> Result<(), Invalid> {
        let to = quota.shape()?;
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let from = state.policy.shape;
        // The same quota again, as every new version of the rules brings it, must not cost a rounding.
        if from != to {
            state.bucket.convert(&from, &to, self.clock.read());
            state.policy = Policy::new(to, 0, self.clock.clone());
        }
        Ok(())
    }

    /// The quota's burst, the most that can be admitted at once.
    #[must_use]
    pub fn burst(&self) -> NonZeroU32 {
        self.state().policy.shape.burst
    }

    #[must_use]
    pub fn snapshot(&self) -> LimiterSnapshot {
        let state = self.state();
        let shape = state.policy.shape;
        LimiterSnapshot {
            kind: "token_bucket",
            limit: shape.burst.get(),
            window: shape.window(),
            remaining: state.bucket.held(&shape, self.clock.read()),
        }
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for TokenBucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TokenBucket").field(&self.snapshot()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, AtomicU32, Ordering},
        time::Duration,
    };

    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn admitted_now(bucket: &TokenBucket) -> u32 {
        (0..10_000).map(|_| u32::from(bucket.check().is_ok())).sum()
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_brings_no_burst_that_was_not_asked_for() {
        let bucket = TokenBucket::with_clock(Quota::new(10.0, 1), Clock::tokio()).unwrap();
        let mut in_the_first_second = 0;
        for _ in 0..1_000 {
            in_the_first_second += u32::from(bucket.check().is_ok());
            advance(SECOND / 1_000).await;
        }
        assert_eq!(in_the_first_second, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn after_an_hour_of_use_a_change_of_quota_locks_nobody_out() {
        let bucket = TokenBucket::with_clock(Quota::new(10.0, 10), Clock::tokio()).unwrap();
        advance(3_600 * SECOND).await;
        assert_eq!(admitted_now(&bucket), 10);
        bucket.reconfigure(Quota::new(20.0, 10)).unwrap();
        assert_eq!(bucket.check().unwrap_err().retry_after, SECOND / 20);
        advance(SECOND / 20).await;
        assert!(bucket.check().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_faster_quota_is_earned_and_not_given() {
        let bucket = TokenBucket::with_clock(Quota::new(1.0, 10), Clock::tokio()).unwrap();
        assert!(bucket.check_n(NonZeroU32::new(6).unwrap()).is_ok());
        bucket.reconfigure(Quota::new(100.0, 50)).unwrap();
        assert_eq!(admitted_now(&bucket), 4, "what it held");
        advance(SECOND / 10).await;
        assert_eq!(admitted_now(&bucket), 10, "a tenth of a second at the new rate");
        advance(10 * SECOND).await;
        assert_eq!(admitted_now(&bucket), 50, "the new burst");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slower_quota_keeps_what_is_held_up_to_its_burst_and_forgives_nothing() {
        let bucket = TokenBucket::with_clock(Quota::new(100.0, 100), Clock::tokio()).unwrap();
        assert!(bucket.check_n(NonZeroU32::new(97).unwrap()).is_ok());
        bucket.reconfigure(Quota::new(1.0, 10)).unwrap();
        assert_eq!(admitted_now(&bucket), 3);
        bucket.reconfigure(Quota::new(100.0, 100)).unwrap();
        bucket.reconfigure(Quota::new(1.0, 10)).unwrap();
        assert_eq!(admitted_now(&bucket), 0, "going back and forth earns nothing");

        let full = TokenBucket::with_clock(Quota::new(100.0, 100), Clock::tokio()).unwrap();
        full.reconfigure(Quota::new(1.0, 10)).unwrap();
        assert_eq!(admitted_now(&full), 10);
    }

    #[test]
    fn changes_of_quota_under_load_mint_nothing() {
        // Earning one in 100 s or in 50 s, so that whatever is admitted beyond the burst was minted by a change.
        let (slow, fast) = (Quota::new(0.01, 50), Quota::new(0.02, 50));
        let bucket = TokenBucket::with_clock(slow, Clock::tokio()).unwrap();
        let (changing, admitted) = (AtomicBool::new(true), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while changing.load(Ordering::Relaxed) {
                        admitted.fetch_add(u32::from(bucket.check().is_ok()), Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..2_000 {
                bucket.reconfigure(fast).unwrap();
                bucket.reconfigure(slow).unwrap();
            }
            changing.store(false, Ordering::Relaxed);
        });
        assert_eq!(admitted.into_inner() + admitted_now(&bucket), 50);
    }
}
