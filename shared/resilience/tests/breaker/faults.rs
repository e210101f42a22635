//! Faults of public breakers, each of which must not happen here.

use std::{sync::Barrier, time::Duration};

use resilience::breaker::{BreakerConfig, State};
use tokio::time::{advance, timeout};

use super::{MS, breaker, fail, open_and_wait, small, succeed};

#[tokio::test(start_paused = true)]
async fn a_probe_that_a_later_guard_refuses_does_not_leave_it_half_open() {
    let breaker = breaker(BreakerConfig { probes: 1, ..small() });
    open_and_wait(&breaker).await;
    for _ in 0..100 {
        let admitted = breaker.acquire().unwrap();
        admitted.ignore();
    }
    succeed(&breaker, 1);
    assert_eq!(breaker.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_never_reports_loses_its_lease() {
    let breaker = breaker(BreakerConfig { probes: 1, ..small() });
    open_and_wait(&breaker).await;
    std::mem::forget(breaker.acquire().unwrap());
    advance(499 * MS).await;
    assert!(breaker.acquire().is_err());
    advance(MS).await;
    succeed(&breaker, 1);
    assert_eq!(breaker.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn the_verdict_of_a_probe_whose_lease_expired_counts_for_nothing() {
    let breaker = breaker(BreakerConfig { probes: 1, ..small() });
    open_and_wait(&breaker).await;
    let late = breaker.acquire().unwrap();
    advance(500 * MS).await;
    let present = breaker.acquire().unwrap();
    late.failure();
    assert_eq!(breaker.state(), State::HalfOpen);
    assert!(breaker.acquire().is_err(), "the late one did not free the present one's place");
    present.success();
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn callers_that_arrive_together_are_not_one_probe_each() {
    let breaker = breaker(small());
    breaker.force_open();
    breaker.release();
    let start = Barrier::new(8);
    let admitted: usize = std::thread::scope(|scope| {
        let arrive = || {
            start.wait();
            // Held while the others arrive: a cap on completions would let them all in.
            let held: Vec<_> = (0..125).filter_map(|_| breaker.acquire().ok()).collect();
            start.wait();
            held.len()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(arrive)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, 3, "of a thousand");
}

#[tokio::test(start_paused = true)]
async fn results_of_calls_from_before_the_trip_decide_nothing_after_it() {
    let breaker = breaker(small());
    let before: Vec<_> = (0..10).map(|_| breaker.acquire().unwrap()).collect();
    open_and_wait(&breaker).await;
    let probe = breaker.acquire().unwrap();
    for (n, permit) in before.into_iter().enumerate() {
        if n % 2 == 0 {
            permit.failure()
        } else {
            permit.success()
        }
        assert_eq!(breaker.state(), State::HalfOpen);
    }
    assert_eq!(breaker.snapshot().stale, 10);
    probe.success();
    succeed(&breaker, 2);
    assert_eq!(breaker.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_probe_of_an_earlier_round_decides_nothing_in_a_later_one() {
    let breaker = breaker(BreakerConfig { probe_lease: Duration::from_secs(60), ..small() });
    open_and_wait(&breaker).await;
    let early = breaker.acquire().unwrap();
    fail(&breaker, 2);
    assert_eq!(breaker.state(), State::Open);
    advance(2_000 * MS).await;
    let present = breaker.acquire().unwrap();
    early.failure();
    fail(&breaker, 1);
    assert_eq!(breaker.state(), State::HalfOpen, "one failure of three, not two");
    drop(present);
}

#[tokio::test(start_paused = true)]
async fn callers_that_leave_do_not_open_a_healthy_breaker() {
    let breaker = breaker(small());
    for _ in 0..100 {
        let call = async {
            let permit = breaker.acquire().unwrap();
            std::future::pending::<()>().await;
            permit.failure();
        };
        assert!(timeout(10 * MS, call).await.is_err());
    }
    assert_eq!(breaker.state(), State::Closed);
    assert_eq!(breaker.snapshot().calls, 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_probe_gives_its_place_back() {
    let breaker = breaker(BreakerConfig { probes: 1, ..small() });
    open_and_wait(&breaker).await;
    let call = async {
        let _permit = breaker.acquire().unwrap();
        std::future::pending::<()>().await;
    };
    assert!(timeout(10 * MS, call).await.is_err());
    assert_eq!(breaker.snapshot().probes_leased, 0);
    succeed(&breaker, 1);
    assert_eq!(breaker.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_probe_whose_task_panics_gives_its_place_back() {
    let breaker = std::sync::Arc::new(breaker(BreakerConfig { probes: 1, ..small() }));
    open_and_wait(&breaker).await;
    let shared = std::sync::Arc::clone(&breaker);
    let task = tokio::spawn(async move {
        let _permit = shared.acquire().unwrap();
        panic!("the caller's own fault");
    });
    assert!(task.await.unwrap_err().is_panic());
    assert!(breaker.acquire().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_business_no_in_good_time_closes_it() {
    // A callee that answers "declined" works. Were the answer ignored, nothing would ever count and it stayed open.
    let breaker = breaker(small());
    open_and_wait(&breaker).await;
    let declined = |permit: resilience::breaker::Permit<'_>| permit.success();
    for _ in 0..3 {
        declined(breaker.acquire().unwrap());
    }
    assert_eq!(breaker.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn timeouts_are_seen_since_the_verdict_is_the_callers() {
    // A timeout wrapped around failsafe's own `call` drops the future, and it records nothing: 20 of them, still closed.
    let breaker = breaker(small());
    let mut refused = 0;
    for _ in 0..20 {
        let Ok(permit) = breaker.acquire() else {
            refused += 1;
            continue;
        };
        match timeout(10 * MS, std::future::pending::<()>()).await {
            Ok(()) => permit.success(),
            Err(_) => permit.failure(),
        }
    }
    assert_eq!((breaker.state(), refused), (State::Open, 16));
}

#[tokio::test(start_paused = true)]
async fn the_longest_intervals_that_pass_validation_do_not_overflow() {
    let day = Duration::from_secs(86_400);
    let config = BreakerConfig { open: day, open_max: day, open_factor: 10.0, open_jitter: 0.5, probes: 1, ..small() };
    let breaker = breaker(config);
    fail(&breaker, 4);
    for _ in 0..100 {
        advance(2 * day).await;
        breaker.acquire().unwrap().failure();
    }
    assert_eq!(breaker.snapshot().opened, 101);
}
