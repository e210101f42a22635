//! What a breaker says about itself: states, reasons with figures, refusals, transitions, snapshot.
//!
//! All of it but the snapshot is `Copy`, so that a refusal allocates nothing.

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::ramp::{RampSnapshot, Trouble};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum State {
    /// Everything passes, verdicts are counted.
    Closed = 0,
    /// Nothing passes until the interval is over.
    Open = 1,
    /// A bounded number of probes passes; their verdicts decide.
    HalfOpen = 2,
    /// The probes were well; a rising share passes.
    Ramping = 3,
    /// An operator holds it open.
    ForcedOpen = 4,
    /// An operator holds it closed: verdicts are counted and open nothing.
    ForcedClosed = 5,
}

/// Why a breaker is in the state that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reason {
    /// It has not had a reason yet.
    Started,
    FailureRatio {
        ratio: f64,
        threshold: f64,
        calls: u32,
    },
    SlowRatio {
        ratio: f64,
        threshold: f64,
        slow_threshold_ms: u64,
        calls: u32,
    },
    ConsecutiveFailures {
        failures: u32,
    },
    OpenIntervalOver {
        open_ms: u64,
    },
    ProbesFailed {
        failed: u32,
        probes: u32,
    },
    ProbesSlow {
        slow: u32,
        probes: u32,
    },
    ProbesPassed {
        probes: u32,
    },
    RampRose {
        percent: u8,
    },
    RampFellBack {
        percent: u8,
        trouble: Trouble,
    },
    RampGaveUp {
        trouble: Trouble,
    },
    RampFinished,
    ForcedOpen,
    ForcedClosed,
    Released,
}

/// Not sent. `reason` is why the breaker is in `state`.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("breaker is {state:?}")]
pub struct Rejected {
    pub retry_after: Duration,
    pub state: State,
    pub reason: Reason,
}

/// One change of state. Steps of the ramp are changes from `Ramping` to `Ramping`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transition {
    /// Counts from 1 without gaps. Two threads may deliver theirs in the other order; whoever keeps a latest state
    /// compares numbers.
    pub number: u64,
    pub from: State,
    pub to: State,
    pub reason: Reason,
    /// Of the window at this moment, as are `slow_ratio` and `calls`.
    pub failure_ratio: f64,
    pub slow_ratio: f64,
    pub calls: u32,
    pub at: Instant,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BreakerSnapshot {
    pub state: State,
    pub reason: Reason,
    /// In this state (or step of the ramp) since so many milliseconds.
    pub since_ms: u64,
    pub transitions: u64,
    pub calls: u32,
    pub failures: u32,
    pub slow: u32,
    pub failure_ratio: f64,
    pub slow_ratio: f64,
    pub consecutive_failures: u32,
    pub open_remaining_ms: Option<u64>,
    pub probes_leased: u32,
    pub probes_settled: u32,
    pub ramp: Option<RampSnapshot>,
    /// From here on counts since the start.
    pub opened: u64,
    pub half_open_failures: u64,
    pub rejected: u64,
    /// Verdicts that were ignored since their call began before the last transition.
    pub stale: u64,
    /// How long the last recovery took, from opening to fully closed.
    pub last_recovery_ms: Option<u64>,
}

impl State {
    /// The value of the gauge `stability_breaker_state`: 0 closed, 1 open, 2 half-open, 3 ramping.
    #[must_use]
    pub const fn metric(self) -> u8 {
        match self {
            Self::Closed | Self::ForcedClosed => 0,
            Self::Open | Self::ForcedOpen => 1,
            Self::HalfOpen => 2,
            Self::Ramping => 3,
        }
    }

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
            Self::Ramping => "ramping",
            Self::ForcedOpen => "forced_open",
            Self::ForcedClosed => "forced_closed",
        }
    }

    pub(super) const fn from_bits(bits: u64) -> Self {
        match bits & 0b111 {
            0 => Self::Closed,
            1 => Self::Open,
            2 => Self::HalfOpen,
            3 => Self::Ramping,
            4 => Self::ForcedOpen,
            _ => Self::ForcedClosed,
        }
    }
}
