//! The breaker: probes, generations, and what slips past a transition.

use std::{sync::Arc, time::Duration};

use shuttle::{check_random, thread};

use crate::{
    breaker::{Breaker, BreakerConfig, State},
    ramp::{RampConfig, RampStep},
};

const SCHEDULES: usize = 1_000;

fn half_open(probes: u32, steps: Vec<RampStep>) -> Arc<Breaker> {
    let config = BreakerConfig {
        probes,
        // Longer than any test, since the clock here is the real one.
        probe_lease: Duration::from_secs(3_600),
        slow_threshold: Duration::from_secs(3_600),
        minimum_calls: 1,
        ramp: RampConfig { steps, ..RampConfig::default() },
        ..BreakerConfig::default()
    };
    let breaker = Breaker::new(config, 7).unwrap();
    breaker.force_open();
    breaker.release();
    Arc::new(breaker)
}

fn in_threads<T: Send + 'static>(
    number: usize,
    breaker: &Arc<Breaker>,
    act: impl Fn(usize, &Breaker) -> T + Send + Sync + Copy + 'static,
) -> Vec<T> {
    let threads: Vec<_> = (0..number)
        .map(|n| {
            let breaker = Arc::clone(breaker);
            thread::spawn(move || act(n, &breaker))
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn callers_at_once_get_exactly_the_places_that_there_are() {
    check_random(
        || {
            let breaker = half_open(2, Vec::new());
            // Forgotten and not dropped: each keeps its place.
            let admitted = in_threads(4, &breaker, |_, breaker| breaker.acquire().map(std::mem::forget).is_ok());
            assert_eq!(admitted.into_iter().filter(|admitted| *admitted).count(), 2);
        },
        SCHEDULES,
    );
}

#[test]
fn places_given_back_are_neither_lost_nor_doubled() {
    check_random(
        || {
            let breaker = half_open(2, Vec::new());
            in_threads(3, &breaker, |_, breaker| {
                for _ in 0..2 {
                    if let Ok(permit) = breaker.acquire() {
                        let snapshot = breaker.snapshot();
                        assert!((1..=2).contains(&snapshot.probes_leased), "{snapshot:?}");
                        drop(permit);
                    }
                }
            });
            assert_eq!(breaker.snapshot().probes_leased, 0);
            let (first, second) = (breaker.acquire(), breaker.acquire());
            assert!(first.is_ok() && second.is_ok() && breaker.acquire().is_err());
        },
        SCHEDULES,
    );
}

#[test]
fn a_verdict_from_before_the_trip_never_decides_half_open() {
    check_random(
        || {
            let breaker = half_open(1, Vec::new());
            breaker.acquire().unwrap().success();
            assert_eq!(breaker.state(), State::Closed);
            // One failure opens it, and so would one probe's: only a stale one could open what the operator released.
            in_threads(3, &breaker, |n, breaker| match n {
                0 => {
                    if let Ok(permit) = breaker.acquire() {
                        // The generation in which it counts is over as soon as the operator has come by.
                        if breaker.state() == State::Closed { permit.failure() } else { drop(permit) }
                    }
                }
                1 => {
                    breaker.force_open();
                    breaker.release();
                }
                _ => drop(breaker.acquire()),
            });
            assert_eq!(breaker.state(), State::HalfOpen);
            assert_eq!(breaker.snapshot().probes_leased, 0);
        },
        SCHEDULES,
    );
}

#[test]
fn the_last_probe_lets_no_call_slip_past_the_ramp() {
    check_random(
        || {
            let step = RampStep { percent: 1, duration: Duration::from_secs(3_600) };
            let breaker = half_open(1, vec![step]);
            let admitted = in_threads(4, &breaker, |_, breaker| match breaker.acquire() {
                Ok(permit) => {
                    permit.success();
                    1
                }
                Err(_) => 0,
            });
            // The probe, and the first call of the step if there was one after it.
            let admitted: u32 = admitted.into_iter().sum();
            assert!((1..=2).contains(&admitted), "{admitted}");
            assert_eq!(breaker.state(), State::Ramping);
        },
        SCHEDULES,
    );
}

#[test]
fn one_trip_is_one_transition_however_many_failures_arrive() {
    check_random(
        || {
            let breaker = half_open(1, Vec::new());
            breaker.acquire().unwrap().success();
            in_threads(4, &breaker, |_, breaker| {
                if let Ok(permit) = breaker.acquire() {
                    permit.failure();
                }
            });
            let snapshot = breaker.snapshot();
            assert_eq!((snapshot.state, snapshot.opened), (State::Open, 1));
        },
        SCHEDULES,
    );
}
