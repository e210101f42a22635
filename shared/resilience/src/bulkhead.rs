//! # Bulkhead: a cap on what one dependency may hold
//!
//! **Problem.** A dependency that slows down keeps every caller waiting. Without a cap of its own it takes all the
//! tasks, connections and memory of the process, and what has nothing to do with it stops too.
//!
//! **Rule.** At most `cap` calls at once. A short bounded wait smooths bursts; the queue for it is bounded as well, and
//! nobody waits past their own deadline. `cap ≈ admitted rate × healthy latency × 2`, below the pool behind it. Permits
//! come back when they are dropped, so every path returns them: an answer, a timeout, a cancelled task, a panic. A
//! waiter that gives up never held one.
//!
//! **Not for** limiting a *rate*: a fast dependency passes any number of calls a second through a cap of one.
//!
//! **When you copy this**, change the two numbers, and import the primitives from std and tokio.
//!
//! **Proved by** the drills `payment-slow` and `recommendation-down`: in-flight calls never pass the cap.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};
use tokio::time::timeout_at;

use crate::{
    deadline::Deadline,
    invalid::{Invalid, require},
    millis,
};

// The concurrency tests compile this file a second time with a model checker's primitives under this name.
use super::sync::{AtomicU32, AtomicU64, Mutex, Ordering, PoisonError, Semaphore};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BulkheadConfig {
    /// Calls at once.
    pub cap: u32,
    /// The longest wait for a permit; zero refuses at once.
    #[serde(rename = "wait_ms", with = "millis")]
    pub wait: Duration,
    /// Callers that may wait at once.
    pub max_waiting: u32,
}

/// No permit in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{in_flight} of {cap} permits taken, {waiting} waiting")]
pub struct Full {
    pub retry_after: Duration,
    pub in_flight: u32,
    pub cap: u32,
    pub waiting: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BulkheadSnapshot {
    pub in_flight: u32,
    pub cap: u32,
    pub waiting: u32,
    /// Since the start, for a counter.
    pub rejected: u64,
}

/// A cheap handle; clones share the cap.
#[derive(Debug, Clone)]
pub struct Bulkhead(Arc<Shared>);

/// The right to one call. Dropping it gives it back.
#[derive(Debug)]
#[must_use = "the permit is given back when it is dropped"]
pub struct Permit(Arc<Shared>);

impl Default for BulkheadConfig {
    fn default() -> Self {
        // 40 calls of 100 ms carry 400 a second; 50 ms let a burst of half as many pass.
        Self { cap: 40, wait: Duration::from_millis(50), max_waiting: 40 }
    }
}

impl BulkheadConfig {
    pub fn validate(&self) -> Result<(), Invalid> {
        require(self.cap > 0, "cap", "must be at least 1")?;
        require(self.cap <= MOST, "cap", "must be at most 100 000")?;
        require(self.max_waiting <= MOST, "max_waiting", "must be at most 100 000")?;
        require(self.wait <= Duration::from_secs(60), "wait_ms", "must be at most a minute")
    }
}

impl Bulkhead {
    pub fn new(config: BulkheadConfig) -> Result<Self, Invalid> {
        config.validate()?;
        Ok(Self(Arc::new(Shared {
            semaphore: Semaphore::new(config.cap as usize),
            in_flight: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            debt: AtomicU32::new(0),
            rejected: AtomicU64::new(0),
            resize: Mutex::new(()),
            config: ArcSwap::from_pointee(config),
        })))
    }

    /// A permit, waiting for it no longer than the rule says and than the caller has time.
    pub async fn acquire(&self, deadline: Deadline) -> Result<Permit, Full> {
        if let Some(permit) = self.try_acquire() {
            return Ok(permit);
        }
        let config = self.0.config.load_full();
        let until = deadline.earliest(Deadline::after(config.wait));
        if until.has_passed() {
            return Err(self.0.refuse(&config));
        }
        let Some(_waiting) = Waiting::join(&self.0, config.max_waiting) else {
            return Err(self.0.refuse(&config));
        };
        // The semaphore is never closed, so the only error is that time ran out.
        let Ok(Ok(permit)) = timeout_at(until.instant(), self.0.semaphore.acquire()).await else {
            return Err(self.0.refuse(&config));
        };
        permit.forget();
        Ok(self.0.admit())
    }

    /// A permit if one is free and nobody waits for it.
    #[must_use]
    pub fn try_acquire(&self) -> Option<Permit> {
        self.0.semaphore.try_acquire().ok()?.forget();
        Some(self.0.admit())
    }

    /// Changes cap and wait while calls run. A smaller cap takes free permits now, and the rest as they come back.
    pub fn reconfigure(&self, config: BulkheadConfig) -> Result<(), Invalid> {
        config.validate()?;
        let _one_at_a_time = self.0.resize.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.0.config.load().cap;
        let after = config.cap;
        self.0.config.store(Arc::new(config));
        if after > before {
            self.0.grow(after - before);
        } else {
            self.0.debt.fetch_add(before - after, Ordering::AcqRel);
            self.0.take_what_is_free();
        }
        Ok(())
    }

    #[must_use]
    pub fn snapshot(&self) -> BulkheadSnapshot {
        BulkheadSnapshot {
            in_flight: self.0.in_flight.load(Ordering::Relaxed),
            cap: self.0.config.load().cap,
            waiting: self.0.waiting.load(Ordering::Relaxed),
            rejected: self.0.rejected.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
        if self.0.pay_debt() {
            return;
        }
        self.0.semaphore.add_permits(1);
        // A smaller cap may have come in between and found nothing free. A write, so that one of the two sees the other.
        if self.0.debt.fetch_add(0, Ordering::AcqRel) > 0 {
            self.0.take_what_is_free();
        }
    }
}

/// A bound against typing errors; a process has no use for more.
const MOST: u32 = 100_000;

/// At every moment: permits free + in flight − debt = cap.
#[derive(Debug)]
struct Shared {
    semaphore: Semaphore,
    in_flight: AtomicU32,
    waiting: AtomicU32,
    /// Permits that a smaller cap has still to take, each from a call that runs.
    debt: AtomicU32,
    rejected: AtomicU64,
    resize: Mutex<()>,
    config: ArcSwap<BulkheadConfig>,
}

impl Shared {
    fn admit(self: &Arc<Self>) -> Permit {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Permit(Arc::clone(self))
    }

    fn refuse(&self, config: &BulkheadConfig) -> Full {
        self.rejected.fetch_add(1, Ordering::Relaxed);
        Full {
            // By then those in the queue have been served or have given up.
            retry_after: config.wait.max(Duration::from_millis(10)),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            cap: config.cap,
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }

    /// Takes one off the debt, if there is any.
    fn pay_debt(&self) -> bool {
        // The common case is no debt: a load alone.
        self.debt.load(Ordering::Acquire) > 0
            && self.debt.fetch_update(Ordering::AcqRel, Ordering::Acquire, |debt| debt.checked_sub(1)).is_ok()
    }

    fn grow(&self, by: u32) {
        let mut added = by;
        while added > 0 && self.pay_debt() {
            added -= 1;
        }
        self.semaphore.add_permits(added as usize);
    }

    /// Pays the debt with free permits as far as there are any. Each unit is claimed before a permit is taken for it: a
    /// call that ends meanwhile pays another unit, and none is paid twice, which would lose a permit for ever.
    fn take_what_is_free(&self) {
        while self.pay_debt() {
            if self.semaphore.forget_permits(1) == 0 {
                self.debt.fetch_add(1, Ordering::AcqRel);
                // A call that ended between the two saw no debt and freed its permit.
                if self.semaphore.available_permits() == 0 {
                    break;
                }
            }
        }
    }
}

/// A place in the queue, left on every path.
struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn join(shared: &'a Shared, most: u32) -> Option<Self> {
        let join = |waiting| (waiting < most).then_some(waiting + 1);
        shared.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, join).ok().map(|_| Self(shared))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}
