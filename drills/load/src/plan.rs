//! Everything about a run that can be known before it starts: when, what kind, by whom.

use std::{num::NonZeroU32, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    arrivals::{Arrivals, Process},
    crowd::Crowd,
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
    /// Whether this is the user who wants most, who is number 0.
    pub hot: bool,
    /// What copies of one request have in common: the number of the first of them.
    pub original: u64,
    /// Seeds what the request contains, so that its content hangs on nothing that happens during the run.
    pub luck: u64,
}

static INDEPENDENT: Crowd = Crowd { hot_user: 0.0, copies: 1, retry: None };

/// Sets the choices' stream of chance apart from the arrivals': another mix then moves no arrival.
const CHOICES: u64 = 0x6368_6f69_6365_7321;
/// And who wants most apart from both, so that without such a person nothing else is different.
const HEAT: u64 = 0x6865_6174_6865_6174;

impl Plan {
    /// The calls of independent people, in the order of their intended starts.
    pub fn calls(&self) -> impl Iterator<Item = Call> + '_ {
        self.calls_of(&INDEPENDENT)
    }

    /// The calls of a crowd, in the order of their intended starts.
    pub fn calls_of<'a>(&'a self, crowd: &'a Crowd) -> impl Iterator<Item = Call> + 'a {
        let mut chance = StdRng::seed_from_u64(self.seed ^ CHOICES);
        let mut heat = StdRng::seed_from_u64(self.seed ^ HEAT);
        let mut number = 0;
        Arrivals::new(&self.profile, self.process, self.seed).flat_map(move |at| {
            let kind = self.mix.at(chance.random_range(0..self.mix.total()));
            let anybody = chance.random_range(0..self.users.get());
            let is_hot = heat.random::<f64>() < crowd.hot_user;
            let user = if is_hot { 0 } else { anybody };
            // Also by chance: it is the same person.
            let hot = user == 0 && crowd.hot_user > 0.0;
            let original = Call { number, at, kind, user, hot, original: number, luck: chance.random() };
            let copies = if kind == Kind::PlaceOrder { crowd.copies.max(1) } else { 1 };
            number += u64::from(copies);
            (0..u64::from(copies)).map(move |copy| Call { number: original.number + copy, ..original })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn plan(mix: Mix) -> Plan {
        let profile = Profile::steady(200.0, Duration::from_secs(10)).unwrap();
        let users = NonZeroU32::new(20).unwrap();
        Plan { profile, process: Process::Poisson, mix, users, seed: 3 }
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

    #[test]
    fn one_user_can_want_most_and_moves_nothing_else() {
        let calm = plan(Mix::default());
        let calls: Vec<Call> = calm.calls_of(&Crowd { hot_user: 0.6, ..Crowd::default() }).collect();
        let share = calls.iter().filter(|call| call.hot).count() as f64 / calls.len() as f64;
        assert!((0.55..0.70).contains(&share), "{share}");
        assert!(calls.iter().all(|call| call.hot == (call.user == 0)) && !calm.calls().any(|call| call.hot));
        let rest = |call: &Call| (call.number, call.at, call.kind, call.luck);
        assert!(calls.iter().map(rest).eq(calm.calls().map(|call| rest(&call))));
    }

    #[test]
    fn copies_of_an_order_come_at_once_and_are_numbered_apart() {
        let plan = plan("place_order=1,list_products=1".parse().unwrap());
        let calls: Vec<Call> = plan.calls_of(&Crowd { copies: 3, ..Crowd::default() }).collect();
        assert!(calls.iter().zip(0..).all(|(call, n)| call.number == n));
        for group in calls.chunk_by(|a, b| a.original == b.original) {
            let expected = if group[0].kind == Kind::PlaceOrder { 3 } else { 1 };
            assert_eq!((group.len(), group[0].original), (expected, group[0].number));
            assert!(
                group.iter().all(|call| (call.at, call.luck, call.user) == (group[0].at, group[0].luck, group[0].user))
            );
        }
    }
}
