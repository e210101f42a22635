//! # Retry: trying again without making it worse
//!
//! **Problem.** A try that failed by chance is worth another. But when the callee is in trouble, every hop that tries
//! three times multiplies the load on the innermost one, and holds it down.
//!
//! **Rule.** A retry has to be allowed by everything at once: the error is one that may pass, the call is idempotent,
//! the call has tries left, the breaker is not open, there is time for the wait and for a useful try, the callee's
//! [`RetryBudget`] (a share of its requests) is not spent, and neither is the [`Purse`] of the whole chain. Waits are
//! 100 → 200 → 400 ms with full jitter: anything from nothing to the step, so that callers that failed together do not
//! come back together. A `Retry-After` is waited out in full, or the call is given up. Both budgets are charged when a
//! retry is *scheduled*: one that forgets the retries still waiting lets a thousand through a budget of 20 %.
//!
//! **Not for** a call that is not idempotent, for one whose callee retries by itself, or for work that has a queue
//! behind it: the queue's own redelivery is the retry.
//!
//! **When you copy this**, take the folder; change the classes of [`ErrorClass`] to those of your transport, and decide
//! what an unanswered call means before you call anything idempotent.
//!
//! **Proved by** the drill `retry-storm`: three hops that are each willing to retry, and the innermost sees at most
//! 1.2 times the calls of the outermost.

mod budget;
mod jitter;
mod purse;
mod verdict;

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

pub use budget::{BudgetSnapshot, RetryBudget};
pub use jitter::Jitter;
pub use purse::{Loan, Purse};
pub use verdict::{Attempt, ErrorClass, GiveUp, Reason};

use crate::{
    invalid::{Invalid, require},
    millis,
};

/// How one callee may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryConfig {
    /// Retries after the first try, at most. Two: what a third would save, the caller's deadline seldom allows.
    pub max_retries: u32,
    /// The upper end of the first wait; it doubles with every retry.
    #[serde(rename = "base_ms", with = "millis")]
    pub base: Duration,
    /// Where the doubling ends.
    #[serde(rename = "max_ms", with = "millis")]
    pub max: Duration,
    /// Retries as a share of requests, over ten seconds. A fifth more load is what a callee in trouble still bears.
    pub budget_ratio: f64,
    /// Retries a second that are allowed however few the requests are, so that a quiet callee is retried at all.
    pub budget_floor_per_second: u32,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            max_retries: 2,
            base: Duration::from_millis(100),
            max: Duration::from_millis(400),
            budget_ratio: 0.2,
            budget_floor_per_second: 1,
        }
    }
}

impl RetryConfig {
    pub fn validate(&self) -> Result<(), Invalid> {
        require(self.max_retries <= 10, "max_retries", "must be at most 10")?;
        require(!self.base.is_zero(), "base_ms", "must be at least 1: retries without a wait come back together")?;
        require(self.base <= self.max, "max_ms", "below base_ms")?;
        require(self.max <= Duration::from_secs(60), "max_ms", "must be at most a minute")?;
        require((0.0..=1.0).contains(&self.budget_ratio), "budget_ratio", "must be between 0 and 1")
    }
}

/// The decision, without any state of its own: how long to wait before the next try, or why there is none.
/// `random` lies in [0, 1).
pub fn decide(
    config: &RetryConfig,
    attempt: &Attempt,
    purse: u32,
    budget: u32,
    random: f64,
) -> Result<Duration, Reason> {
    let retry_after = match attempt.class {
        ErrorClass::Final => return Err(Reason::Final),
        ErrorClass::Ours => return Err(Reason::Ours),
        ErrorClass::Transient => None,
        ErrorClass::Busy { retry_after } => retry_after,
    };
    if !attempt.idempotent {
        return Err(Reason::NotIdempotent);
    }
    if attempt.retries >= config.max_retries {
        return Err(Reason::TriesSpent);
    }
    if attempt.breaker_open {
        return Err(Reason::BreakerOpen);
    }
    // 2^16 steps are far beyond any `max`; more would overflow.
    let step = config.base.saturating_mul(1 << attempt.retries.min(16)).min(config.max);
    let jittered = step.mul_f64(random.clamp(0.0, 1.0));
    let Some(spare) = attempt.remaining.checked_sub(attempt.useful) else { return Err(Reason::NoTime) };
    let wait = match retry_after {
        None if jittered > spare => return Err(Reason::NoTime),
        None => jittered,
        Some(asked) if asked > spare => return Err(Reason::NoTime),
        // Never before the time asked for, and spread out after it as far as there is time.
        Some(asked) => asked.saturating_add(jittered).min(spare),
    };
    if purse == 0 {
        return Err(Reason::PurseEmpty);
    }
    if budget == 0 {
        return Err(Reason::BudgetSpent);
    }
    Ok(wait)
}

/// The retries of one callee.
#[derive(Debug)]
pub struct Retry {
    config: ArcSwap<RetryConfig>,
    budget: RetryBudget,
    jitter: Jitter,
}

impl Retry {
    /// `seed` makes the waits repeatable; take a random one in production.
    #[must_use]
    pub fn new(config: RetryConfig, seed: u64) -> Self {
        let now = Instant::now();
        Self { config: ArcSwap::from_pointee(config), budget: RetryBudget::new(now), jitter: Jitter::new(seed) }
    }

    /// New limits; what was counted stays.
    pub fn reconfigure(&self, config: RetryConfig) {
        self.config.store(Arc::new(config));
    }

    /// To be called once a call, at its first try: it is from these that the budget grows.
    pub fn request(&self) {
        self.request_at(Instant::now());
    }

    /// [`Self::request`] for a caller that has just read the clock.
    pub fn request_at(&self, now: Instant) {
        self.budget.deposit(now);
    }

    /// Decides on another try, and charges both budgets for it. The caller then waits as long as it is told.
    pub fn schedule(&self, attempt: &Attempt, purse: &Purse) -> Result<Duration, GiveUp> {
        let config = self.config.load();
        let now = Instant::now();
        let decided = decide(&config, attempt, purse.left(), self.budget.available(&config, now), self.jitter.next());
        let charged = decided.and_then(|wait| {
            // Another task may have been faster since the look above.
            if !purse.spend() {
                return Err(Reason::PurseEmpty);
            }
            if !self.budget.withdraw(&config, now) {
                purse.put_back(1);
                return Err(Reason::BudgetSpent);
            }
            Ok(wait)
        });
        charged.map_err(|reason| {
            if reason.had_its_chance() {
                purse.forfeit();
            }
            let retry_after = match attempt.class {
                ErrorClass::Busy { retry_after } => retry_after,
                _ => None,
            };
            GiveUp { reason, retry_after }
        })
    }

    #[must_use]
    pub fn snapshot(&self) -> BudgetSnapshot {
        self.budget.snapshot(&self.config.load(), Instant::now())
    }
}
