//! # Rate limiting: how much may begin per second
//!
//! One file a pattern, all of the same shape: `X`, `XConfig` (with [`Invalid`] naming what is wrong), the verbs `check`
//! and `check_n`, the rejection [`RateLimited`], `reconfigure` (hot change), `snapshot`. [`Limiter`] is whichever of
//! them the configuration's `kind` names.
//!
//! | file | keeps | choose it when |
//! |---|---|---|
//! | [`token_bucket`] | one word | the default: a sustained rate, and a burst that you state |
//! | [`leaky_bucket`] | one word | the callee wants an even pace, and callers can wait a little |
//! | [`sliding_window`] | two counters | the contract says "n in any minute" |
//! | [`fixed_window`] | one counter | the contract names calendar windows; it lets 2 × through across an edge |
//! | [`per_key`] | a bounded map | each user, tenant or address has a quota of its own |
//!
//! A rate limit bounds *arrivals*. It does not bound what is in flight: a callee that slows down fills up at any rate,
//! and that is a bulkhead's work.
//!
//! `gcra` and `clock` are what the buckets stand on: governor's arithmetic over state of our own, so that a
//! quota can be changed while it is in use.

pub mod fixed_window;
pub mod leaky_bucket;
pub mod per_key;
pub mod sliding_window;
pub mod token_bucket;

mod clock;
mod gcra;
mod quota;
mod verdict;

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::Deadline;

pub use clock::Clock;
pub use fixed_window::{FixedWindow, FixedWindowConfig};
pub use leaky_bucket::{LeakyBucket, LeakyBucketConfig};
pub use per_key::{PerKey, PerKeyConfig, PerKeySnapshot, Tier, TierConfig};
pub use quota::{Invalid, Quota};
pub use sliding_window::{SlidingWindow, SlidingWindowConfig};
pub use token_bucket::TokenBucket;
pub use verdict::{Admitted, Exceeds, RateLimited, Refused};

/// Which limiter, and its figures: `{ kind = "token_bucket", per_second = 300, burst = 450 }`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LimiterConfig {
    TokenBucket(Quota),
    LeakyBucket(LeakyBucketConfig),
    SlidingWindow(SlidingWindowConfig),
    FixedWindow(FixedWindowConfig),
}

impl LimiterConfig {
    pub fn validate(&self) -> Result<(), Invalid> {
        match self {
            Self::TokenBucket(config) => config.validate(),
            Self::LeakyBucket(config) => config.validate(),
            Self::SlidingWindow(config) => config.validate(),
            Self::FixedWindow(config) => config.validate(),
        }
    }
}

/// The limiter that a configuration chose.
#[derive(Debug)]
pub enum Limiter {
    TokenBucket(TokenBucket),
    LeakyBucket(LeakyBucket),
    SlidingWindow(SlidingWindow),
    FixedWindow(FixedWindow),
}

/// What a limiter shows to metrics and to the console.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LimiterSnapshot {
    pub kind: &'static str,
    pub limit: u32,
    /// Over how long `limit` is earned anew.
    #[serde(rename = "window_ms", with = "crate::millis")]
    pub window: std::time::Duration,
    pub remaining: u32,
}

impl Limiter {
    pub fn new(config: LimiterConfig) -> Result<Self, Invalid> {
        Self::with_clock(config, Clock::counter())
    }

    pub fn with_clock(config: LimiterConfig, clock: Clock) -> Result<Self, Invalid> {
        Ok(match config {
            LimiterConfig::TokenBucket(config) => Self::TokenBucket(TokenBucket::with_clock(config, clock)?),
            LimiterConfig::LeakyBucket(config) => Self::LeakyBucket(LeakyBucket::with_clock(config, clock)?),
            LimiterConfig::SlidingWindow(config) => Self::SlidingWindow(SlidingWindow::with_clock(config, clock)?),
            LimiterConfig::FixedWindow(config) => Self::FixedWindow(FixedWindow::with_clock(config, clock)?),
        })
    }

    /// Admits one operation now, or says when to come back.
    pub fn check(&self) -> Result<Admitted, RateLimited> {
        match self {
            Self::TokenBucket(limiter) => limiter.check(),
            Self::LeakyBucket(limiter) => limiter.check(),
            Self::SlidingWindow(limiter) => limiter.check(),
            Self::FixedWindow(limiter) => limiter.check(),
        }
    }

    /// Admits an operation that weighs `weight`, whole or not at all.
    pub fn check_n(&self, weight: NonZeroU32) -> Result<Admitted, Refused> {
        match self {
            Self::TokenBucket(limiter) => limiter.check_n(weight),
            Self::LeakyBucket(limiter) => limiter.check_n(weight),
            Self::SlidingWindow(limiter) => limiter.check_n(weight),
            Self::FixedWindow(limiter) => limiter.check_n(weight),
        }
    }

    /// Admits one operation, after a wait where the limiter is one that paces. The others answer at once.
    pub async fn acquire(&self, deadline: Deadline) -> Result<Admitted, RateLimited> {
        match self {
            Self::LeakyBucket(limiter) => limiter.acquire(deadline).await,
            _ => self.check(),
        }
    }

    /// Takes new figures into use and keeps what has been spent. A change of `kind` cannot keep it: the answer is then
    /// `false`, nothing has changed, and the caller builds a new limiter.
    pub fn reconfigure(&self, config: LimiterConfig) -> Result<bool, Invalid> {
        match (self, config) {
            (Self::TokenBucket(limiter), LimiterConfig::TokenBucket(config)) => limiter.reconfigure(config)?,
            (Self::LeakyBucket(limiter), LimiterConfig::LeakyBucket(config)) => limiter.reconfigure(config)?,
            (Self::SlidingWindow(limiter), LimiterConfig::SlidingWindow(config)) => limiter.reconfigure(config)?,
            (Self::FixedWindow(limiter), LimiterConfig::FixedWindow(config)) => limiter.reconfigure(config)?,
            _ => {
                config.validate()?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    #[must_use]
    pub fn snapshot(&self) -> LimiterSnapshot {
        match self {
            Self::TokenBucket(limiter) => limiter.snapshot(),
            Self::LeakyBucket(limiter) => limiter.snapshot(),
            Self::SlidingWindow(limiter) => limiter.snapshot(),
            Self::FixedWindow(limiter) => limiter.snapshot(),
        }
    }
}

#[cfg(test)]
mod tests;
