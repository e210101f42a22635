//! The budget of one callee, over time and between threads.

use std::time::Duration;

use proptest::prelude::*;
use resilience::retry::{RetryBudget, RetryConfig};
use tokio::time::{Instant, advance};

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
