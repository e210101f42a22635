//! Every transition is told, with its reason and figures.

use std::sync::{Arc, Mutex};

use resilience::breaker::{Breaker, Reason, State, Transition};
use resilience::ramp::{RampConfig, RampStep};
use tokio::time::advance;

use super::{MS, fail, open_and_wait, small, succeed};

fn heard() -> (Arc<Mutex<Vec<Transition>>>, impl Fn(&Transition) + Send + Sync + 'static) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&heard);
    (heard, move |transition: &Transition| tell.lock().unwrap().push(*transition))
}

#[tokio::test(start_paused = true)]
async fn a_whole_outage_is_told_from_opening_to_closing() {
    let (heard, listener) = heard();
    let steps = vec![RampStep { percent: 50, duration: 1_000 * MS }];
    let config = resilience::BreakerConfig { ramp: RampConfig { steps, ..RampConfig::default() }, ..small() };
    let breaker = Breaker::new(config, 7).unwrap().with_listener(listener);
    let began = tokio::time::Instant::now();
    open_and_wait(&breaker).await;
    succeed(&breaker, 3);
    advance(1_000 * MS).await;
    succeed(&breaker, 1);

    let heard = heard.lock().unwrap();
    let told: Vec<_> = heard.iter().map(|told| (told.number, told.from, told.to, told.reason)).collect();
    assert_eq!(
        told,
        [
            (1, State::Closed, State::Open, Reason::FailureRatio { ratio: 1.0, threshold: 0.5, calls: 4 }),
            (2, State::Open, State::HalfOpen, Reason::OpenIntervalOver { open_ms: 1_000 }),
            (3, State::HalfOpen, State::Ramping, Reason::ProbesPassed { probes: 3 }),
            (4, State::Ramping, State::Closed, Reason::RampFinished),
        ]
    );
    assert_eq!((heard[0].failure_ratio, heard[0].slow_ratio, heard[0].calls), (1.0, 0.0, 4));
    assert_eq!(heard[3].at - began, 2_000 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_listener_may_use_the_breaker() {
    let slot: Arc<Mutex<Option<Arc<Breaker>>>> = Arc::default();
    let inner = Arc::clone(&slot);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&seen);
    let breaker = Breaker::new(small(), 7).unwrap().with_listener(move |transition| {
        let breaker = inner.lock().unwrap().clone().unwrap();
        tell.lock().unwrap().push((transition.to, breaker.snapshot().state));
    });
    let breaker = Arc::new(breaker);
    *slot.lock().unwrap() = Some(Arc::clone(&breaker));
    fail(&breaker, 4);
    breaker.force_closed();
    assert_eq!(*seen.lock().unwrap(), [(State::Open, State::Open), (State::ForcedClosed, State::ForcedClosed)]);
    *slot.lock().unwrap() = None;
}

#[test]
fn numbers_have_no_gaps_whatever_the_order_of_delivery() {
    let (heard, listener) = heard();
    let breaker = Breaker::new(small(), 7).unwrap().with_listener(listener);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let breaker = &breaker;
            scope.spawn(move || {
                for _ in 0..200 {
                    if thread % 2 == 0 {
                        breaker.force_open()
                    } else {
                        breaker.force_closed()
                    }
                    breaker.release();
                }
            });
        }
    });
    let mut heard = heard.lock().unwrap().clone();
    heard.sort_by_key(|told| told.number);
    assert!(heard.len() > 200);
    for (n, pair) in heard.windows(2).enumerate() {
        assert_eq!((pair[0].number, pair[1].number), (n as u64 + 1, n as u64 + 2));
        assert_eq!(pair[0].to, pair[1].from);
    }
}
