//! The behaviour in force and the dice that go with it. Behind one lock, so that a throw always belongs to the
//! behaviour it is judged by; nothing waits while it is held.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use contracts::provider::{Behaviour, SetBehaviour};
use rand::{SeedableRng, rngs::StdRng};

use crate::{
    fate::{self, Fate, Throw},
    method::Method,
};

pub struct BehaviourInForce {
    at_start: Behaviour,
    seed: u64,
    now: Mutex<(Behaviour, StdRng)>,
}

impl BehaviourInForce {
    pub fn new(at_start: Behaviour, seed: u64) -> Self {
        let now = Mutex::new((at_start.clone(), StdRng::seed_from_u64(seed)));
        Self { at_start, seed, now }
    }

    pub fn current(&self) -> Behaviour {
        self.lock().0.clone()
    }

    pub fn fate_of(&self, method: Method) -> Fate {
        let (behaviour, dice) = &mut *self.lock();
        fate::decide(behaviour, method, &Throw::of(dice))
    }

    /// How long a charge takes that is begun now.
    pub fn delay(&self, method: Method, jitter: f64) -> Duration {
        fate::delay(&self.lock().0, method, jitter)
    }

    /// What `change` leaves out is as at the start. The dice roll on.
    pub fn with(&self, change: SetBehaviour) -> Behaviour {
        change.over(&self.at_start)
    }

    pub fn set(&self, behaviour: Behaviour) {
        self.lock().0 = behaviour;
    }

    pub fn reset(&self) -> Behaviour {
        *self.lock() = (self.at_start.clone(), StdRng::seed_from_u64(self.seed));
        self.at_start.clone()
    }

    fn lock(&self) -> MutexGuard<'_, (Behaviour, StdRng)> {
        // Every write is one assignment, so a poisoned lock still guards a whole value.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_reset_the_same_luck_comes_again() {
        let in_force = BehaviourInForce::new(Behaviour::default(), 42);
        let wild = Behaviour { error_ratio: 0.5, hang_ratio: 0.5, ..Behaviour::default() };
        let run = || {
            in_force.set(wild.clone());
            (0..50).map(|_| in_force.fate_of(Method::Approve)).collect::<Vec<_>>()
        };
        let first = run();
        assert_ne!(first, run(), "the dice roll on while nobody resets them");
        assert_eq!(in_force.reset(), Behaviour::default());
        assert_eq!(first, run());
    }
}
