//! Full traffic returns in steps.

use resilience::{
    breaker::{Breaker, BreakerConfig, Reason, State, Window},
    ramp::{RampConfig, RampStep, Trouble},
};
use tokio::time::advance;

use super::{MS, breaker, open_and_wait, small, succeed};

fn steps() -> BreakerConfig {
    let step = |percent| RampStep { percent, duration: 30_000 * MS };
    let ramp = RampConfig { steps: vec![step(10), step(30)], ..RampConfig::default() };
    BreakerConfig { ramp, window: Window::Calls(100), ..small() }
}

async fn ramping() -> Breaker {
    let breaker = breaker(steps());
    open_and_wait(&breaker).await;
    succeed(&breaker, 3);
    assert_eq!(breaker.state(), State::Ramping);
    breaker
}

/// Of 100 that arrive, how many go; each of them is well.
fn admitted(breaker: &Breaker) -> usize {
    (0..100).filter_map(|_| breaker.acquire().ok()).map(|permit| permit.success()).count()
}

#[tokio::test(start_paused = true)]
async fn a_tenth_then_three_tenths_then_all() {
    let breaker = ramping().await;
    assert_eq!(admitted(&breaker), 10);
    advance(29_999 * MS).await;
    assert_eq!(admitted(&breaker), 10);
    advance(MS).await;
    assert_eq!(admitted(&breaker), 30);
    assert_eq!(breaker.snapshot().reason, Reason::RampRose { percent: 30 });
    advance(30_000 * MS).await;
    assert_eq!(admitted(&breaker), 100);
    assert_eq!((breaker.state(), breaker.snapshot().reason), (State::Closed, Reason::RampFinished));
    assert_eq!(breaker.snapshot().last_recovery_ms, Some(61_000), "the open interval and two steps");
}

#[tokio::test(start_paused = true)]
async fn a_held_call_is_told_state_and_share() {
    let breaker = ramping().await;
    succeed(&breaker, 1);
    let rejected = breaker.acquire().unwrap_err();
    assert_eq!((rejected.state, rejected.retry_after), (State::Ramping, 1_000 * MS));
    assert_eq!(breaker.snapshot().ramp.unwrap().percent, 10);
    assert_eq!(rejected.state.metric(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_peeks_first_still_moves_the_ramp() {
    let breaker = ramping().await;
    let mut sent = 0;
    for _ in 0..100 {
        if breaker.peek().is_ok()
            && let Ok(permit) = breaker.acquire()
        {
            permit.success();
            sent += 1;
        }
    }
    assert_eq!(sent, 10);
}

#[tokio::test(start_paused = true)]
async fn trouble_in_a_later_step_falls_back_one_step() {
    let breaker = ramping().await;
    assert_eq!(admitted(&breaker), 10);
    advance(30_000 * MS).await;
    let mut troubled = 0;
    while breaker.snapshot().ramp.unwrap().percent == 30 {
        if let Ok(permit) = breaker.acquire() {
            if troubled < 3 {
                permit.success()
            } else {
                permit.failure()
            }
            troubled += 1;
        }
    }
    assert_eq!(troubled, 5, "two of five are more than three tenths");
    let expected = Reason::RampFellBack { percent: 10, trouble: Trouble { percent: 30, bad: 2, calls: 5 } };
    assert_eq!((breaker.state(), breaker.snapshot().reason), (State::Ramping, expected));
    advance(29_999 * MS).await;
    assert_eq!(admitted(&breaker), 10, "the step's time begins anew");
}

#[tokio::test(start_paused = true)]
async fn trouble_in_the_first_step_opens_it_again_for_longer() {
    let breaker = ramping().await;
    for _ in 0..50 {
        if let Ok(permit) = breaker.acquire() {
            if breaker.snapshot().ramp.unwrap().calls < 3 { permit.success() } else { permit.failure() }
        }
    }
    let expected = Reason::RampGaveUp { trouble: Trouble { percent: 10, bad: 2, calls: 5 } };
    let rejected = breaker.acquire().unwrap_err();
    assert_eq!((rejected.state, rejected.reason), (State::Open, expected));
    assert_eq!(rejected.retry_after, 2_000 * MS, "the backoff goes on until traffic is full");
}

#[tokio::test(start_paused = true)]
async fn slow_calls_are_trouble_too() {
    let breaker = ramping().await;
    for _ in 0..50 {
        if let Ok(permit) = breaker.acquire() {
            advance(100 * MS).await;
            permit.success();
        }
    }
    assert_eq!(breaker.state(), State::Open);
}

#[tokio::test(start_paused = true)]
async fn the_wreckage_of_a_larger_step_does_not_condemn_the_smaller_one() {
    let breaker = ramping().await;
    admitted(&breaker);
    advance(30_000 * MS).await;
    let mut held: Vec<_> = (0..50).filter_map(|_| breaker.acquire().ok()).collect();
    assert_eq!(held.len(), 15);
    for permit in held.drain(..5) {
        permit.failure();
    }
    assert_eq!(breaker.snapshot().ramp.unwrap().percent, 10);
    for permit in held.drain(..2) {
        permit.failure();
    }
    assert_eq!(breaker.state(), State::Ramping);
    assert_eq!(breaker.snapshot().ramp.unwrap().bad, 0);
}

#[tokio::test(start_paused = true)]
async fn the_window_opens_a_ramping_breaker_as_it_does_a_closed_one() {
    let config = BreakerConfig { consecutive_failures: 2, ..steps() };
    let breaker = breaker(config);
    breaker.force_open();
    breaker.release();
    succeed(&breaker, 3);
    for _ in 0..20 {
        if let Ok(permit) = breaker.acquire() {
            permit.failure();
        }
    }
    assert_eq!(breaker.snapshot().reason, Reason::ConsecutiveFailures { failures: 2 });
}

#[tokio::test(start_paused = true)]
async fn without_traffic_the_snapshot_moves_it_on_one_step_at_a_time() {
    let breaker = ramping().await;
    advance(100_000 * MS).await;
    assert_eq!(breaker.snapshot().ramp.unwrap().percent, 30, "an hour of silence skips nothing");
    advance(30_000 * MS).await;
    assert_eq!(breaker.snapshot().state, State::Closed);
}

#[tokio::test(start_paused = true)]
async fn steps_can_change_while_it_ramps() {
    let breaker = ramping().await;
    let step = |percent| RampStep { percent, duration: 30_000 * MS };
    let ramp = RampConfig { steps: vec![step(50)], ..RampConfig::default() };
    breaker.reconfigure(BreakerConfig { ramp, ..small() }).unwrap();
    assert_eq!(admitted(&breaker), 50);
    breaker.reconfigure(small()).unwrap();
    assert_eq!(admitted(&breaker), 100);
    assert_eq!(breaker.state(), State::Closed);
}
