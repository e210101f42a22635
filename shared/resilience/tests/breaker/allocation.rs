//! The pass path and the refusal allocate nothing.

use allocation_counter::measure;
use resilience::breaker::{BreakerConfig, State, Window};

use super::{breaker, fail, small, succeed};

#[test]
fn a_call_that_passes_allocates_nothing_from_the_first_on() {
    for window in [Window::Calls(100), Window::SpanMs(1_000)] {
        let breaker = breaker(BreakerConfig { window, failure_ratio: 1.0, ..small() });
        // A thread's first look at the thresholds registers the thread with arc-swap.
        drop(breaker.acquire());
        let _ = breaker.snapshot();
        let measured = measure(|| {
            for call in 0..500 {
                let permit = breaker.acquire().unwrap();
                if call % 3 == 0 {
                    permit.failure()
                } else {
                    permit.success()
                }
                drop(breaker.acquire().unwrap());
            }
        });
        assert_eq!(breaker.state(), State::Closed);
        assert_eq!(measured.count_total, 0, "{window:?}");
    }
}

#[test]
fn a_refusal_allocates_nothing() {
    let breaker = breaker(small());
    succeed(&breaker, 1);
    fail(&breaker, 3);
    assert!(breaker.acquire().is_err());
    let measured = measure(|| {
        for _ in 0..500 {
            assert!(breaker.peek().is_err());
            assert!(breaker.acquire().is_err());
        }
    });
    assert_eq!(measured.count_total, 0);
}
