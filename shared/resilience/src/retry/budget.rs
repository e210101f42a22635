//! The retry budget of one callee: over ten seconds, retries are at most a share of requests, or a small floor.
//!
//! The floor is what is allowed *at least*, and not on top: under load the callee sees 1.2 times its requests at a
//! share of 0.2, and no more. Requests are counted without a lock, since every call does it; retries are rare and
//! take one, so that of two who want the last, one gets it.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use serde::Serialize;
use tokio::time::Instant;

use super::RetryConfig;

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_quiet_callee_still_has_its_floor() {
        let budget = RetryBudget::new(Instant::now());
        let config = RetryConfig::default();
        let taken = (0..100).filter(|_| budget.withdraw(&config, Instant::now())).count();
        assert_eq!(taken, 10);
        assert_eq!(budget.snapshot(&config, Instant::now()).refused, 90);
        advance(Duration::from_secs(10)).await;
        assert_eq!(budget.available(&config, Instant::now()), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn the_floor_is_no_extra_under_load() {
        let budget = RetryBudget::new(Instant::now());
        let config = RetryConfig::default();
        for _ in 0..1_000 {
            budget.deposit(Instant::now());
        }
        assert_eq!((0..1_000).filter(|_| budget.withdraw(&config, Instant::now())).count(), 200);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_long_ago_give_nothing() {
        let budget = RetryBudget::new(Instant::now());
        let config = RetryConfig::default();
        for _ in 0..1_000 {
            budget.deposit(Instant::now());
        }
        advance(Duration::from_secs(9)).await;
        assert_eq!(budget.available(&config, Instant::now()), 200);
        advance(Duration::from_secs(1)).await;
        assert_eq!(budget.available(&config, Instant::now()), 10);
    }

    #[test]
    fn of_many_threads_only_as_many_get_a_retry_as_there_are() {
        let budget = RetryBudget::new(Instant::now());
        let config = RetryConfig::default();
        let now = Instant::now();
        let taken: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        (0..250).for_each(|_| budget.deposit(now));
                        (0..1_000).filter(|_| budget.withdraw(&config, now)).count()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(budget.snapshot(&config, now).requests, 1_000);
        assert!(taken <= 200, "{taken}");
        assert_eq!(taken + (0..200).filter(|_| budget.withdraw(&config, now)).count(), 200);
    }

    proptest! {
        #[test]
        fn over_any_window_retries_stay_within_the_share_or_the_floor(
            ratio in 0.0..1.0_f64,
            floor in 0_u32..3,
            steps in proptest::collection::vec((0_u64..1_500, 0_usize..20, 0_usize..20), 1..80),
        ) {
            let config = RetryConfig { budget_ratio: ratio, budget_floor_per_second: floor, ..RetryConfig::default() };
            let born = Instant::now();
            let budget = RetryBudget::new(born);
            let (mut now, mut requests, mut retries) = (born, Vec::new(), Vec::new());
            for (pause, made, wanted) in steps {
                now += Duration::from_millis(pause);
                for _ in 0..made {
                    budget.deposit(now);
                    requests.push(now);
                }
                for _ in 0..wanted {
                    if budget.withdraw(&config, now) {
                        retries.push(now);
                    }
                }
                let within = |events: &[Instant], seconds| {
                    events.iter().filter(|at| now - **at < Duration::from_secs(seconds)).count() as f64
                };
                let allowed = (ratio * within(&requests, 10)).max(f64::from(floor) * 10.0);
                // The shorter end of the window for what is bounded, the longer for what bounds it; what was allowed
                // while there were more requests stays allowed, so only a moment that grants is judged.
                if retries.last() == Some(&now) {
                    prop_assert!(within(&retries, 9) <= allowed);
                }
            }
        }
    }
}
