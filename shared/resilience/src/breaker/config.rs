//! The thresholds, with every default and its reason. All of them can change while the breaker works.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    invalid::{Invalid, require},
    millis,
    ramp::RampConfig,
};

/// When to open, for how long, and how to come back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerConfig {
    pub window: Window,
    /// Verdicts in the window below which no ratio opens the breaker: one failure out of one says nothing.
    pub minimum_calls: u32,
    /// Share of failed calls in the window at which it opens.
    pub failure_ratio: f64,
    /// A call that took at least this long is slow, whatever its outcome. Not a timeout: nothing is cut off.
    #[serde(rename = "slow_threshold_ms", with = "millis")]
    pub slow_threshold: Duration,
    /// Share of slow calls in the window at which it opens.
    pub slow_ratio: f64,
    /// Failures in a row that open it even below `minimum_calls`; 0 turns this off.
    pub consecutive_failures: u32,
    /// How long it stays open the first time.
    #[serde(rename = "open_ms", with = "millis")]
    pub open: Duration,
    /// Each opening without a full recovery in between lasts this many times longer …
    pub open_factor: f64,
    /// … up to this.
    #[serde(rename = "open_max_ms", with = "millis")]
    pub open_max: Duration,
    /// Each open interval is longer or shorter by up to this share, so that instances do not probe in step.
    pub open_jitter: f64,
    /// Calls that half-open lets through, and whose verdicts decide.
    pub probes: u32,
    /// A probe that has not reported by then is taken for lost, and its place is free again.
    #[serde(rename = "probe_lease_ms", with = "millis")]
    pub probe_lease: Duration,
    /// Held in this state by an operator, whatever the calls say; unset: it decides by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forced: Option<Forced>,
    pub ramp: RampConfig,
}

/// Where an operator holds a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forced {
    Open,
    /// Verdicts are counted and open nothing.
    Closed,
}

/// What the ratios are taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// The last so many calls. Right where the rate is low or uneven.
    Calls(u32),
    /// The calls of the last so many milliseconds, in ten buckets: it covers between nine tenths and all of the span.
    /// Right where old outcomes should lose their say although few new ones come.
    SpanMs(u32),
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self {
            window: Window::Calls(100),
            minimum_calls: 20,
            failure_ratio: 0.5,
            slow_threshold: Duration::from_secs(1),
            // Slowness is milder than failure: the caller still gets an answer.
            slow_ratio: 0.6,
            consecutive_failures: 0,
            // A restart of the callee fits into it.
            open: Duration::from_secs(30),
            open_factor: 2.0,
            // Longer than this, and a recovery goes unnoticed.
            open_max: Duration::from_secs(300),
            open_jitter: 0.1,
            probes: 10,
            // Above every attempt timeout in use, so that only what is really lost expires.
            probe_lease: Duration::from_secs(10),
            forced: None,
            ramp: RampConfig::default(),
        }
    }
}

impl BreakerConfig {
    pub fn validate(&self) -> Result<(), Invalid> {
        let share = |value: f64| value > 0.0 && value <= 1.0;
        match self.window {
            Window::Calls(calls) => {
                require((1..=100_000).contains(&calls), "window", "calls is between 1 and 100 000")?;
                require(
                    self.minimum_calls <= calls,
                    "minimum_calls",
                    "more than the window holds, so it would never open",
                )?;
            }
            Window::SpanMs(span) => {
                require((10..=3_600_000).contains(&span), "window", "span_ms is between 10 and an hour")?;
            }
        }
        require(self.minimum_calls > 0, "minimum_calls", "must be at least 1")?;
        require(share(self.failure_ratio), "failure_ratio", "must be above 0 and at most 1")?;
        require(share(self.slow_ratio), "slow_ratio", "must be above 0 and at most 1")?;
        require(!self.slow_threshold.is_zero(), "slow_threshold_ms", "must be at least 1, or every call is slow")?;
        require(!self.open.is_zero(), "open_ms", "must be at least 1")?;
        require(self.open <= self.open_max, "open_max_ms", "below open_ms")?;
        require(self.open_max <= Duration::from_secs(86_400), "open_max_ms", "must be at most a day")?;
        require((1.0..=10.0).contains(&self.open_factor), "open_factor", "must be between 1 and 10")?;
        require((0.0..=0.5).contains(&self.open_jitter), "open_jitter", "must be between 0 and 0.5")?;
        require((1..=1_000).contains(&self.probes), "probes", "must be between 1 and 1 000")?;
        require(!self.probe_lease.is_zero(), "probe_lease_ms", "must be at least 1")?;
        require(self.probe_lease <= Duration::from_secs(3_600), "probe_lease_ms", "must be at most an hour")?;
        self.ramp.validate().map_err(|invalid| invalid.within("ramp"))
    }

    /// How long the breaker stays open the `opening`-th time in a row (from 1); `chance` is between 0 and 1.
    pub(super) fn open_interval(&self, opening: u32, chance: f64) -> Duration {
        // Sixteen doublings pass every cap; the bound keeps the power finite.
        let factor = self.open_factor.powi(i32::try_from(opening.saturating_sub(1).min(64)).unwrap_or(64));
        let seconds = (self.open.as_secs_f64() * factor).min(self.open_max.as_secs_f64());
        Duration::from_secs_f64(seconds * (1.0 + self.open_jitter * (2.0 * chance - 1.0)))
    }
}
