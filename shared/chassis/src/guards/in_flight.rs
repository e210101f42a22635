//! # In-flight cap: how much may be going on at once
//!
//! **Problem.** When answers slow down, requests pile up at any rate, and a process that takes all of them on finishes
//! none of them in time.
//!
//! **Rule.** A count of what is in flight, with two marks on it. Sheddable requests are refused above the lower one, so
//! that critical ones still find room up to the upper. Nobody waits: whoever is refused may go to another replica.
//!
//! **Not for** a single downstream (bulkhead).
//!
//! **When you copy this**: the marks come with each call, so that a change of rules holds for the next request.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use contracts::{Problem, Service};
use rules::{Criticality, Rules};

use super::refusal::Refusal;

/// What is in flight. Clones share their count.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<AtomicU32>);

/// A place, given back when it is dropped, whatever became of the request.
#[derive(Debug)]
pub(super) struct Permit(Arc<AtomicU32>);

impl Permit {
    /// The place is free for somebody else, for now. Whoever steps aside keeps the permit until it has stepped back.
    pub fn step_aside(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }

    /// Takes the place again, over the mark if need be: what was let in is finished, and not refused half-way.
    pub fn step_back(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Up to where which requests are let in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caps {
    pub critical: u32,
    pub sheddable: u32,
    pub sheddable_share: f64,
}

/// The service's own cap.
pub(super) fn caps(service: Service, rules: &Rules) -> Caps {
    let rule = rules.service.get(service.as_str()).unwrap_or(&rules.service.order);
    Caps::new(rule.max_in_flight, rule.sheddable_share)
}

impl Caps {
    pub fn new(most: u32, sheddable_share: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a u32, and `as` saturates"
        )]
        let sheddable = (f64::from(most) * sheddable_share) as u32;
        Self { critical: most, sheddable: sheddable.min(most), sheddable_share }
    }

    pub const fn of(&self, criticality: Criticality) -> u32 {
        match criticality {
            Criticality::Critical => self.critical,
            Criticality::Sheddable => self.sheddable,
        }
    }
}

impl InFlight {
    /// A place among `most`, or a refusal at once.
    pub fn enter(&self, most: u32) -> Result<Permit, Refusal> {
        // Compared and counted in one step: two that see the last place do not both get it.
        let entered =
            self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| (taken < most).then_some(taken + 1));
        match entered {
            Ok(_) => Ok(Permit(self.0.clone())),
            Err(_) => Err(Refusal::overloaded(Duration::from_millis(Problem::DEFAULT_RETRY_AFTER_MS))),
        }
    }

    pub fn taken(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sheddable_requests_stop_at_their_share_and_critical_ones_go_on_to_the_cap() {
        let (in_flight, caps) = (InFlight::default(), Caps::new(10, 0.8));
        let enter = |criticality| in_flight.enter(caps.of(criticality));
        let mut held: Vec<_> = (0..8).map(|_| enter(Criticality::Sheddable).unwrap()).collect();
        assert!(enter(Criticality::Sheddable).is_err());
        held.extend((0..2).map(|_| enter(Criticality::Critical).unwrap()));
        assert!(enter(Criticality::Critical).is_err());
        held.pop();
        assert!(enter(Criticality::Critical).is_ok());
        drop(held);
        assert_eq!(in_flight.taken(), 0);
    }

    #[test]
    fn many_threads_together_never_pass_the_cap() {
        let (in_flight, highest) = (InFlight::default(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        let permit = in_flight.enter(3);
                        highest.fetch_max(in_flight.taken(), Ordering::AcqRel);
                        drop(permit);
                    }
                });
            }
        });
        assert!((1..=3).contains(&highest.into_inner()));
        assert_eq!(in_flight.taken(), 0);
    }
}
