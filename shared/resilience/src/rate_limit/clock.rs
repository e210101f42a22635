//! The clock under governor, with a fixed epoch.
//!
//! governor counts its state from the moment a limiter was made. A limiter made anew over the state of the one before
//! it, which is how a quota changes, would therefore read every stored time as lying far in the future, and lock used
//! keys out for as long as the process had been up. Here both operations that governor does with a limiter's start
//! count from one epoch instead, so that limiters made at different times agree about the state they share.
//!
//! Time is tokio's, so that a paused clock reaches every limiter without anything being injected. On Linux it costs a
//! read of the vDSO (some 20 ns), within the 60 ns that a check may take; quanta's counter would save half of that and
//! cost every test in every crate above this one a clock handed down to it.

use std::ops::Add;

use governor::{
    clock::{Clock, Reference},
    nanos::Nanos,
};
use tokio::time::Instant;

use super::quota::LONGEST_FILL;

/// The epoch's reading. Twice the longest fill, so that "full since before the start" can be written down.
const ORIGIN: u64 = 2 * LONGEST_FILL.as_secs() * 1_000_000_000;

/// Nanoseconds since `ORIGIN` before the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tick(pub u64);

#[derive(Debug, Clone, Copy)]
pub(super) struct EpochClock {
    epoch: Instant,
}

impl EpochClock {
    pub fn start() -> Self {
        Self { epoch: Instant::now() }
    }

    pub fn read(&self) -> u64 {
        let since = Instant::now().saturating_duration_since(self.epoch);
        ORIGIN + since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos())
    }
}

impl Clock for EpochClock {
    type Instant = Tick;

    fn now(&self) -> Tick {
        Tick(self.read())
    }
}

/// `start + state`, where the state counts from the epoch whatever the start.
impl Add<Nanos> for Tick {
    type Output = Self;

    fn add(self, since_epoch: Nanos) -> Self {
        Self(since_epoch.as_u64())
    }
}

impl Reference for Tick {
    /// `now - start`, likewise from the epoch.
    fn duration_since(&self, _start: Self) -> Nanos {
        Nanos::new(self.0)
    }

    fn saturating_sub(&self, duration: Nanos) -> Self {
        Self(self.0.saturating_sub(duration.as_u64()))
    }
}
