//! What happens under the breaker's lock: the states as readable steps. Every call of failsafe's machine is here.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use failsafe::StateMachine;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::time::Instant;

use super::{
    config::BreakerConfig,
    policy::{Desk, Order, Policy, Publisher, verdict},
    probation::{Decision, Probation},
    report::{BreakerSnapshot, Reason, Rejected, State, Transition},
    window::Outcome,
};
use crate::ramp::{Move, Ramp};

/// The state with its reason. Refusals are made of it, without the lock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    state: State,
    reason: Reason,
    since: Instant,
    /// The end of the open interval.
    until: Option<Instant>,
    /// What a refusal without an end says.
    hint: Duration,
}

pub(super) struct Course {
    machine: StateMachine<Policy, Publisher>,
    desk: Arc<Desk>,
    limits: Arc<ArcSwap<BreakerConfig>>,
    standing: Arc<ArcSwap<Standing>>,
    probation: Probation,
    ramp: Option<Ramp>,
    dice: StdRng,
    started: Instant,
    /// Openings since the breaker was last fully closed: the exponent of the backoff.
    openings: u32,
    /// When the present outage began.
    outage: Option<Instant>,
    number: u64,
    opened: u64,
    half_open_failures: u64,
    last_recovery: Option<Duration>,
}

impl Standing {
    pub(super) const fn started(now: Instant) -> Self {
        Self { state: State::Closed, reason: Reason::Started, since: now, until: None, hint: Duration::ZERO }
    }

    /// The refusal of an open breaker; `None` when its interval is over or it is not open (any more).
    pub(super) fn refusal(&self, now: Instant) -> Option<Rejected> {
        let retry_after = match (self.state, self.until) {
            (State::Open, Some(until)) if now < until => until - now,
            (State::ForcedOpen, _) => self.hint,
            _ => return None,
        };
        Some(Rejected { retry_after, state: self.state, reason: self.reason })
    }
}

impl Course {
    pub(super) fn new(
        desk: Arc<Desk>,
        limits: Arc<ArcSwap<BreakerConfig>>,
        standing: Arc<ArcSwap<Standing>>,
        seed: u64,
        now: Instant,
    ) -> Self {
        Self {
            machine: StateMachine::new(Policy::new(Arc::clone(&desk)), Publisher::new(Arc::clone(&desk))),
            desk,
            limits,
            standing,
            probation: Probation::default(),
            ramp: None,
            dice: StdRng::seed_from_u64(seed),
            started: now,
            openings: 0,
            outage: None,
            number: 0,
            opened: 0,
            half_open_failures: 0,
            last_recovery: None,
        }
    }

    /// Before a call: Open → HalfOpen, once the interval is over.
    pub(super) fn wake(&mut self, now: Instant) -> Option<Transition> {
        let standing = **self.standing.load();
        if self.state() != State::Open || standing.until.is_some_and(|until| now < until) {
            return self.tick(now);
        }
        self.half_open(Reason::OpenIntervalOver { open_ms: millis(now - standing.since) }, now)
    }

    /// What time alone changes: Ramping → Ramping | Closed.
    pub(super) fn tick(&mut self, now: Instant) -> Option<Transition> {
        let moved = self.ramp.as_mut()?.tick(now)?;
        Some(self.follow_ramp(moved, now))
    }

    /// The steps of admission. The number that comes back goes with the verdict.
    pub(super) fn admit(&mut self, now: Instant) -> Result<u64, Rejected> {
        match self.state() {
            State::Closed | State::ForcedClosed => Ok(0),
            State::Open | State::ForcedOpen => Err(self.refusal(now)),
            State::HalfOpen => {
                let reserved = self.probation.reserve(&self.limits.load(), now);
                reserved.map_err(|wait| self.rejected(wait))
            }
            State::Ramping => match self.ramp.as_mut().map(|ramp| ramp.admit(now)) {
                Some(Err(held)) => Err(self.rejected(held.retry_after)),
                Some(Ok(serial)) => Ok(serial),
                None => Ok(0),
            },
        }
    }

    /// Whether a probe would be refused, taking nothing.
    pub(super) fn peek(&self, now: Instant) -> Result<(), Rejected> {
        match self.state() {
            State::HalfOpen => self.probation.check(&self.limits.load(), now).map_err(|wait| self.rejected(wait)),
            State::Open | State::ForcedOpen => Err(self.refusal(now)),
            _ => Ok(()),
        }
    }

    /// The steps of a verdict, of a call that began in this generation.
    pub(super) fn record(&mut self, serial: u64, outcome: Outcome, now: Instant) -> Option<Transition> {
        match self.state() {
            // Closed → Closed | Open
            State::Closed => self.count(Order::Judge, outcome, now).then(|| self.open_by_window(State::Closed, now)),
            // Ramping → Ramping | Open: the window first, since it opens for what the step's few calls cannot show.
            State::Ramping => {
                if self.count(Order::Judge, outcome, now) {
                    return Some(self.open_by_window(State::Ramping, now));
                }
                let moved = self.ramp.as_mut()?.record(serial, outcome.failed || outcome.slow, now)?;
                Some(self.follow_ramp(moved, now))
            }
            State::ForcedClosed => {
                self.count(Order::CountOnly, outcome, now);
                None
            }
            // HalfOpen → HalfOpen | Ramping | Closed | Open
            State::HalfOpen => {
                let decision = self.probation.settle(serial, outcome, &self.limits.load(), now);
                match decision {
                    Decision::Wait => None,
                    Decision::Recovered(reason) => Some(self.recover(reason, now)),
                    Decision::StillDown(reason) => {
                        self.half_open_failures += 1;
                        self.drive_open(State::Open, now);
                        Some(self.open(State::HalfOpen, reason, now))
                    }
                }
            }
            // Entering these raised the generation, so nothing that began in them exists.
            State::Open | State::ForcedOpen => None,
        }
    }

    pub(super) fn give_back(&mut self, serial: u64) {
        self.probation.give_back(serial);
    }

    /// Any → ForcedOpen
    pub(super) fn force_open(&mut self, now: Instant) -> Option<Transition> {
        let from = self.state();
        match from {
            State::ForcedOpen => return None,
            State::Open => self.desk.enter(State::ForcedOpen),
            _ => self.drive_open(State::ForcedOpen, now),
        }
        self.ramp = None;
        Some(self.stand(from, State::ForcedOpen, Reason::ForcedOpen, None, now))
    }

    /// Any → ForcedClosed
    pub(super) fn force_closed(&mut self, now: Instant) -> Option<Transition> {
        let from = self.state();
        match from {
            State::ForcedClosed => return None,
            // Calls that run go on counting.
            State::Closed | State::Ramping => self.desk.rename(State::ForcedClosed),
            State::Open | State::HalfOpen | State::ForcedOpen => {
                self.desk.name_next(State::ForcedClosed);
                self.machine.reset();
            }
        }
        self.ramp = None;
        self.openings = 0;
        self.outage = None;
        Some(self.stand(from, State::ForcedClosed, Reason::ForcedClosed, None, now))
    }

    /// ForcedOpen → HalfOpen, ForcedClosed → Closed
    pub(super) fn release(&mut self, now: Instant) -> Option<Transition> {
        match self.state() {
            State::ForcedOpen => self.half_open(Reason::Released, now),
            State::ForcedClosed => {
                self.desk.rename(State::Closed);
                Some(self.stand(State::ForcedClosed, State::Closed, Reason::Released, None, now))
            }
            _ => None,
        }
    }

    pub(super) fn reconfigure(&mut self, config: BreakerConfig, now: Instant) {
        if let Some(ramp) = &mut self.ramp {
            ramp.reconfigure(config.ramp.clone());
        }
        self.limits.store(Arc::new(config));
        self.look(now);
    }

    pub(super) fn snapshot(&self, now: Instant) -> BreakerSnapshot {
        let state = self.state();
        self.look(now);
        let (figures, standing) = (self.desk.figures(), **self.standing.load());
        BreakerSnapshot {
            state,
            reason: standing.reason,
            since_ms: millis(now.saturating_duration_since(standing.since)),
            transitions: self.number,
            calls: figures.calls,
            failures: figures.failures,
            slow: figures.slow,
            failure_ratio: figures.failure_ratio(),
            slow_ratio: figures.slow_ratio(),
            consecutive_failures: figures.consecutive,
            open_remaining_ms: standing.until.map(|until| millis(until.saturating_duration_since(now))),
            probes_leased: if state == State::HalfOpen { self.probation.leased(now) } else { 0 },
            probes_settled: if state == State::HalfOpen { self.probation.settled() } else { 0 },
            ramp: self.ramp.as_ref().map(|ramp| ramp.snapshot(now)),
            opened: self.opened,
            half_open_failures: self.half_open_failures,
            rejected: 0,
            stale: 0,
            last_recovery_ms: self.last_recovery.map(millis),
        }
    }

    /// Brings the window and its figures up to the time and the thresholds, and judges nothing.
    fn look(&self, now: Instant) {
        // A half-open machine would take the call for a failed probe; an open one's figures are those of its opening.
        if matches!(self.state(), State::Closed | State::Ramping | State::ForcedClosed) {
            self.desk.lay(Order::CountOnly, None, self.nanos(now));
            self.machine.on_error();
        }
    }

    /// Lets the machine count an outcome; true if it opened.
    fn count(&self, order: Order, outcome: Outcome, now: Instant) -> bool {
        let now = self.nanos(now);
        self.desk.name_next(State::Open);
        self.desk.lay(order, Some(outcome), now);
        if outcome.failed || outcome.slow {
            self.machine.on_error();
        } else {
            self.machine.on_success();
            // failsafe opens on errors alone, but a success can cross a threshold too: it is the call that completes
            // the minimum, or the first one after a threshold was lowered.
            if order == Order::Judge && self.desk.crossed() {
                self.desk.lay(order, None, now);
                self.machine.on_error();
            }
        }
        self.state() == State::Open
    }

    fn open_by_window(&mut self, from: State, now: Instant) -> Transition {
        let reason = verdict(self.desk.figures(), &self.limits.load()).unwrap_or(Reason::Started);
        self.open(from, reason, now)
    }

    /// The machine is open; times the interval.
    fn open(&mut self, from: State, reason: Reason, now: Instant) -> Transition {
        self.ramp = None;
        self.opened += 1;
        self.openings = self.openings.saturating_add(1);
        self.outage.get_or_insert(now);
        let interval = self.limits.load().open_interval(self.openings, self.dice.random());
        self.stand(from, State::Open, reason, Some(now + interval), now)
    }

    fn half_open(&mut self, reason: Reason, now: Instant) -> Option<Transition> {
        let from = self.state();
        self.probation.begin();
        // The machine's delay was zero, and its clock has to have moved past that by one tick.
        let moved = (0..10_000).any(|_| {
            std::hint::spin_loop();
            self.machine.is_call_permitted()
        });
        // A clock that stands still: the next call asks again.
        moved.then(|| self.stand(from, State::HalfOpen, reason, None, now))
    }

    /// HalfOpen → Ramping, or → Closed where there is no ramp.
    fn recover(&mut self, reason: Reason, now: Instant) -> Transition {
        self.ramp = Ramp::new(self.limits.load().ramp.clone(), now);
        let to = if self.ramp.is_some() { State::Ramping } else { State::Closed };
        self.desk.name_next(to);
        self.desk.lay(Order::CountOnly, None, self.nanos(now));
        self.machine.on_success();
        if to == State::Closed {
            self.healed(now);
        }
        self.stand(State::HalfOpen, to, reason, None, now)
    }

    fn follow_ramp(&mut self, moved: Move, now: Instant) -> Transition {
        match moved {
            Move::Rose { percent } => {
                self.stand(State::Ramping, State::Ramping, Reason::RampRose { percent }, None, now)
            }
            Move::FellBack { percent, trouble } => {
                let reason = Reason::RampFellBack { percent, trouble };
                self.stand(State::Ramping, State::Ramping, reason, None, now)
            }
            Move::GaveUp { trouble } => {
                self.drive_open(State::Open, now);
                self.open(State::Ramping, Reason::RampGaveUp { trouble }, now)
            }
            Move::Finished => {
                self.ramp = None;
                // The window goes on: what the ramp admitted was real traffic.
                self.desk.rename(State::Closed);
                self.healed(now);
                self.stand(State::Ramping, State::Closed, Reason::RampFinished, None, now)
            }
        }
    }

    /// Only a full recovery ends the backoff. A breaker that flaps between half-open and open goes on waiting longer.
    fn healed(&mut self, now: Instant) {
        self.openings = 0;
        self.last_recovery = self.outage.take().map(|began| now - began);
    }

    /// Closed or half-open → open, whatever the window says.
    fn drive_open(&self, into: State, now: Instant) {
        self.desk.name_next(into);
        self.desk.lay(Order::Open, None, self.nanos(now));
        self.machine.on_error();
    }

    /// Publishes the reason of the state that was entered.
    fn stand(&mut self, from: State, to: State, reason: Reason, until: Option<Instant>, now: Instant) -> Transition {
        let hint = self.limits.load().open;
        self.standing.store(Arc::new(Standing { state: to, reason, since: now, until, hint }));
        self.number += 1;
        let figures = self.desk.figures();
        Transition {
            number: self.number,
            from,
            to,
            reason,
            failure_ratio: figures.failure_ratio(),
            slow_ratio: figures.slow_ratio(),
            calls: figures.calls,
            at: now,
        }
    }

    fn refusal(&self, now: Instant) -> Rejected {
        self.standing.load().refusal(now).unwrap_or_else(|| self.rejected(Duration::from_millis(1)))
    }

    fn rejected(&self, retry_after: Duration) -> Rejected {
        Rejected { retry_after, state: self.state(), reason: self.standing.load().reason }
    }

    fn state(&self) -> State {
        self.desk.gate().1
    }

    fn nanos(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.started).as_nanos()).unwrap_or(u64::MAX)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
