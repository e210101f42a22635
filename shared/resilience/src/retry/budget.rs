//! The retry budget of one callee: over ten seconds, retries are at most a share of requests, or a small floor.
//!
//! The floor is what is allowed *at least*, and not on top: under load the callee sees 1.2 times its requests at a
//! share of 0.2, and no more. Requests are counted without a lock, since every call does it; retries are rare and
//! take one, so that of two who want the last, one gets it.

use serde::Serialize;
use tokio::time::Instant;

use super::RetryConfig;
use crate::sync::{AtomicU64, Mutex, Ordering::Relaxed, PoisonError};

/// Ten slots of a second. The present one is only partly over, so the window is between nine and ten seconds long.
const SLOTS: usize = 10;

#[derive(Debug)]
pub struct RetryBudget {
    born: Instant,
    /// `second << 32 | requests in it`, by second modulo ten.
    requests: [AtomicU64; SLOTS],
    retries: Mutex<Retries>,
}

/// What a budget holds, for metrics and people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BudgetSnapshot {
    /// Within the window.
    pub requests: u32,
    /// Scheduled within the window.
    pub retries: u32,
    /// That could be scheduled now.
    pub available: u32,
    /// Refused for want of budget, since the start.
    pub refused: u64,
}

#[derive(Debug, Default)]
struct Retries {
    /// (second, retries scheduled in it), by second modulo ten.
    slots: [(u32, u32); SLOTS],
    refused: u64,
}

impl RetryBudget {
    #[must_use]
    pub fn new(born: Instant) -> Self {
        Self { born, requests: Default::default(), retries: Mutex::default() }
    }

    /// A request was made, not counting its retries.
    pub fn deposit(&self, now: Instant) {
        let second = self.second(now);
        let slot = &self.requests[second as usize % SLOTS];
        // The closure always returns Some.
        let _ = slot.fetch_update(Relaxed, Relaxed, |packed| {
            let (at, count) = unpack(packed);
            // A slot from the future means that our clock was read before another's: its count is as good.
            Some(if at >= second { pack(at, count.saturating_add(1)) } else { pack(second, 1) })
        });
    }

    /// Takes one retry, if there is one.
    pub fn withdraw(&self, config: &RetryConfig, now: Instant) -> bool {
        let second = self.second(now);
        let mut retries = self.retries.lock().unwrap_or_else(PoisonError::into_inner);
        if self.allowance(config, second) <= retries.within(second) {
            retries.refused += 1;
            return false;
        }
        let slot = &mut retries.slots[second as usize % SLOTS];
        *slot = if slot.0 == second { (second, slot.1 + 1) } else { (second, 1) };
        true
    }

    /// Retries that could be taken now.
    #[must_use]
    pub fn available(&self, config: &RetryConfig, now: Instant) -> u32 {
        let second = self.second(now);
        let spent = self.retries.lock().unwrap_or_else(PoisonError::into_inner).within(second);
        self.allowance(config, second).saturating_sub(spent)
    }

    #[must_use]
    pub fn snapshot(&self, config: &RetryConfig, now: Instant) -> BudgetSnapshot {
        let second = self.second(now);
        let retries = self.retries.lock().unwrap_or_else(PoisonError::into_inner);
        let spent = retries.within(second);
        BudgetSnapshot {
            requests: self.requests_within(second),
            retries: spent,
            available: self.allowance(config, second).saturating_sub(spent),
            refused: retries.refused,
        }
    }

    fn allowance(&self, config: &RetryConfig, second: u32) -> u32 {
        let share = config.budget_ratio * f64::from(self.requests_within(second));
        // Float casts saturate, and a ratio that is no number gives none.
        (share as u32).max(config.budget_floor_per_second.saturating_mul(SLOTS as u32))
    }

    fn requests_within(&self, second: u32) -> u32 {
        let counts = self.requests.iter().map(|slot| unpack(slot.load(Relaxed)));
        counts.filter(|(at, _)| recent(*at, second)).fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    fn second(&self, now: Instant) -> u32 {
        u32::try_from(now.saturating_duration_since(self.born).as_secs()).unwrap_or(u32::MAX)
    }
}

impl Retries {
    fn within(&self, second: u32) -> u32 {
        self.slots.iter().filter(|(at, _)| recent(*at, second)).fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }
}

/// Whether a slot belongs to the window that ends in `second`. One from the future belongs to it: clocks of two
/// threads that read at the same moment.
fn recent(at: u32, second: u32) -> bool {
    at.saturating_add(SLOTS as u32) > second
}

const fn pack(second: u32, count: u32) -> u64 {
    (second as u64) << 32 | count as u64
}

const fn unpack(packed: u64) -> (u32, u32) {
    ((packed >> 32) as u32, packed as u32)
}
