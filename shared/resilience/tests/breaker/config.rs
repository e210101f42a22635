//! The document's side: names, defaults, and what is refused.

use std::time::Duration;

use resilience::{
    breaker::{Breaker, BreakerConfig, Window},
    ramp::{RampConfig, RampStep},
};

use super::{MS, small};

#[test]
fn an_empty_document_is_the_default_and_is_valid() {
    let config: BreakerConfig = serde_json::from_str("{}").unwrap();
    assert_eq!(config, BreakerConfig::default());
    assert_eq!(config.validate(), Ok(()));
    assert_eq!(config.window, Window::Calls(100));
    assert_eq!((config.open, config.probes, config.minimum_calls), (Duration::from_secs(30), 10, 20));
}

#[test]
fn a_document_reads_back_as_it_was_written() {
    let json = serde_json::json!({
        "window": {"span_ms": 10_000}, "slow_threshold_ms": 800, "open_ms": 15_000,
        "ramp": {"steps": [{"percent": 10, "duration_ms": 30_000}]},
    });
    let config: BreakerConfig = serde_json::from_value(json).unwrap();
    assert_eq!((config.window, config.slow_threshold), (Window::SpanMs(10_000), 800 * MS));
    let written = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<BreakerConfig>(&written).unwrap(), config);
}

#[test]
fn unknown_fields_are_refused() {
    assert!(serde_json::from_str::<BreakerConfig>(r#"{"failure_rate": 0.5}"#).is_err());
    assert!(serde_json::from_str::<BreakerConfig>(r#"{"ramp": {"stairs": []}}"#).is_err());
}

#[test]
fn bad_values_are_refused_by_the_field_that_holds_them() {
    let step = |percent, duration| RampStep { percent, duration };
    let ramp = |steps| RampConfig { steps, ..RampConfig::default() };
    let bad = [
        ("window", BreakerConfig { window: Window::Calls(0), ..small() }),
        ("window", BreakerConfig { window: Window::SpanMs(0), ..small() }),
        ("minimum_calls", BreakerConfig { minimum_calls: 11, ..small() }),
        ("minimum_calls", BreakerConfig { minimum_calls: 0, ..small() }),
        ("failure_ratio", BreakerConfig { failure_ratio: 1.1, ..small() }),
        ("failure_ratio", BreakerConfig { failure_ratio: f64::NAN, ..small() }),
        ("slow_ratio", BreakerConfig { slow_ratio: 0.0, ..small() }),
        ("slow_threshold_ms", BreakerConfig { slow_threshold: Duration::ZERO, ..small() }),
        ("open_ms", BreakerConfig { open: Duration::ZERO, ..small() }),
        ("open_max_ms", BreakerConfig { open_max: MS, ..small() }),
        ("open_max_ms", BreakerConfig { open_max: Duration::MAX, ..small() }),
        ("open_factor", BreakerConfig { open_factor: 0.5, ..small() }),
        ("open_jitter", BreakerConfig { open_jitter: 0.9, ..small() }),
        ("probes", BreakerConfig { probes: 0, ..small() }),
        ("probe_lease_ms", BreakerConfig { probe_lease: Duration::ZERO, ..small() }),
        ("ramp.steps", BreakerConfig { ramp: ramp(vec![step(0, MS)]), ..small() }),
        ("ramp.steps", BreakerConfig { ramp: ramp(vec![step(30, MS), step(10, MS)]), ..small() }),
        ("ramp.steps", BreakerConfig { ramp: ramp(vec![step(30, Duration::ZERO)]), ..small() }),
    ];
    for (field, config) in bad {
        assert_eq!(config.validate().unwrap_err().field, field, "{config:?}");
        let breaker = Breaker::new(small(), 1).unwrap();
        assert!(breaker.reconfigure(config).is_err());
    }
}
