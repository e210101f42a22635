//! Which steps there are. Rates are those of one instance, so that the same steps say something about any number of them.

use std::{str::FromStr, time::Duration};

use load::{Profile, profile::BadProfile};

/// The way up.
#[derive(Debug, Clone, PartialEq)]
pub struct Ladder {
    pub rates: Rates,
    /// Of each step, its warm-up included.
    pub lasts: Duration,
}

/// Orders a second for each instance, going up.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates(Vec<f64>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLadder {
    #[error("steps are rates for one instance that go up, each from 1 to {}, for example 5,10,20,40", Ladder::MOST)]
    Rates,
    #[error("there are at most {} steps", Ladder::MOST_STEPS)]
    TooMany,
    #[error("a step lasts whole seconds, from {} to 60", Ladder::WARM_UP.as_secs() + 2)]
    Lasts,
}

impl Ladder {
    /// The first part of a step, which counts for nothing: what the step before left is worked off, and queues fill.
    pub const WARM_UP: Duration = Duration::from_secs(2);
    const MOST: f64 = 1_000.0;
    const MOST_STEPS: usize = 40;

    /// The load of a step on `instances`.
    pub fn profile(&self, rate: f64, instances: u16) -> Result<Profile, BadProfile> {
        Profile::steady(rate * f64::from(instances), self.lasts)
    }
}

impl Rates {
    pub fn iter(&self) -> impl Iterator<Item = f64> + '_ {
        self.0.iter().copied()
    }
}

impl Default for Rates {
    /// For the default system, of which one instance carries about 20 a second: close to each other around there, and
    /// no higher than it takes to see twice that it sells less than half; above that the generator is what gives out.
    fn default() -> Self {
        Self(vec![6.0, 10.0, 13.0, 16.0, 19.0, 22.0, 25.0, 30.0, 40.0, 46.0, 52.0])
    }
}

impl FromStr for Rates {
    type Err = BadLadder;

    fn from_str(text: &str) -> Result<Self, BadLadder> {
        let rates = text.split(',').map(|rate| rate.trim().parse().map_err(|_| BadLadder::Rates));
        let rates: Vec<f64> = rates.collect::<Result<_, _>>()?;
        // Not a number is in no range and above nothing.
        let sound = rates.iter().all(|rate| (1.0..=Ladder::MOST).contains(rate));
        if !sound || !rates.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(BadLadder::Rates);
        }
        if rates.len() > Ladder::MOST_STEPS { Err(BadLadder::TooMany) } else { Ok(Self(rates)) }
    }
}

/// How long a step lasts, from text.
pub fn lasts(text: &str) -> Result<Duration, BadLadder> {
    let lasts = load::profile::duration(text).map_err(|_| BadLadder::Lasts)?;
    let seconds = Ladder::WARM_UP.as_secs() + 2..=60;
    if lasts.subsec_nanos() == 0 && seconds.contains(&lasts.as_secs()) { Ok(lasts) } else { Err(BadLadder::Lasts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_go_up_and_are_told_how_to_be_written_where_they_do_not() {
        assert_eq!("5, 10,20.5".parse::<Rates>().unwrap().iter().collect::<Vec<_>>(), [5.0, 10.0, 20.5]);
        for bad in ["", "5,", "5,5", "10,5", "0,5", "5,NaN", "5,inf", "5,1001", "five"] {
            assert_eq!(bad.parse::<Rates>(), Err(BadLadder::Rates), "{bad}");
        }
        let many = (1..=41).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        assert_eq!(many.parse::<Rates>(), Err(BadLadder::TooMany));
    }

    #[test]
    fn the_default_steps_are_sound() {
        let text = Rates::default().iter().map(|rate| rate.to_string()).collect::<Vec<_>>().join(",");
        assert_eq!(text.parse(), Ok(Rates::default()));
    }

    #[test]
    fn a_step_lasts_whole_seconds_and_longer_than_it_warms_up() {
        assert_eq!(lasts("8s"), Ok(Duration::from_secs(8)));
        for bad in ["3s", "61s", "8500ms", "8", ""] {
            assert_eq!(lasts(bad), Err(BadLadder::Lasts), "{bad}");
        }
    }

    #[test]
    fn a_step_is_for_each_instance() {
        let ladder = Ladder { rates: Rates::default(), lasts: Duration::from_secs(8) };
        assert_eq!(ladder.profile(10.0, 3).unwrap().expected(), 240.0);
    }
}
