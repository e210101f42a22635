//! Forced states.

use resilience::breaker::{BreakerConfig, Forced, Reason, State};
use tokio::time::advance;

use super::{MS, breaker, fail, open_and_wait, small, succeed};

#[tokio::test(start_paused = true)]
async fn forced_open_refuses_until_it_is_released_into_probes() {
    let breaker = breaker(small());
    breaker.force_open();
    let rejected = breaker.acquire().unwrap_err();
    assert_eq!(
        (rejected.state, rejected.reason, rejected.retry_after),
        (State::ForcedOpen, Reason::ForcedOpen, 1_000 * MS)
    );
    advance(60_000 * MS).await;
    assert!(breaker.acquire().is_err());
    assert!(breaker.peek().is_err());
    breaker.release();
    assert_eq!(breaker.state(), State::HalfOpen, "nothing is known of the callee");
    succeed(&breaker, 3);
    assert_eq!(breaker.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn forced_closed_counts_and_opens_nothing_until_it_is_released() {
    let breaker = breaker(small());
    breaker.force_closed();
    fail(&breaker, 50);
    assert_eq!((breaker.state(), breaker.state().metric()), (State::ForcedClosed, 0));
    assert_eq!(breaker.snapshot().failures, 10);
    breaker.release();
    assert_eq!(breaker.state(), State::Closed);
    succeed(&breaker, 1);
    assert_eq!(breaker.state(), State::Open, "9 of 10 failed");
}

#[tokio::test(start_paused = true)]
async fn every_state_can_be_forced_and_released() {
    for force_open in [true, false] {
        for from in ["closed", "open", "half-open", "forced"] {
            let breaker = breaker(small());
            match from {
                "open" => fail(&breaker, 4),
                "half-open" => {
                    open_and_wait(&breaker).await;
                    succeed(&breaker, 1);
                }
                "forced" if force_open => breaker.force_closed(),
                "forced" => breaker.force_open(),
                _ => {}
            }
            if force_open {
                breaker.force_open()
            } else {
                breaker.force_closed()
            }
            assert_eq!(breaker.acquire().is_err(), force_open, "{from}");
            breaker.release();
            let expected = if force_open { State::HalfOpen } else { State::Closed };
            assert_eq!(breaker.state(), expected, "{from}");
            assert!(breaker.acquire().is_ok());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn verdicts_from_before_it_was_held_open_decide_nothing_after() {
    let breaker = breaker(BreakerConfig { probes: 1, ..small() });
    let before = breaker.acquire().unwrap();
    breaker.force_open();
    breaker.release();
    before.failure();
    assert_eq!(breaker.state(), State::HalfOpen);
}

#[tokio::test(start_paused = true)]
async fn releasing_what_is_not_forced_changes_nothing() {
    let breaker = breaker(small());
    breaker.release();
    assert_eq!(breaker.snapshot().transitions, 0);
    fail(&breaker, 4);
    breaker.release();
    assert_eq!(breaker.state(), State::Open);
}

#[tokio::test(start_paused = true)]
async fn a_configuration_forces_and_releases_where_it_says_something_else_than_before() {
    let forced = |forced| BreakerConfig { forced, ..small() };
    let held = breaker(forced(Some(Forced::Open)));
    assert_eq!(held.state(), State::ForcedOpen, "from the start");
    held.reconfigure(forced(Some(Forced::Closed))).unwrap();
    assert_eq!(held.state(), State::ForcedClosed);
    held.reconfigure(forced(None)).unwrap();
    assert_eq!(held.state(), State::Closed);
    held.force_open();
    held.reconfigure(BreakerConfig { minimum_calls: 2, ..forced(None) }).unwrap();
    assert_eq!(held.state(), State::ForcedOpen, "a rule that says nothing of it leaves alone what was set by call");
    held.reconfigure(forced(Some(Forced::Open))).unwrap();
    held.reconfigure(forced(None)).unwrap();
    assert_eq!(held.state(), State::HalfOpen);
}
