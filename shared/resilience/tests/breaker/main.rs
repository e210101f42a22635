//! The breaker through its public face, on a paused clock. Not at the foot of its files, since those are compiled a
//! second time by the interleaving tests.

#![expect(clippy::unwrap_used, reason = "what the tests share may fail them as they may themselves")]

mod allocation;
mod config;
mod faults;
mod listening;
mod model;
mod operators;
mod ramping;
mod states;

use std::time::Duration;

use resilience::{
    breaker::{Breaker, BreakerConfig, State, Window},
    ramp::RampConfig,
};

const MS: Duration = Duration::from_millis(1);

/// Small numbers: a window of 10, at least 4 calls, half of them; 3 probes; no jitter and no ramp.
fn small() -> BreakerConfig {
    BreakerConfig {
        window: Window::Calls(10),
        minimum_calls: 4,
        failure_ratio: 0.5,
        slow_threshold: 100 * MS,
        slow_ratio: 0.5,
        open: 1_000 * MS,
        open_max: 4_000 * MS,
        open_jitter: 0.0,
        probes: 3,
        probe_lease: 500 * MS,
        ramp: RampConfig { steps: Vec::new(), ..RampConfig::default() },
        ..BreakerConfig::default()
    }
}

fn breaker(config: BreakerConfig) -> Breaker {
    Breaker::new(config, 7).unwrap()
}

fn succeed(breaker: &Breaker, times: u32) {
    for _ in 0..times {
        breaker.acquire().unwrap().success();
    }
}

fn fail(breaker: &Breaker, times: u32) {
    for _ in 0..times {
        breaker.acquire().unwrap().failure();
    }
}

/// Opens it, and waits until the interval is over.
async fn open_and_wait(breaker: &Breaker) {
    fail(breaker, 4);
    assert_eq!(breaker.state(), State::Open);
    let wait = breaker.acquire().unwrap_err().retry_after;
    tokio::time::advance(wait).await;
}
