//! At which instants requests are due: a point process over a profile, the same for the same seed.

use std::{str::FromStr, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::profile::Profile;

/// How arrivals are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// Independent users: gaps are exponential, so that bursts come by themselves. What real traffic looks like.
    Poisson,
    /// Equal gaps. For checks that count exactly.
    Uniform,
}

/// The instants of a run, from its start, never going back.
#[derive(Debug)]
pub struct Arrivals<'a> {
    profile: &'a Profile,
    process: Process,
    chance: StdRng,
    /// Where the process stands, in requests rather than in seconds: the profile turns the one into the other.
    mass: Option<f64>,
}

impl<'a> Arrivals<'a> {
    #[must_use]
    pub fn new(profile: &'a Profile, process: Process, seed: u64) -> Self {
        Self { profile, process, chance: StdRng::seed_from_u64(seed), mass: None }
    }
}

impl Iterator for Arrivals<'_> {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let mass = match self.process {
            // 1 − u is never zero, so its logarithm is finite.
            Process::Poisson => self.mass.unwrap_or(0.0) - (1.0 - self.chance.random::<f64>()).ln(),
            Process::Uniform => self.mass.map_or(0.0, |mass| mass + 1.0),
        };
        self.mass = Some(mass);
        self.profile.when(mass)
    }
}

impl FromStr for Process {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "poisson" => Ok(Self::Poisson),
            "uniform" => Ok(Self::Uniform),
            _ => Err("arrivals are poisson or uniform"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::profile::Stage;

    fn arrivals(profile: &Profile, process: Process, seed: u64) -> Vec<Duration> {
        Arrivals::new(profile, process, seed).collect()
    }

    #[test]
    fn uniform_arrivals_are_exactly_as_many_as_the_rate_says() {
        let profile = Profile::steady(50.0, Duration::from_secs(10)).unwrap();
        let instants = arrivals(&profile, Process::Uniform, 1);
        let even: Vec<Duration> = (0..500).map(|n| Duration::from_millis(n * 20)).collect();
        assert_eq!(instants, even);
    }

    #[test]
    fn the_same_seed_brings_the_same_arrivals_and_another_seed_others() {
        let profile = Profile::steady(100.0, Duration::from_secs(5)).unwrap();
        assert_eq!(arrivals(&profile, Process::Poisson, 7), arrivals(&profile, Process::Poisson, 7));
        assert_ne!(arrivals(&profile, Process::Poisson, 7), arrivals(&profile, Process::Poisson, 8));
    }

    #[test]
    fn a_rate_of_zero_brings_nothing() {
        let profile = Profile::new(vec!["5s:0".parse().unwrap()]).unwrap();
        assert!(arrivals(&profile, Process::Poisson, 1).is_empty());
        assert!(arrivals(&profile, Process::Uniform, 1).is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: prop::test_runner::RngSeed::Fixed(1), ..Default::default() })]

        /// A Poisson count has the variance of its mean; six standard deviations are missed once in 500 million.
        #[test]
        fn poisson_arrivals_keep_the_mean_rate_in_every_stage(
            seed in any::<u64>(), low in 20.0..200.0_f64, high in 200.0..2_000.0_f64, ms in 1_000_u64..5_000,
        ) {
            let lasts = Duration::from_millis(ms);
            let profile = Profile::new(vec![
                Stage { lasts, from: low, to: low },
                Stage { lasts, from: low, to: high },
                Stage { lasts, from: high, to: high },
            ]).unwrap();
            let instants = arrivals(&profile, Process::Poisson, seed);
            prop_assert!(instants.is_sorted());
            for (n, stage) in (0..).zip(profile.stages()) {
                let (began, over) = (lasts * n, lasts * (n + 1));
                let count = instants.iter().filter(|at| (began..over).contains(*at)).count() as f64;
                let mean = f64::midpoint(stage.from, stage.to) * lasts.as_secs_f64();
                prop_assert!((count - mean).abs() < 6.0 * mean.sqrt(), "{count} of {mean}");
            }
        }

        /// The coefficient of variation of exponential gaps is 1, of equal gaps 0.
        #[test]
        fn poisson_gaps_vary_as_exponential_ones_do(seed in any::<u64>()) {
            let profile = Profile::steady(1_000.0, Duration::from_secs(10)).unwrap();
            let instants = arrivals(&profile, Process::Poisson, seed);
            let gaps: Vec<f64> = instants.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            let variation = variance.sqrt() / mean;
            prop_assert!((0.9..1.1).contains(&variation), "{variation}");
        }
    }
}
