//! Everything about a run that can be known before it starts: when, what kind, by whom.

use std::{num::NonZeroU32, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    arrivals::{Arrivals, Process},
    mix::{Kind, Mix},
    profile::Profile,
};

/// The description of a run. The same plan gives the same calls.
#[derive(Debug, Clone)]
pub struct Plan {
    pub profile: Profile,
    pub process: Process,
    pub mix: Mix,
    pub users: NonZeroU32,
    pub seed: u64,
}

/// One request to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// From 0.
    pub number: u64,
    /// The intended start, counted from the start of the run.
    pub at: Duration,
    pub kind: Kind,
    /// Below the plan's number of users.
    pub user: u32,
    /// Seeds what the request contains, so that its content hangs on nothing that happens during the run.
    pub luck: u64,
}

/// Sets the choices' stream of chance apart from the arrivals': another mix then moves no arrival.
const CHOICES: u64 = 0x6368_6f69_6365_7321;

impl Plan {
    /// The calls in the order of their intended starts.
    pub fn calls(&self) -> impl Iterator<Item = Call> + '_ {
        let mut chance = StdRng::seed_from_u64(self.seed ^ CHOICES);
        (0..).zip(Arrivals::new(&self.profile, self.process, self.seed)).map(move |(number, at)| Call {
            number,
            at,
            kind: self.mix.at(chance.random_range(0..self.mix.total())),
            user: chance.random_range(0..self.users.get()),
            luck: chance.random(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn plan(mix: Mix) -> Plan {
        let profile = Profile::steady(200.0, Duration::from_secs(10)).unwrap();
        Plan { profile, process: Process::Poisson, mix, users: NonZeroU32::new(20).unwrap(), seed: 3 }
    }

    #[test]
    fn the_same_plan_gives_the_same_calls() {
        assert!(plan(Mix::default()).calls().eq(plan(Mix::default()).calls()));
        let other = Plan { seed: 4, ..plan(Mix::default()) };
        assert!(!plan(Mix::default()).calls().eq(other.calls()));
    }

    #[test]
    fn another_mix_moves_no_arrival() {
        let instants = |mix| plan(mix).calls().map(|call| call.at).collect::<Vec<_>>();
        assert_eq!(instants(Mix::default()), instants("orders".parse().unwrap()));
    }

    #[test]
    fn every_user_comes_and_every_kind_has_about_its_share() {
        let calls: Vec<Call> = plan(Mix::default()).calls().collect();
        assert_eq!(calls.iter().map(|call| call.user).collect::<HashSet<_>>(), (0..20).collect());
        let writes = calls.iter().filter(|call| call.kind == Kind::PlaceOrder).count() as f64 / calls.len() as f64;
        assert!((0.17..0.23).contains(&writes), "{writes}");
    }
}
