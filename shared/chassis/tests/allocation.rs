//! The outbound guards allocate nothing where a call passes. A binary of its own, since what it counts is each thread's
//! and other tests would share it.

use std::time::Duration;

use allocation_counter::measure;
use chassis::{downstream::Guards, signals::Signals};
use resilience::{
    Deadline,
    rate_limit::{LeakyBucketConfig, LimiterConfig, Quota, SlidingWindowConfig},
};
use rules::Rules;

#[test]
fn a_call_that_passes_all_outbound_guards_allocates_nothing() {
    assert!(measure(|| drop(std::hint::black_box(Box::new(1)))).count_total > 0, "nothing is counted at all");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for limit in [
        LimiterConfig::TokenBucket(Quota::new(100_000.0, 100_000)),
        LimiterConfig::LeakyBucket(LeakyBucketConfig { per_second: 1_000_000.0, max_wait: Duration::from_millis(50) }),
        LimiterConfig::SlidingWindow(SlidingWindowConfig { limit: 100_000, window: Duration::from_secs(60) }),
    ] {
        let rule = rules::Downstream { limit, ..Rules::default().downstream.payment };
        let guards = Guards::new("callee", &rule, Signals::default()).unwrap();
        let deadline = Deadline::after(Duration::from_secs(600));
        runtime.block_on(async {
            let pass = async || {
                let lease = guards.admit(deadline).await.unwrap();
                guards.first_try(&lease);
                lease.success();
            };
            // A thread's first look at a rule registers the thread.
            pass().await;
            let mut measured = 0;
            for _ in 0..200 {
                // Admitted and released; the future itself lives on the stack.
                let mut pass = std::pin::pin!(pass());
                let waker = std::task::Waker::noop();
                let mut done = false;
                let counted = measure(|| {
                    done = pass.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_ready();
                });
                if done {
                    measured += 1;
                    assert_eq!(counted.count_total, 0, "{limit:?}");
                } else {
                    // A leaky bucket makes who comes early wait for a timer.
                    pass.await;
                }
            }
            assert!(measured > 0, "{limit:?}: every call waited");
        });
    }
}
