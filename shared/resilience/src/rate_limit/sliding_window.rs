//! # Sliding window: at most so many in any window, without an edge to exploit
//!
//! **Problem.** A fixed window admits its whole limit just before an edge and again just after it.
//!
//! **Rule.** Two counters, this window's and the last one's. What counts against the limit is this window's count and
//! the share of the last one's that a window ending now still covers: `last × (1 − elapsed / window) + current`. That
//! takes the last window's arrivals for evenly spread, which is the price of not keeping each arrival's time.
//!
//! **Not for** smoothing: it admits the whole limit at once after a quiet window (token bucket, leaky bucket).
//!
//! **When you copy this**, take `clock` and `verdict` along, or read the time where `clock` is read.
//!
//! **Proved by** the test that lays it beside the fixed window, and the drill `spike-16x`.

use std::{
    num::NonZeroU32,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{Admitted, Exceeds, Invalid, LimiterSnapshot, RateLimited, Refused, clock::Clock, quota::LONGEST_FILL};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlidingWindowConfig {
    /// Operations in a window.
    pub limit: u32,
    /// Its length, milliseconds.
    #[serde(rename = "window_ms", with = "crate::millis")]
    pub window: Duration,
}

impl SlidingWindowConfig {
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
pub struct SlidingWindow {
    clock: Clock,
    /// Check and count are one step under this lock; held for some nanoseconds, and no await under it.
    state: Mutex<State>,
}

impl SlidingWindow {
    pub fn new(config: SlidingWindowConfig) -> Result<Self, Invalid> {
        Self::with_clock(config, Clock::counter())
    }

    pub fn with_clock(config: SlidingWindowConfig, clock: Clock) -> Result<Self, Invalid> {
        config.validate()?;
        let state = Mutex::new(State { config, start: clock.read(), last: 0, current: 0 });
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

    /// Another limit or window, while in use: what counts against the old limit counts against the new one.
    pub fn reconfigure(&self, config: SlidingWindowConfig) -> Result<(), Invalid> {
        config.validate()?;
        let now = self.clock.read();
        let mut state = self.state();
        state.roll(now);
        if config.window == state.config.window {
            // Not above the new limit, or a used limiter would stay shut for longer than it would have opened anew.
            (state.last, state.current) = (state.last.min(config.limit), state.current.min(config.limit));
        } else {
            // The weighed sum is all that the old windows can say; it runs out over one new window.
            let used = u32::try_from(state.used(now)).unwrap_or(u32::MAX);
            (state.start, state.last, state.current) = (now, used.min(config.limit), 0);
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
            kind: "sliding_window",
            limit: state.config.limit,
            window: state.config.window,
            remaining: state.remaining(now),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Clone, Copy)]
struct State {
    config: SlidingWindowConfig,
    /// When the current window began.
    start: u64,
    last: u32,
    current: u32,
}

impl State {
    fn admit(&mut self, now: u64, weight: NonZeroU32) -> Result<Admitted, RateLimited> {
        self.roll(now);
        let (limit, window) = (self.config.limit, self.config.window);
        if self.used(now) + u64::from(weight.get()) > u64::from(limit) {
            let retry_after = self.wait(now, weight.get());
            let remaining = self.remaining(now);
            return Err(RateLimited { retry_after, limit, window, remaining, reset: retry_after });
        }
        self.current += weight.get();
        // What was admitted now stops counting when the window after this one ends.
        let reset = Duration::from_nanos((self.start + 2 * self.length()).saturating_sub(now));
        Ok(Admitted { limit, window, remaining: self.remaining(now), reset })
    }

    /// Moves on to the window that `now` lies in.
    fn roll(&mut self, now: u64) {
        // A thread that read the clock earlier may come later: it is counted in the window that stands.
        let passed = now.saturating_sub(self.start) / self.length();
        if passed > 0 {
            self.last = if passed == 1 { self.current } else { 0 };
            self.current = 0;
            self.start += passed * self.length();
        }
    }

    /// What counts against the limit, rounded up.
    fn used(&self, now: u64) -> u64 {
        let left = self.length() - now.saturating_sub(self.start).min(self.length());
        let carried = (u128::from(self.last) * u128::from(left)).div_ceil(u128::from(self.length()));
        u64::try_from(carried).unwrap_or(u64::MAX) + u64::from(self.current)
    }

    fn remaining(&self, now: u64) -> u32 {
        u64::from(self.config.limit).saturating_sub(self.used(now)).try_into().unwrap_or(u32::MAX)
    }

    /// Until `weight` fits, if nobody else comes.
    fn wait(&self, now: u64, weight: u32) -> Duration {
        let (limit, length) = (self.config.limit, self.length());
        // In this window, once enough of the last one has run out; else in the next, in which this one is the last.
        let fits_at = match limit.checked_sub(self.current).and_then(|room| room.checked_sub(weight)) {
            Some(room) if self.last > 0 => self.start + length - share(length, room, self.last),
            Some(_) => now,
            None => self.start + 2 * length - share(length, limit - weight, self.current),
        };
        Duration::from_nanos(fits_at.saturating_sub(now))
    }

    fn length(&self) -> u64 {
        // At most a day.
        u64::try_from(self.config.window.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The longest remainder of a window in which a count of `count` weighs no more than `room`.
fn share(length: u64, room: u32, count: u32) -> u64 {
    let share = u128::from(length) * u128::from(room) / u128::from(count);
    u64::try_from(share).unwrap_or(u64::MAX).min(length)
}
