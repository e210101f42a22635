//! # Fixed window: at most so many between two edges
//!
//! **Problem.** A contract counts in calendar windows ("1 000 calls a minute"), and we have to count as it does.
//!
//! **Rule.** One counter, set back to zero at every edge. Within a window the count is exact.
//!
//! **Not for** protecting anything: the whole limit just before an edge and again just after it is 2 × the limit in no
//! time (sliding window), and everybody who was refused comes back at the same edge.
//!
//! **When you copy this**, take `clock` and `verdict` along, or read the time where `clock` is read. Windows are counted
//! from the start of the limiter; align them with the wall clock if the contract does.
//!
//! **Proved by** the test that shows the spike across the edge beside the sliding window that refuses it.

use std::{
    num::NonZeroU32,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{Admitted, Exceeds, Invalid, LimiterSnapshot, RateLimited, Refused, clock::Clock, quota::LONGEST_FILL};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedWindowConfig {
    /// Operations in a window.
    pub limit: u32,
    /// Its length, milliseconds.
    #[serde(rename = "window_ms", with = "crate::millis")]
    pub window: Duration,
}

impl FixedWindowConfig {
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.limit == 0 {
            return Err(Invalid::new("limit", "0 would admit nothing, ever"));
        }
        if self.window.is_zero() || self.window > LONGEST_FILL {
            return Err(Invalid::new(
                "window_ms",
                format!("{:?} is not above 0 and at most {LONGEST_FILL:?}", self.window),
            ));
        }
        Ok(())
    }
}

#[derive(Debug)]
pub struct FixedWindow {
    clock: Clock,
    /// Check and count are one step under this lock; held for some nanoseconds, and no await under it.
    state: Mutex<State>,
}

impl FixedWindow {
    pub fn new(config: FixedWindowConfig) -> Result<Self, Invalid> {
        Self::with_clock(config, Clock::counter())
    }

    pub fn with_clock(config: FixedWindowConfig, clock: Clock) -> Result<Self, Invalid> {
        config.validate()?;
        let state = Mutex::new(State { config, start: clock.read(), count: 0 });
        Ok(Self { clock, state })
    }

    /// Admits one operation, or says when to come back.
    pub fn check(&self) -> Result<Admitted, RateLimited> {
        let now = self.clock.read();
        self.state().admit(now, NonZeroU32::MIN)
    }

    /// Admits an operation that weighs `weight`, whole or not at all.
    pub fn check_n(&self, weight: NonZeroU32) -> Result<Admitted, Refused> {
        let now = self.clock.read();
        let mut state = self.state();
        let limit = state.config.limit;
        if weight.get() > limit {
            return Err(Exceeds { weight, limit }.into());
        }
        Ok(state.admit(now, weight)?)
    }

    /// Another limit or window, while in use: what was counted in this window stays counted in it.
    pub fn reconfigure(&self, config: FixedWindowConfig) -> Result<(), Invalid> {
        config.validate()?;
        let now = self.clock.read();
        let mut state = self.state();
        state.roll(now);
        if config.window != state.config.window {
            // A new window begins with the count of the old one, or the change itself would be an edge to exploit.
            state.start = now;
        }
        state.config = config;
        Ok(())
    }

    #[must_use]
    pub fn snapshot(&self) -> LimiterSnapshot {
        let now = self.clock.read();
        let mut state = self.state();
        state.roll(now);
        LimiterSnapshot {
            kind: "fixed_window",
            limit: state.config.limit,
            window: state.config.window,
            remaining: state.remaining(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Clone, Copy)]
struct State {
    config: FixedWindowConfig,
    /// When the current window began.
    start: u64,
    count: u32,
}

impl State {
    fn admit(&mut self, now: u64, weight: NonZeroU32) -> Result<Admitted, RateLimited> {
        self.roll(now);
        let (limit, window) = (self.config.limit, self.config.window);
        let reset = Duration::from_nanos((self.start + self.length()).saturating_sub(now));
        match self.count.checked_add(weight.get()) {
            Some(count) if count <= limit => {
                self.count = count;
                Ok(Admitted { limit, window, remaining: self.remaining(), reset })
            }
            _ => Err(RateLimited { retry_after: reset, limit, window, remaining: self.remaining(), reset }),
        }
    }

    /// Moves on to the window that `now` lies in.
    fn roll(&mut self, now: u64) {
        // A thread that read the clock earlier may come later: it is counted in the window that stands.
        let passed = now.saturating_sub(self.start) / self.length();
        if passed > 0 {
            self.count = 0;
            self.start += passed * self.length();
        }
    }

    const fn remaining(&self) -> u32 {
        self.config.limit.saturating_sub(self.count)
    }

    fn length(&self) -> u64 {
        // At most a day.
        u64::try_from(self.config.window.as_nanos()).unwrap_or(u64::MAX)
    }
}
