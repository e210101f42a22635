//! # Circuit breaker: stop calling what does not answer
//!
//! **Problem.** Calls to a dependency that is down or slow cost their full timeout, hold permits and connections all
//! that time, and keep the dependency from recovering.
//!
//! **Rule.** Verdicts go into a window. When it shows trouble, calls are refused at once for a while; then a few
//! probes decide; then traffic comes back in steps.
//!
//! ```text
//!            a ratio or a run of failures            interval over (and the next call)
//!   Closed ───────────────────────────────→ Open ───────────────────────────────→ HalfOpen
//!     ↑                                      ↑ ↑   enough probes failed or slow     │
//!     │ last step over                       │ └────────────────────────────────────┤
//!     └───────────── Ramping ────────────────┘                                      │
//!                     ↑       trouble                                               │
//!                     └─────────────────────────────── all probes in ───────────────┘
//! ```
//!
//! What makes a breaker wrong, and what is done about it here:
//! - a caller that is dropped, or refused by a later guard, says nothing about the callee: a [`Permit`] that goes
//!   without a verdict is neutral, and gives a probe's place back;
//! - a probe that is never heard of again does not keep the breaker half-open: leases expire;
//! - all callers at once are not one probe each: places are reserved, not counted afterwards;
//! - a call that began before the last transition knows nothing of the present: generations;
//! - a business "no" in good time is a *success*: the callee works;
//! - a call that was too slow to be useful counts as slow, whatever it answered; nothing is cut off for it;
//! - opening cancels nothing that runs.
//!
//! `failsafe` holds the states and makes the transitions (`policy` has our half of it); half-open admission, slow
//! calls, forced states, generations and the ramp are ours, since it has none of them. Reading order: `config`,
//! `report`, this file, `probation`, `window`, `policy`.
//!
//! **Not for** calls whose refusal costs more than their failure (a refund that has to go out: queue it), or for
//! dependencies called a few times an hour, where a window never fills.
//!
//! **When you copy this**, take the folder, `ramp`, `millis` and `invalid`, and change the defaults in `config`. One
//! breaker a dependency and channel: breakers do not nest.
//!
//! **Proved by** the drills `breaker-open-with-active-calls`, `payment-slow` and `recovery-surge`.

mod config;
mod course;
mod policy;
mod probation;
mod report;
mod window;

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio::time::Instant;

use crate::invalid::Invalid;

// The concurrency tests compile this folder a second time with a model checker's primitives under this name.
use super::sync::{AtomicU64, Mutex, MutexGuard, Ordering, PoisonError};

pub use self::{
    config::{BreakerConfig, Forced, Window},
    report::{BreakerSnapshot, Reason, Rejected, State, Transition},
};
use self::{
    course::{Course, Standing},
    policy::Desk,
    window::Outcome,
};

/// One dependency's breaker. Share it by reference or in an `Arc`.
pub struct Breaker {
    desk: Arc<Desk>,
    limits: Arc<ArcSwap<BreakerConfig>>,
    /// What a refusal says, readable without the lock.
    standing: Arc<ArcSwap<Standing>>,
    course: Mutex<Course>,
    listener: Option<Listener>,
    rejected: AtomicU64,
    stale: AtomicU64,
}

/// The right to one call, and the duty to say how it went. Dropped without a verdict it was neutral.
#[derive(Debug)]
#[must_use = "a permit that is dropped counts as a call that was never made"]
pub struct Permit<'a> {
    breaker: &'a Breaker,
    generation: u64,
    /// The probe's lease or the ramp's step; 0 where neither is.
    serial: u64,
    started: Instant,
    settled: bool,
}

type Listener = Box<dyn Fn(&Transition) + Send + Sync>;

impl Breaker {
    /// A closed breaker; `seed` decides the jitter of its open intervals.
    pub fn new(config: BreakerConfig, seed: u64) -> Result<Self, Invalid> {
        config.validate()?;
        let forced = config.forced;
        let limits = Arc::new(ArcSwap::from_pointee(config));
        let desk = Arc::new(Desk::new(Arc::clone(&limits)));
        let now = Instant::now();
        let standing = Arc::new(ArcSwap::from_pointee(Standing::started(now)));
        let course = Course::new(Arc::clone(&desk), Arc::clone(&limits), Arc::clone(&standing), seed, now);
        let breaker = Self {
            desk,
            limits,
            standing,
            course: Mutex::new(course),
            listener: None,
            rejected: AtomicU64::new(0),
            stale: AtomicU64::new(0),
        };
        breaker.force(forced);
        Ok(breaker)
    }

    /// Tells `listener` of every transition, on the thread that caused it and after the breaker's lock is free. It must
    /// not block or panic.
    #[must_use]
    pub fn with_listener(mut self, listener: impl Fn(&Transition) + Send + Sync + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// Asks for one call.
    pub fn acquire(&self) -> Result<Permit<'_>, Rejected> {
        self.acquire_at(Instant::now())
    }

    /// [`Self::acquire`] for a caller that has just read the clock, which costs as much as all the rest of it.
    pub fn acquire_at(&self, now: Instant) -> Result<Permit<'_>, Rejected> {
        match self.desk.gate() {
            // Without the lock: the two states that nearly every call meets.
            (generation, State::Closed | State::ForcedClosed) => Ok(self.permit(generation, 0, now)),
            (_, State::Open | State::ForcedOpen) => match self.standing.load().refusal(now) {
                Some(rejected) => Err(self.reject(rejected)),
                None => self.acquire_in_order(now),
            },
            (_, State::HalfOpen | State::Ramping) => self.acquire_in_order(now),
        }
    }

    /// Whether `acquire` would refuse now, taking nothing: for a caller that queues elsewhere first. The ramp never
    /// refuses here, since only an acquisition moves it on; a guard that peeks and never acquires would stand still.
    pub fn peek(&self) -> Result<(), Rejected> {
        match self.desk.gate().1 {
            State::Closed | State::ForcedClosed | State::Ramping => Ok(()),
            State::Open | State::ForcedOpen => match self.standing.load().refusal(Instant::now()) {
                Some(rejected) => Err(self.reject(rejected)),
                None => Ok(()),
            },
            State::HalfOpen => self.lock().peek(Instant::now()).map_err(|rejected| self.reject(rejected)),
        }
    }

    /// The state at this moment.
    #[must_use]
    pub fn state(&self) -> State {
        self.desk.gate().1
    }

    /// Holds the breaker open until `release`.
    pub fn force_open(&self) {
        let transition = self.lock().force_open(Instant::now());
        self.announce(transition);
    }

    /// Holds the breaker closed until `release`. Verdicts are counted all the while.
    pub fn force_closed(&self) {
        let transition = self.lock().force_closed(Instant::now());
        self.announce(transition);
    }

    /// Ends a forced state. Held open, it goes on at half-open, since nothing is known of the callee; held closed, it
    /// is closed, and what was counted meanwhile may open it with the next verdict.
    pub fn release(&self) {
        let transition = self.lock().release(Instant::now());
        self.announce(transition);
    }

    /// Takes other thresholds. State, backoff and generation stay, and of the window what fits its new shape. An open
    /// interval that runs keeps its end; verdicts that cross a lowered threshold open with the next one.
    /// A forced state begins and ends where `forced` changes; one that was set by call is left alone otherwise.
    pub fn reconfigure(&self, config: BreakerConfig) -> Result<(), Invalid> {
        config.validate()?;
        let (before, forced) = (self.limits.load().forced, config.forced);
        self.lock().reconfigure(config, Instant::now());
        match forced {
            None if before.is_some() => self.release(),
            _ if before != forced => self.force(forced),
            _ => {}
        }
        Ok(())
    }

    /// The figures now. Moves the ramp on where no call does.
    #[must_use]
    pub fn snapshot(&self) -> BreakerSnapshot {
        let now = Instant::now();
        let (transition, mut snapshot) = {
            let mut course = self.lock();
            (course.tick(now), course.snapshot(now))
        };
        self.announce(transition);
        snapshot.rejected = self.rejected.load(Ordering::Relaxed);
        snapshot.stale = self.stale.load(Ordering::Relaxed);
        snapshot
    }

    fn force(&self, forced: Option<Forced>) {
        match forced {
            Some(Forced::Open) => self.force_open(),
            Some(Forced::Closed) => self.force_closed(),
            None => {}
        }
    }

    fn acquire_in_order(&self, now: Instant) -> Result<Permit<'_>, Rejected> {
        let (transition, admitted) = {
            let mut course = self.lock();
            let transition = course.wake(now);
            // Read under the lock, so that the permit's generation is that of its lease.
            let admitted = course.admit(now).map(|serial| (self.desk.gate().0, serial));
            (transition, admitted)
        };
        self.announce(transition);
        match admitted {
            Ok((generation, serial)) => Ok(self.permit(generation, serial, now)),
            Err(rejected) => Err(self.reject(rejected)),
        }
    }

    const fn permit(&self, generation: u64, serial: u64, started: Instant) -> Permit<'_> {
        Permit { breaker: self, generation, serial, started, settled: false }
    }

    fn settle(&self, permit: &Permit<'_>, failed: bool) {
        let now = Instant::now();
        let slow = now.saturating_duration_since(permit.started) >= self.limits.load().slow_threshold;
        let transition = {
            let mut course = self.lock();
            // Compared under the lock: nothing can change between this and the counting.
            if self.desk.gate().0 == permit.generation {
                course.record(permit.serial, Outcome { failed, slow }, now)
            } else {
                self.stale.fetch_add(1, Ordering::Relaxed);
                None
            }
        };
        self.announce(transition);
    }

    fn give_back(&self, permit: &Permit<'_>) {
        // Only a probe holds anything.
        if permit.serial != 0 {
            let mut course = self.lock();
            if self.desk.gate() == (permit.generation, State::HalfOpen) {
                course.give_back(permit.serial);
            }
        }
    }

    fn reject(&self, rejected: Rejected) -> Rejected {
        self.rejected.fetch_add(1, Ordering::Relaxed);
        rejected
    }

    fn announce(&self, transition: Option<Transition>) {
        if let (Some(transition), Some(listener)) = (transition, &self.listener) {
            listener(&transition);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Course> {
        // Whoever panicked did so in a listener or in arithmetic, never between two halves of a change.
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    /// The callee did its work, be its answer yes or no. Slow, if it took longer than the threshold.
    pub fn success(mut self) {
        self.settled = true;
        self.breaker.settle(&self, false);
    }

    /// The callee failed: an error of its own, a broken connection, a timeout.
    pub fn failure(mut self) {
        self.settled = true;
        self.breaker.settle(&self, true);
    }

    /// Nothing was learnt about the callee: the caller left, or our own guard refused. The same as dropping it.
    pub fn ignore(self) {}

    /// When the call was admitted.
    #[must_use]
    pub const fn started(&self) -> Instant {
        self.started
    }

    /// Since the call was admitted.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.breaker.give_back(self);
        }
    }
}

impl std::fmt::Debug for Breaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Breaker").field("state", &self.state()).finish_non_exhaustive()
    }
}
