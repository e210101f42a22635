//! How many requests a second, and when: stages that hold a rate or ramp from one to another.
//!
//! A profile is its rate and the integral of it. The integral, inverted, turns evenly or randomly spaced points into
//! instants that follow the rate, on ramps too, without approximating a ramp by steps.

use std::{str::FromStr, time::Duration};

/// A part of a run whose rate is constant, or changes evenly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stage {
    pub lasts: Duration,
    /// Requests a second at its start.
    pub from: f64,
    /// Requests a second at its end.
    pub to: f64,
}

/// A burst on top of what is there: from `at` on, `rate` for as long as it `lasts`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spike {
    pub rate: SpikeRate,
    pub at: Duration,
    pub lasts: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SpikeRate {
    /// Requests a second.
    Absolute(f64),
    /// So many times the rate around it.
    Times(f64),
}

/// The stages of a run, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    stages: Vec<Stage>,
}

/// The profile or one of its texts is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadProfile {
    #[error("a duration is a number with ms, s or m, for example 10s")]
    Duration,
    #[error("a rate is a number from 0 to {}", Profile::MAX_RATE)]
    Rate,
    #[error("a stage is DURATION:RATE or DURATION:RATE..RATE, for example 5s:50..200")]
    Stage,
    #[error("a spike is RATE@AT+DURATION, where RATE may be a multiple, for example 16x@4s+2s")]
    Spike,
    #[error("a spike must begin and end inside the run")]
    SpikeOutside,
    #[error("every stage must last")]
    Empty,
    #[error("a run is at most {} minutes long", Profile::MAX_DURATION.as_secs() / 60)]
    TooLong,
}

impl Profile {
    /// Far above what one process can send; it keeps a slip of the keyboard from asking for a billion.
    pub const MAX_RATE: f64 = 100_000.0;
    /// Every second of a run is kept until it ends.
    pub const MAX_DURATION: Duration = Duration::from_secs(60 * 60);

    pub fn new(stages: Vec<Stage>) -> Result<Self, BadProfile> {
        if stages.is_empty() || stages.iter().any(|stage| stage.lasts.is_zero()) {
            return Err(BadProfile::Empty);
        }
        if stages.iter().any(|stage| !is_rate(stage.from) || !is_rate(stage.to)) {
            return Err(BadProfile::Rate);
        }
        let total = stages.iter().try_fold(Duration::ZERO, |sum, stage| sum.checked_add(stage.lasts));
        if total.is_none_or(|total| total > Self::MAX_DURATION) {
            return Err(BadProfile::TooLong);
        }
        Ok(Self { stages })
    }

    pub fn steady(rate: f64, lasts: Duration) -> Result<Self, BadProfile> {
        Self::new(vec![Stage { lasts, from: rate, to: rate }])
    }

    /// The same with a burst in it.
    pub fn with_spike(self, spike: Spike) -> Result<Self, BadProfile> {
        let end = spike.at.checked_add(spike.lasts).ok_or(BadProfile::TooLong)?;
        if spike.lasts.is_zero() || end > self.duration() {
            return Err(BadProfile::SpikeOutside);
        }
        let mut stages = Vec::with_capacity(self.stages.len() + 2);
        let mut began = Duration::ZERO;
        for stage in self.stages {
            let over = began + stage.lasts;
            // At most three pieces: what lies before the spike, in it and behind it.
            let (cut_in, cut_out) = (spike.at.clamp(began, over), end.clamp(began, over));
            for (piece, spiked) in [((began, cut_in), false), ((cut_in, cut_out), true), ((cut_out, over), false)] {
                let (start, stop) = piece;
                if start < stop {
                    let part = stage.part(start - began, stop - began);
                    stages.push(if spiked { spike.rate.lift(part) } else { part });
                }
            }
            began = over;
        }
        Self::new(stages)
    }

    #[must_use]
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    #[must_use]
    pub fn duration(&self) -> Duration {
        self.stages.iter().map(|stage| stage.lasts).sum()
    }

    /// How many requests the whole run comes to, on average.
    #[must_use]
    pub fn expected(&self) -> f64 {
        self.stages.iter().map(Stage::expected).sum()
    }

    /// When `mass` requests are due by the rates; `None` once that many never are.
    #[must_use]
    pub fn when(&self, mut mass: f64) -> Option<Duration> {
        let mut began = Duration::ZERO;
        for stage in &self.stages {
            let whole = stage.expected();
            if mass < whole {
                return Some(began + stage.when(mass));
            }
            mass -= whole;
            began += stage.lasts;
        }
        None
    }
}

impl Stage {
    fn expected(&self) -> f64 {
        f64::midpoint(self.from, self.to) * self.lasts.as_secs_f64()
    }

    /// Solves `from·t + slope/2·t² = mass`, in the form that loses no digits when the slope is small or none.
    fn when(&self, mass: f64) -> Duration {
        if mass <= 0.0 {
            return Duration::ZERO;
        }
        let slope = (self.to - self.from) / self.lasts.as_secs_f64();
        let root = (self.from * self.from + 2.0 * slope * mass).max(0.0).sqrt();
        let seconds = 2.0 * mass / (self.from + root);
        Duration::try_from_secs_f64(seconds).map_or(self.lasts, |at| at.min(self.lasts))
    }

    fn rate_at(&self, at: Duration) -> f64 {
        self.from + (self.to - self.from) * at.as_secs_f64() / self.lasts.as_secs_f64()
    }

    fn part(&self, start: Duration, stop: Duration) -> Self {
        Self { lasts: stop - start, from: self.rate_at(start), to: self.rate_at(stop) }
    }
}

impl SpikeRate {
    fn lift(self, stage: Stage) -> Stage {
        match self {
            Self::Absolute(rate) => Stage { from: rate, to: rate, ..stage },
            Self::Times(factor) => Stage { from: stage.from * factor, to: stage.to * factor, ..stage },
        }
    }
}

impl FromStr for Stage {
    type Err = BadProfile;

    fn from_str(text: &str) -> Result<Self, BadProfile> {
        let (lasts, rates) = text.split_once(':').ok_or(BadProfile::Stage)?;
        let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
        Ok(Self { lasts: duration(lasts)?, from: rate(from)?, to: rate(to)? })
    }
}

impl FromStr for Spike {
    type Err = BadProfile;

    fn from_str(text: &str) -> Result<Self, BadProfile> {
        let (high, rest) = text.split_once('@').ok_or(BadProfile::Spike)?;
        let (at, lasts) = rest.split_once('+').ok_or(BadProfile::Spike)?;
        let rate = match high.strip_suffix('x') {
            Some(factor) => SpikeRate::Times(rate(factor)?),
            None => SpikeRate::Absolute(rate(high)?),
        };
        Ok(Self { rate, at: duration(at)?, lasts: duration(lasts)? })
    }
}

/// `500ms`, `10s`, `2m`.
pub fn duration(text: &str) -> Result<Duration, BadProfile> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| BadProfile::Duration)?;
    let millis = match &text[digits.len()..] {
        "ms" => Some(number),
        "s" => number.checked_mul(1000),
        "m" => number.checked_mul(60_000),
        _ => None,
    };
    millis.map(Duration::from_millis).ok_or(BadProfile::Duration)
}

/// A number that a rate may be.
pub fn rate(text: &str) -> Result<f64, BadProfile> {
    text.parse().ok().filter(|rate| is_rate(*rate)).ok_or(BadProfile::Rate)
}

fn is_rate(rate: f64) -> bool {
    (0.0..=Profile::MAX_RATE).contains(&rate)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_steady_stage_spaces_its_requests_evenly() {
        let profile = Profile::steady(10.0, secs(2)).unwrap();
        assert_eq!(profile.when(0.0), Some(Duration::ZERO));
        assert_eq!(profile.when(5.0), Some(Duration::from_millis(500)));
        assert_eq!(profile.when(20.0), None);
    }

    #[test]
    fn a_ramp_reaches_half_its_requests_later_than_half_its_time() {
        // 0 to 100/s in 10 s is 500 requests; 250 of them take 10·√½ s.
        let profile = Profile::new(vec!["10s:0..100".parse().unwrap()]).unwrap();
        assert!((profile.expected() - 500.0).abs() < 1e-9);
        let half = profile.when(250.0).unwrap().as_secs_f64();
        assert!((half - 10.0 * 0.5_f64.sqrt()).abs() < 1e-6, "{half}");
    }

    #[test]
    fn a_spike_replaces_the_rate_for_its_time_and_no_longer() {
        let profile = Profile::steady(50.0, secs(10)).unwrap().with_spike("16x@4s+2s".parse().unwrap()).unwrap();
        let stage = |lasts, rate| Stage { lasts: secs(lasts), from: rate, to: rate };
        assert_eq!(profile.stages(), [stage(4, 50.0), stage(2, 800.0), stage(4, 50.0)]);
    }

    #[test]
    fn a_spike_on_a_ramp_cuts_it_without_moving_the_rest() {
        let profile = Profile::new(vec!["10s:0..100".parse().unwrap(), "5s:100".parse().unwrap()]).unwrap();
        let spiked = profile.with_spike("500@8s+4s".parse().unwrap()).unwrap();
        let stage = |lasts, from, to| Stage { lasts: secs(lasts), from, to };
        assert_eq!(
            spiked.stages(),
            [stage(8, 0.0, 80.0), stage(2, 500.0, 500.0), stage(2, 500.0, 500.0), stage(3, 100.0, 100.0)]
        );
    }

    #[test]
    fn what_is_no_profile_is_refused_with_its_reason() {
        for (text, why) in [
            ("10s", BadProfile::Stage),
            ("10:5", BadProfile::Duration),
            ("s:5", BadProfile::Duration),
            ("99999999999999999999s:5", BadProfile::Duration),
            ("10s:-1", BadProfile::Rate),
            ("10s:NaN", BadProfile::Rate),
            ("10s:inf", BadProfile::Rate),
            ("10s:1..100001", BadProfile::Rate),
        ] {
            assert_eq!(text.parse::<Stage>(), Err(why), "{text}");
        }
        assert_eq!("16x".parse::<Spike>(), Err(BadProfile::Spike));
        assert_eq!(Profile::new(vec![]), Err(BadProfile::Empty));
        assert_eq!(Profile::steady(1.0, Duration::ZERO), Err(BadProfile::Empty));
        assert_eq!(Profile::steady(1.0, secs(3601)), Err(BadProfile::TooLong));
        let ten = Profile::steady(10.0, secs(10)).unwrap();
        assert_eq!(ten.clone().with_spike("100@9s+2s".parse().unwrap()), Err(BadProfile::SpikeOutside));
        assert_eq!(ten.with_spike("20000x@1s+2s".parse().unwrap()), Err(BadProfile::Rate));
    }

    proptest! {
        #[test]
        fn instants_never_go_back_and_stay_inside_the_run(
            stages in prop::collection::vec((1_u64..5_000, 0.0..500.0_f64, 0.0..500.0_f64), 1..5),
            points in prop::collection::vec(0.0..1.0_f64, 2..50),
        ) {
            let stages = stages.into_iter().map(|(ms, from, to)| Stage { lasts: Duration::from_millis(ms), from, to });
            let profile = Profile::new(stages.collect()).unwrap();
            let mut points: Vec<f64> = points.into_iter().map(|p| p * profile.expected()).collect();
            points.sort_by(f64::total_cmp);
            let instants: Vec<Duration> = points.iter().filter_map(|p| profile.when(*p)).collect();
            prop_assert!(instants.is_sorted());
            prop_assert!(instants.iter().all(|at| *at <= profile.duration()));
        }
    }
}
