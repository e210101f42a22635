//! Closed, open, half-open, and what moves between them.

use resilience::breaker::{Breaker, BreakerConfig, Reason, State, Window};
use tokio::time::advance;

use super::{MS, breaker, fail, open_and_wait, small, succeed};

#[tokio::test(start_paused = true)]
async fn it_opens_at_the_failure_ratio_and_not_below_the_minimum_of_calls() {
    let breaker = breaker(small());
    fail(&breaker, 3);
    assert_eq!(breaker.state(), State::Closed, "three calls say nothing");
    fail(&breaker, 1);
    assert_eq!(breaker.state(), State::Open);
    let rejected = breaker.acquire().unwrap_err();
    assert_eq!(rejected.retry_after, 1_000 * MS);
    assert_eq!(rejected.reason, Reason::FailureRatio { ratio: 1.0, threshold: 0.5, calls: 4 });
}

#[tokio::test(start_paused = true)]
async fn a_success_that_completes_the_minimum_opens_it_too() {
    let breaker = breaker(small());
    fail(&breaker, 3);
    succeed(&breaker, 1);
    assert_eq!(breaker.state(), State::Open);
    assert_eq!(breaker.snapshot().reason, Reason::FailureRatio { ratio: 0.75, threshold: 0.5, calls: 4 });
}

#[tokio::test(start_paused = true)]
async fn it_opens_in_its_first_window() {
    // failsafe's own success-rate policy cannot: 500 failures out of 500 leave it closed for the first 30 s.
    let breaker = breaker(BreakerConfig { window: Window::SpanMs(30_000), ..small() });
    fail(&breaker, 4);
    assert_eq!(breaker.state(), State::Open);
}

#[tokio::test(start_paused = true)]
async fn a_count_window_forgets_all_but_the_last_calls() {
    let breaker = breaker(small());
    succeed(&breaker, 3);
    fail(&breaker, 2);
    succeed(&breaker, 10);
    let snapshot = breaker.snapshot();
    assert_eq!((snapshot.calls, snapshot.failures), (10, 0));
    fail(&breaker, 4);
    assert_eq!(breaker.state(), State::Closed, "4 of 10");
    fail(&breaker, 1);
    assert_eq!(breaker.state(), State::Open, "5 of 10");
}

#[tokio::test(start_paused = true)]
async fn a_time_window_forgets_what_is_older_than_its_span() {
    let breaker = breaker(BreakerConfig { window: Window::SpanMs(1_000), ..small() });
    fail(&breaker, 3);
    advance(500 * MS).await;
    assert_eq!(breaker.snapshot().calls, 3);
    advance(500 * MS).await;
    assert_eq!(breaker.snapshot().calls, 0);
    fail(&breaker, 3);
    assert_eq!(breaker.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn slow_successes_open_it_and_nothing_is_cut_off() {
    let breaker = breaker(small());
    for _ in 0..4 {
        let permit = breaker.acquire().unwrap();
        advance(100 * MS).await;
        permit.success();
    }
    assert_eq!(breaker.state(), State::Open);
    let expected = Reason::SlowRatio { ratio: 1.0, threshold: 0.5, slow_threshold_ms: 100, calls: 4 };
    assert_eq!(breaker.acquire().unwrap_err().reason, expected);
    let snapshot = breaker.snapshot();
    assert_eq!((snapshot.slow, snapshot.failures), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_just_below_the_slow_threshold_is_not_slow() {
    let breaker = breaker(small());
    for _ in 0..10 {
        let permit = breaker.acquire().unwrap();
        advance(99 * MS).await;
        permit.success();
    }
    assert_eq!(breaker.snapshot().slow, 0);
    assert_eq!(breaker.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn failures_in_a_row_open_it_below_the_minimum() {
    let breaker = breaker(BreakerConfig { consecutive_failures: 3, minimum_calls: 10, ..small() });
    fail(&breaker, 2);
    succeed(&breaker, 1);
    fail(&breaker, 2);
    assert_eq!(breaker.state(), State::Closed, "a success interrupts the run");
    fail(&breaker, 1);
    assert_eq!(breaker.snapshot().reason, Reason::ConsecutiveFailures { failures: 3 });
}

#[tokio::test(start_paused = true)]
async fn half_open_admits_the_probes_and_no_more_and_closes_when_all_are_in() {
    let breaker = breaker(small());
    open_and_wait(&breaker).await;
    let probes: Vec<_> = (0..3).map(|_| breaker.acquire().unwrap()).collect();
    assert_eq!(breaker.state(), State::HalfOpen);
    let rejected = breaker.acquire().unwrap_err();
    assert_eq!((rejected.state, rejected.retry_after), (State::HalfOpen, 100 * MS));
    for (settled, probe) in probes.into_iter().enumerate() {
        assert_eq!(breaker.state(), State::HalfOpen, "after {settled}");
        assert!(breaker.acquire().is_err(), "a settled probe keeps its place");
        probe.success();
    }
    assert_eq!(breaker.state(), State::Closed);
    assert_eq!(breaker.snapshot().calls, 0, "closed begins with an empty window");
}

#[tokio::test(start_paused = true)]
async fn half_open_opens_again_as_soon_as_the_rest_cannot_help() {
    let breaker = breaker(small());
    open_and_wait(&breaker).await;
    let (first, second, third) = (breaker.acquire().unwrap(), breaker.acquire().unwrap(), breaker.acquire().unwrap());
    first.failure();
    assert_eq!(breaker.state(), State::HalfOpen, "one of three is below a half");
    second.failure();
    assert_eq!(breaker.state(), State::Open);
    assert_eq!(breaker.snapshot().reason, Reason::ProbesFailed { failed: 2, probes: 3 });
    third.success();
    assert_eq!(breaker.state(), State::Open);
    assert_eq!(breaker.snapshot().half_open_failures, 1);
}

#[tokio::test(start_paused = true)]
async fn slow_probes_open_it_again() {
    let breaker = breaker(small());
    open_and_wait(&breaker).await;
    let (first, second) = (breaker.acquire().unwrap(), breaker.acquire().unwrap());
    advance(150 * MS).await;
    first.success();
    second.success();
    assert_eq!(breaker.snapshot().reason, Reason::ProbesSlow { slow: 2, probes: 3 });
}

#[tokio::test(start_paused = true)]
async fn each_opening_without_recovery_lasts_longer_up_to_the_cap() {
    let breaker = breaker(BreakerConfig { probes: 1, ..small() });
    fail(&breaker, 4);
    let mut waits = Vec::new();
    for _ in 0..5 {
        let wait = breaker.acquire().unwrap_err().retry_after;
        waits.push(wait.as_millis());
        advance(wait - MS).await;
        assert!(breaker.acquire().is_err(), "a millisecond early");
        advance(MS).await;
        breaker.acquire().unwrap().failure();
    }
    assert_eq!(waits, [1_000, 2_000, 4_000, 4_000, 4_000]);
    advance(4_000 * MS).await;
    succeed(&breaker, 1);
    fail(&breaker, 4);
    assert_eq!(breaker.acquire().unwrap_err().retry_after, 1_000 * MS, "a recovery ends the backoff");
}

#[tokio::test(start_paused = true)]
async fn jitter_spreads_the_intervals_within_its_share_and_follows_the_seed() {
    let config = BreakerConfig { open_jitter: 0.2, ..small() };
    let wait = |seed| {
        let breaker = Breaker::new(config.clone(), seed).unwrap();
        fail(&breaker, 4);
        breaker.acquire().unwrap_err().retry_after
    };
    let waits: Vec<_> = (0..100).map(wait).collect();
    assert!(waits.iter().all(|wait| (800 * MS..=1_200 * MS).contains(wait)));
    let (shortest, longest) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
    assert!(*longest - *shortest > 300 * MS, "{shortest:?} to {longest:?}");
    assert_eq!(wait(5), wait(5));
}

#[tokio::test(start_paused = true)]
async fn peeking_takes_nothing() {
    let breaker = breaker(small());
    assert!(breaker.peek().is_ok());
    fail(&breaker, 4);
    assert_eq!(breaker.peek().unwrap_err().retry_after, 1_000 * MS);
    advance(1_000 * MS).await;
    for _ in 0..10 {
        assert!(breaker.peek().is_ok(), "the interval is over");
    }
    assert_eq!(breaker.state(), State::Open, "and only a call makes it half-open");
    let probes: Vec<_> = (0..3).map(|_| breaker.acquire().unwrap()).collect();
    assert!(breaker.peek().is_err());
    drop(probes);
    assert!(breaker.peek().is_ok());
    let lost: Vec<_> = (0..3).map(|_| breaker.acquire().unwrap()).collect();
    advance(500 * MS).await;
    assert!(breaker.peek().is_ok(), "their leases have expired");
    drop(lost);
}

#[tokio::test(start_paused = true)]
async fn new_thresholds_work_on_what_was_learnt_before_them() {
    let breaker = breaker(BreakerConfig { failure_ratio: 0.9, ..small() });
    succeed(&breaker, 5);
    fail(&breaker, 3);
    breaker.reconfigure(BreakerConfig { failure_ratio: 0.3, ..small() }).unwrap();
    assert_eq!(breaker.state(), State::Closed);
    assert_eq!(breaker.snapshot().calls, 8);
    succeed(&breaker, 1);
    assert_eq!(breaker.state(), State::Open, "3 of 9");
}

#[tokio::test(start_paused = true)]
async fn another_window_keeps_what_fits_its_shape() {
    let with = |window| BreakerConfig { window, failure_ratio: 1.0, ..small() };
    let breaker = breaker(with(Window::Calls(10)));
    succeed(&breaker, 8);
    fail(&breaker, 3);
    breaker.reconfigure(with(Window::Calls(5))).unwrap();
    assert_eq!((breaker.snapshot().calls, breaker.snapshot().failures), (5, 3), "the newest five");
    breaker.reconfigure(with(Window::Calls(20))).unwrap();
    assert_eq!((breaker.snapshot().calls, breaker.snapshot().failures), (5, 3));
    breaker.reconfigure(with(Window::SpanMs(1_000))).unwrap();
    assert_eq!(breaker.snapshot().calls, 0, "calls do not tell when they were");
    assert_eq!(breaker.snapshot().consecutive_failures, 3);

    succeed(&breaker, 2);
    advance(600 * MS).await;
    fail(&breaker, 1);
    breaker.reconfigure(with(Window::SpanMs(10_000))).unwrap();
    assert_eq!((breaker.snapshot().calls, breaker.snapshot().failures), (3, 1));
    breaker.reconfigure(with(Window::SpanMs(500))).unwrap();
    let snapshot = breaker.snapshot();
    assert_eq!(snapshot.calls, 3, "within a bucket of the wide window their age is not known any more");
}

#[tokio::test(start_paused = true)]
async fn fewer_probes_than_have_settled_leave_one_that_decides() {
    let breaker = breaker(small());
    open_and_wait(&breaker).await;
    succeed(&breaker, 2);
    breaker.reconfigure(BreakerConfig { probes: 1, ..small() }).unwrap();
    succeed(&breaker, 1);
    assert_eq!(breaker.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn opening_cancels_nothing_that_runs() {
    let breaker = breaker(small());
    let running = breaker.acquire().unwrap();
    fail(&breaker, 4);
    advance(50 * MS).await;
    assert_eq!(running.elapsed(), 50 * MS);
    running.success();
    assert_eq!(breaker.snapshot().stale, 1);
}

#[tokio::test(start_paused = true)]
async fn the_snapshot_serializes_with_state_and_reason() {
    let breaker = breaker(small());
    fail(&breaker, 4);
    advance(250 * MS).await;
    let _ = breaker.acquire();
    let json = serde_json::to_value(breaker.snapshot()).unwrap();
    assert_eq!(json["state"], "open");
    assert_eq!(json["reason"]["kind"], "failure_ratio");
    assert_eq!((json["open_remaining_ms"].as_u64(), json["since_ms"].as_u64()), (Some(750), Some(250)));
    assert_eq!((json["opened"].as_u64(), json["rejected"].as_u64()), (Some(1), Some(1)));
}
