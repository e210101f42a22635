//! # Ramp: full traffic returns in steps
//!
//! **Problem.** A dependency that has just recovered has cold caches and empty pools. All the traffic at once, with
//! everything that was held back, pushes it over again.
//!
//! **Rule.** After recovery a share of the calls is admitted for a while, then a larger one, then all. The share is
//! kept by spacing and not by chance: at 10 % every tenth call goes, so any *n* calls in a row admit between
//! ⌊n/10⌋ and ⌈n/10⌉. A step ends when its time is over; the next begins at that moment and not retroactively, so
//! that an idle hour does not skip steps.
//!
//! **Trouble** is at least `minimum_calls` verdicts on calls *admitted in this step*, of which `trouble_ratio` or more
//! failed or were slow. It is judged more strictly than a breaker's own window (few calls, failed and slow together),
//! since a smaller share is the cheap answer: the ramp falls back one step and starts that step's time again. Trouble
//! in the first step means that the recovery was none: [`Move::GaveUp`]. Verdicts on calls of earlier steps count for
//! nothing here, or the wreckage of a step that was too large would condemn the smaller one after it.
//!
//! **Not for** dependencies that carry full load from the first moment (a stateless function, a shared cache hit): a
//! ramp makes recovery longer by all of its steps.
//!
//! **When you copy this**, change the steps, and decide afresh what trouble is. The type has no clock and no lock; its
//! owner passes the time in and serialises the calls.
//!
//! **Proved by** the drill `recovery-surge`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{
    invalid::{Invalid, require},
    millis,
};

/// The steps back to full traffic. None at all means that full traffic returns at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RampConfig {
    /// In rising order. After the last one everything is admitted.
    pub steps: Vec<RampStep>,
    /// Verdicts in a step below which nothing is called trouble.
    pub minimum_calls: u32,
    /// Share of failed or slow calls in a step that is trouble.
    pub trouble_ratio: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RampStep {
    /// Of the calls that arrive, how many in a hundred are admitted.
    pub percent: u8,
    #[serde(rename = "duration_ms", with = "millis")]
    pub duration: Duration,
}

/// Not this call; the next share begins in `retry_after` at the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("ramping at {percent} %")]
pub struct Held {
    pub percent: u8,
    pub retry_after: Duration,
}

/// What a ramp did because of the time or of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// The next step began.
    Rose { percent: u8 },
    /// Trouble: back to the step before.
    FellBack { percent: u8, trouble: Trouble },
    /// Trouble in the first step.
    GaveUp { trouble: Trouble },
    /// The last step is over.
    Finished,
}

/// The figures of the step that went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// The share at which it happened.
    pub percent: u8,
    pub bad: u32,
    pub calls: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RampSnapshot {
    pub percent: u8,
    pub step: usize,
    pub steps: usize,
    pub step_remaining_ms: u64,
    pub calls: u32,
    pub bad: u32,
}

/// One recovery in progress.
#[derive(Debug)]
pub struct Ramp {
    config: RampConfig,
    step: usize,
    began: Instant,
    /// Raised with every change of step; a verdict names the one that its call was admitted in.
    serial: u64,
    /// Hundredths of a call that may go; at 100 one is admitted.
    credit: u32,
    calls: u32,
    bad: u32,
}

impl Default for RampConfig {
    fn default() -> Self {
        // Half a minute a step: long enough for pools to fill and for a window's worth of calls at a tenth of 300/s.
        let duration = Duration::from_secs(30);
        let step = |percent| RampStep { percent, duration };
        // The last step admits everything and is still watched closely.
        Self { steps: vec![step(10), step(30), step(100)], minimum_calls: 5, trouble_ratio: 0.3 }
    }
}

impl RampConfig {
    pub fn validate(&self) -> Result<(), Invalid> {
        let within = |step: &RampStep| (1..=100).contains(&step.percent);
        let lasts = |step: &RampStep| !step.duration.is_zero() && step.duration <= Duration::from_secs(3_600);
        require(self.steps.len() <= 16, "steps", "at most 16 steps")?;
        require(self.steps.iter().all(within), "steps", "percent is between 1 and 100")?;
        require(self.steps.iter().all(lasts), "steps", "duration_ms is between 1 and an hour")?;
        let rises = self.steps.windows(2).all(|pair| pair[0].percent < pair[1].percent);
        require(rises, "steps", "percent rises from step to step")?;
        require(self.minimum_calls > 0, "minimum_calls", "must be at least 1")?;
        let ratio = self.trouble_ratio > 0.0 && self.trouble_ratio <= 1.0;
        require(ratio, "trouble_ratio", "must be above 0 and at most 1")
    }
}

impl Ramp {
    /// Begins at the first step; `None` when there is none.
    #[must_use]
    pub fn new(config: RampConfig, now: Instant) -> Option<Self> {
        if config.steps.is_empty() {
            return None;
        }
        let mut ramp = Self { config, step: 0, began: now, serial: 0, credit: 0, calls: 0, bad: 0 };
        ramp.enter(0, now);
        Some(ramp)
    }

    /// Asks for one call. The number that comes back goes with its verdict.
    pub fn admit(&mut self, now: Instant) -> Result<u64, Held> {
        let step = self.current();
        self.credit += u32::from(step.percent);
        if self.credit >= 100 {
            self.credit -= 100;
            return Ok(self.serial);
        }
        // A second is what a client's Retry-After can express; the step may end sooner.
        let left = self.remaining(now).clamp(Duration::from_millis(1), Duration::from_secs(1));
        Err(Held { percent: step.percent, retry_after: left })
    }

    /// Lets time pass: at most one step at once.
    pub fn tick(&mut self, now: Instant) -> Option<Move> {
        if !self.remaining(now).is_zero() {
            return None;
        }
        if self.step + 1 >= self.config.steps.len() {
            return Some(Move::Finished);
        }
        self.enter(self.step + 1, now);
        Some(Move::Rose { percent: self.percent() })
    }

    /// Counts a verdict on a call that was admitted with `serial`.
    pub fn record(&mut self, serial: u64, bad: bool, now: Instant) -> Option<Move> {
        if serial != self.serial {
            return None;
        }
        self.calls = self.calls.saturating_add(1);
        self.bad = self.bad.saturating_add(u32::from(bad));
        let ratio = f64::from(self.bad) / f64::from(self.calls);
        if self.calls < self.config.minimum_calls || ratio < self.config.trouble_ratio {
            return None;
        }
        let trouble = Trouble { percent: self.percent(), bad: self.bad, calls: self.calls };
        if self.step == 0 {
            return Some(Move::GaveUp { trouble });
        }
        self.enter(self.step - 1, now);
        Some(Move::FellBack { percent: self.percent(), trouble })
    }

    /// Takes other steps and thresholds; the step that runs keeps its number as far as there still is one, its time and
    /// its verdicts. Without any step the ramp is over at the next tick.
    pub fn reconfigure(&mut self, config: RampConfig) {
        self.step = self.step.min(config.steps.len().saturating_sub(1));
        self.config = config;
    }

    /// The share that is admitted now.
    #[must_use]
    pub fn percent(&self) -> u8 {
        self.current().percent
    }

    #[must_use]
    pub fn snapshot(&self, now: Instant) -> RampSnapshot {
        RampSnapshot {
            percent: self.percent(),
            step: self.step + 1,
            steps: self.config.steps.len(),
            step_remaining_ms: u64::try_from(self.remaining(now).as_millis()).unwrap_or(u64::MAX),
            calls: self.calls,
            bad: self.bad,
        }
    }

    fn enter(&mut self, step: usize, now: Instant) {
        self.step = step;
        self.began = now;
        self.serial += 1;
        self.calls = 0;
        self.bad = 0;
        // The first call of a step goes.
        self.credit = 100 - u32::from(self.percent());
    }

    fn current(&self) -> RampStep {
        self.config.steps.get(self.step).copied().unwrap_or(RampStep { percent: 100, duration: Duration::ZERO })
    }

    fn remaining(&self, now: Instant) -> Duration {
        self.current().duration.saturating_sub(now.saturating_duration_since(self.began))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn of(steps: &[(u8, u32)]) -> RampConfig {
        let steps = steps.iter().map(|&(percent, ms)| RampStep { percent, duration: MS * ms }).collect();
        RampConfig { steps, ..RampConfig::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn no_steps_are_no_ramp() {
        assert!(Ramp::new(of(&[]), Instant::now()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn steps_follow_each_other_by_time_and_none_is_skipped() {
        let began = Instant::now();
        let mut ramp = Ramp::new(of(&[(10, 100), (30, 100), (100, 100)]), began).unwrap();
        assert_eq!(ramp.tick(began + 99 * MS), None);
        assert_eq!(ramp.tick(began + 500 * MS), Some(Move::Rose { percent: 30 }));
        assert_eq!(ramp.tick(began + 599 * MS), None);
        assert_eq!(ramp.tick(began + 600 * MS), Some(Move::Rose { percent: 100 }));
        assert_eq!(ramp.tick(began + 700 * MS), Some(Move::Finished));
    }

    #[tokio::test(start_paused = true)]
    async fn a_held_call_may_return_when_the_step_ends_or_in_a_second() {
        let began = Instant::now();
        let mut ramp = Ramp::new(of(&[(1, 5_000)]), began).unwrap();
        assert!(ramp.admit(began).is_ok());
        assert_eq!(ramp.admit(began), Err(Held { percent: 1, retry_after: 1_000 * MS }));
        assert_eq!(ramp.admit(began + 4_900 * MS), Err(Held { percent: 1, retry_after: 100 * MS }));
        assert_eq!(ramp.admit(began + 9_000 * MS), Err(Held { percent: 1, retry_after: MS }));
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_falls_back_step_by_step_and_gives_up_at_the_first() {
        let now = Instant::now();
        let mut ramp = Ramp::new(of(&[(10, 100), (30, 100)]), now).unwrap();
        ramp.tick(now + 100 * MS);
        let serial = ramp.admit(now).unwrap();
        for _ in 0..4 {
            assert_eq!(ramp.record(serial, true, now), None, "four verdicts are too few");
        }
        let trouble = Trouble { percent: 30, bad: 5, calls: 5 };
        assert_eq!(ramp.record(serial, true, now), Some(Move::FellBack { percent: 10, trouble }));
        assert_eq!(ramp.record(serial, true, now), None, "a call of the larger step");
        let serial = ramp.admit(now).unwrap();
        let last = (0..5).map(|_| ramp.record(serial, true, now)).last().flatten();
        assert_eq!(last, Some(Move::GaveUp { trouble: Trouble { percent: 10, bad: 5, calls: 5 } }));
    }

    proptest! {
        #[test]
        fn any_run_of_calls_admits_its_share_to_within_one(percent in 1..=100u8, from in 0..500usize, length in 1..500usize) {
            let now = Instant::now();
            let mut ramp = Ramp::new(of(&[(percent, 1_000)]), now).unwrap();
            let admitted: Vec<_> = (0..from + length).map(|_| ramp.admit(now).is_ok()).collect();
            let in_run = admitted[from..].iter().filter(|admitted| **admitted).count();
            let share = length * usize::from(percent);
            prop_assert!(admitted[0]);
            prop_assert!((share / 100..=share.div_ceil(100)).contains(&in_run), "{in_run} of {length} at {percent} %");
        }
    }
}
