//! The clock under governor, with a fixed epoch.
//!
//! governor counts its state from the moment a limiter was made. A limiter made anew over the state of the one before
//! it, which is how a quota changes, would therefore read every stored time as lying far in the future, and lock used
//! keys out for as long as the process had been up. Here both operations that governor does with a limiter's start
//! count from one epoch instead, so that limiters made at different times agree about the state they share.
//!
//! In service the processor's counter is read, by quanta, for some 7 ns; tokio's clock costs 20 to 30, half of what a
//! check may take. A paused test clock reaches tokio's alone: tests make their limiters with [`Clock::tokio`].

use std::ops::Add;

use governor::{
    clock::{QuantaClock, QuantaInstant, Reference},
    nanos::Nanos,
};
use tokio::time::Instant;

use super::quota::LONGEST_FILL;

/// The epoch's reading. Twice the longest fill, so that "full since before the start" can be written down.
const ORIGIN: u64 = 2 * LONGEST_FILL.as_secs() * 1_000_000_000;

/// What a limiter reads the time from. Clones share their epoch.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    Counter { clock: QuantaClock, epoch: QuantaInstant },
    Tokio { epoch: Instant },
}

impl Clock {
    /// The processor's counter: for service.
    #[must_use]
    pub fn counter() -> Self {
        let clock = QuantaClock::default();
        let epoch = governor::clock::Clock::now(&clock);
        Self(Source::Counter { clock, epoch })
    }

    /// Tokio's clock, which a test can pause and advance.
    #[must_use]
    pub fn tokio() -> Self {
        Self(Source::Tokio { epoch: Instant::now() })
    }

    #[inline]
    pub(super) fn read(&self) -> u64 {
        let since = match &self.0 {
            Source::Counter { clock, epoch } => governor::clock::Clock::now(clock).duration_since(*epoch).as_u64(),
            Source::Tokio { epoch } => {
                let since = Instant::now().saturating_duration_since(*epoch);
                since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos())
            }
        };
        ORIGIN + since
    }
}

impl governor::clock::Clock for Clock {
    type Instant = Tick;

    #[inline]
    fn now(&self) -> Tick {
        Tick(self.read())
    }
}

/// Nanoseconds since `ORIGIN` before the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(pub(super) u64);

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
