//! Curves that never were, for tests.

use std::collections::BTreeMap;

use chrono::DateTime;

use super::{
    record::{Method, Outcome, Record},
    step::{Generator, Latency, Step},
};
use crate::{scenario::StackSpec, verdict::Oracle};

/// A step of which `goodput` were sold within `p99` milliseconds, and all others refused.
pub fn step(offered: f64, goodput: f64, p99: f64) -> Step {
    let count = |rate: f64| (rate * 100.0) as u64;
    Step {
        offered,
        goodput,
        latency: (goodput > 0.0).then_some(Latency { p50: p99 / 2.0, p95: p99 * 0.9, p99 }),
        outcomes: BTreeMap::from([("201".to_owned(), count(goodput)), ("503".to_owned(), count(offered - goodput))]),
        generator: Generator { lag_p99_ms: 2.0, in_flight_peak: 9, doubt: None },
    }
}

/// A system that sells what comes up to `capacity`, and at most that beyond.
pub fn carries(capacity: f64, rates: impl IntoIterator<Item = f64>) -> Vec<Step> {
    let of = |offered: f64| {
        let p99 = if offered <= capacity { 200.0 } else { 900.0 };
        step(offered, offered.min(capacity), p99)
    };
    rates.into_iter().map(of).collect()
}

/// In which the generator was late.
pub fn late(step: Step) -> Step {
    let doubt = Some("generator late".to_owned());
    Step { generator: Generator { lag_p99_ms: 400.0, doubt, ..step.generator }, ..step }
}

/// For what carries about 42, and for half of it.
pub const RATES: [f64; 8] = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 90.0, 120.0];
pub const HALF: [f64; 8] = [5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 45.0, 60.0];

pub const METHOD: Method = Method { started_at: DateTime::UNIX_EPOCH, took_seconds: 71.0, seed: 3, step_seconds: 8 };

/// A measurement that came to something.
pub fn record() -> Record {
    let report = serde_json::json!({ "invariants": [] });
    let outcome = Outcome {
        all: carries(42.0, RATES),
        one_missing: carries(21.0, HALF),
        oracle: Some(Oracle { clean: true, report }),
        ..Outcome::default()
    };
    Record::of(&StackSpec::default(), 2, outcome, METHOD)
}
