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
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;

use super::{
    Admitted, Invalid, LimiterSnapshot, Quota, RateLimited, Refused,
    clock::EpochClock,
    gcra::{Bucket, Policy},
};

pub struct TokenBucket {
    clock: EpochClock,
    bucket: Bucket,
    policy: ArcSwap<Policy>,
    /// Changes of the quota take turns; checks never wait for them.
    changing: Mutex<()>,
}

impl TokenBucket {
    /// A bucket that starts full.
    pub fn new(quota: Quota) -> Result<Self, Invalid> {
        let clock = EpochClock::start();
        let policy = ArcSwap::from_pointee(Policy::new(quota.shape()?, 0, clock));
        Ok(Self { clock, bucket: Bucket::full(), policy, changing: Mutex::new(()) })
    }

    /// Admits one operation, or says when to come back.
    pub fn check(&self) -> Result<Admitted, RateLimited> {
        self.policy.load().check(&self.bucket)
    }

    /// Admits an operation that weighs `weight`, whole or not at all.
    pub fn check_n(&self, weight: NonZeroU32) -> Result<Admitted, Refused> {
        self.policy.load().check_n(&self.bucket, weight)
    }

    /// Another quota, while in use: what the bucket holds it keeps, up to the new burst.
    pub fn reconfigure(&self, quota: Quota) -> Result<(), Invalid> {
        let to = quota.shape()?;
        let _turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let from = self.policy.load().shape;
        let policy = Arc::new(Policy::new(to, 0, self.clock));
        // A check may fall between the two steps. In this order the bucket is then worth less under the quota that the
        // check applies, never more.
        if to.cell < from.cell {
            self.bucket.convert(&from, &to, self.clock.read());
            self.policy.store(policy);
        } else {
            self.policy.store(policy);
            self.bucket.convert(&from, &to, self.clock.read());
        }
        Ok(())
    }

    /// The quota's burst, the most that can be admitted at once.
    #[must_use]
    pub fn burst(&self) -> NonZeroU32 {
        self.policy.load().shape.burst
    }

    #[must_use]
    pub fn snapshot(&self) -> LimiterSnapshot {
        let shape = self.policy.load().shape;
        LimiterSnapshot {
            kind: "token_bucket",
            limit: shape.burst.get(),
            window: shape.window(),
            remaining: self.bucket.held(&shape, self.clock.read()),
        }
    }
}

impl std::fmt::Debug for TokenBucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TokenBucket").field(&self.snapshot()).finish()
    }
}
