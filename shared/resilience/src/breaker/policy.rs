//! Our half of failsafe: the policy that judges, and the instrument that publishes the state.
//!
//! failsafe calls the policy under its own lock and the instrument outside of it, without arguments and without a way
//! to look inside. So both share a *desk* with the breaker: what is to be judged is laid on it before the call, and
//! what came of it is read from it after. Every call of the machine is made under the breaker's lock, so the desk's
//! cells need no ordering among themselves; only the gate is read without the lock.
//!
//! The policy returns a delay of zero, always: failsafe's clock is std's, which a paused test clock does not reach and
//! whose overflow panics. The breaker times the open interval.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64 as Cell64, Ordering::Relaxed},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use failsafe::{FailurePolicy, Instrument};

use super::super::sync::{AtomicU64, Ordering};
use super::{
    config::BreakerConfig,
    report::{Reason, State},
    window::{Figures, Outcome, Window},
};

pub(super) struct Desk {
    /// `generation << 3 | state`, the one word that a closed breaker's callers read. The instrument writes it; the
    /// breaker only changes states that failsafe does not know, within a generation or with a new one.
    gate: AtomicU64,
    limits: Arc<ArcSwap<BreakerConfig>>,
    order: AtomicU8,
    /// 0 = no outcome, else `PRESENT` with its bits.
    outcome: AtomicU8,
    now: Cell64,
    opens_into: AtomicU8,
    closes_into: AtomicU8,
    crossed: AtomicBool,
    calls: AtomicU32,
    failures: AtomicU32,
    slow: AtomicU32,
    consecutive: AtomicU32,
}

/// What the policy is to do with the next call of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Order {
    /// Open if a threshold is crossed.
    Judge = 0,
    /// Count, but open nothing.
    CountOnly = 1,
    /// Open: something else has decided.
    Open = 2,
}

pub(super) struct Policy {
    desk: Arc<Desk>,
    window: Window,
}

pub(super) struct Publisher(Arc<Desk>);

const PRESENT: u8 = 1;
const FAILED: u8 = 2;
const SLOW: u8 = 4;

impl Desk {
    pub(super) fn new(limits: Arc<ArcSwap<BreakerConfig>>) -> Self {
        Self {
            gate: AtomicU64::new(0),
            limits,
            order: AtomicU8::new(Order::Judge as u8),
            outcome: AtomicU8::new(0),
            now: Cell64::new(0),
            opens_into: AtomicU8::new(State::Open as u8),
            closes_into: AtomicU8::new(State::Closed as u8),
            crossed: AtomicBool::new(false),
            calls: AtomicU32::new(0),
            failures: AtomicU32::new(0),
            slow: AtomicU32::new(0),
            consecutive: AtomicU32::new(0),
        }
    }

    /// Lays out the next call of the machine.
    pub(super) fn lay(&self, order: Order, outcome: Option<Outcome>, now: u64) {
        let bits = outcome.map_or(0, |outcome| {
            PRESENT | if outcome.failed { FAILED } else { 0 } | if outcome.slow { SLOW } else { 0 }
        });
        self.order.store(order as u8, Relaxed);
        self.outcome.store(bits, Relaxed);
        self.now.store(now, Relaxed);
    }

    /// Which of our states stands for failsafe's next open or closed.
    pub(super) fn name_next(&self, state: State) {
        match state {
            State::Open | State::ForcedOpen => self.opens_into.store(state as u8, Relaxed),
            _ => self.closes_into.store(state as u8, Relaxed),
        }
    }

    pub(super) fn gate(&self) -> (u64, State) {
        let gate = self.gate.load(Ordering::Acquire);
        (gate >> 3, State::from_bits(gate))
    }

    /// A new state and generation: results of calls that began before count no more.
    pub(super) fn enter(&self, state: State) {
        let generation = (self.gate.load(Ordering::Relaxed) >> 3) + 1;
        self.gate.store(generation << 3 | state as u64, Ordering::Release);
    }

    /// Another name for the state, in which calls that began before go on counting.
    pub(super) fn rename(&self, state: State) {
        let generation = self.gate.load(Ordering::Relaxed) >> 3;
        self.gate.store(generation << 3 | state as u64, Ordering::Release);
    }

    /// Whether the last outcome left a threshold crossed.
    pub(super) fn crossed(&self) -> bool {
        self.crossed.load(Relaxed)
    }

    pub(super) fn figures(&self) -> Figures {
        Figures {
            calls: self.calls.load(Relaxed),
            failures: self.failures.load(Relaxed),
            slow: self.slow.load(Relaxed),
            consecutive: self.consecutive.load(Relaxed),
        }
    }

    fn take_outcome(&self) -> Option<Outcome> {
        let bits = self.outcome.load(Relaxed);
        self.outcome.store(0, Relaxed);
        (bits & PRESENT != 0).then_some(Outcome { failed: bits & FAILED != 0, slow: bits & SLOW != 0 })
    }

    fn publish(&self, figures: Figures, crossed: bool) {
        self.calls.store(figures.calls, Relaxed);
        self.failures.store(figures.failures, Relaxed);
        self.slow.store(figures.slow, Relaxed);
        self.consecutive.store(figures.consecutive, Relaxed);
        self.crossed.store(crossed, Relaxed);
    }
}

/// Which threshold these figures cross, if any.
pub(super) fn verdict(figures: Figures, limits: &BreakerConfig) -> Option<Reason> {
    let Figures { calls, consecutive, .. } = figures;
    if limits.consecutive_failures > 0 && consecutive >= limits.consecutive_failures {
        return Some(Reason::ConsecutiveFailures { failures: consecutive });
    }
    if calls < limits.minimum_calls {
        return None;
    }
    let (failed, slow) = (figures.failure_ratio(), figures.slow_ratio());
    if failed >= limits.failure_ratio {
        return Some(Reason::FailureRatio { ratio: failed, threshold: limits.failure_ratio, calls });
    }
    (slow >= limits.slow_ratio).then(|| Reason::SlowRatio {
        ratio: slow,
        threshold: limits.slow_ratio,
        slow_threshold_ms: u64::try_from(limits.slow_threshold.as_millis()).unwrap_or(u64::MAX),
        calls,
    })
}

impl Policy {
    pub(super) fn new(desk: Arc<Desk>) -> Self {
        let window = Window::new(desk.limits.load().window);
        Self { desk, window }
    }

    /// Counts what lies on the desk and says whether a threshold is crossed.
    fn count(&mut self) -> bool {
        let limits = self.desk.limits.load();
        let now = self.desk.now.load(Relaxed);
        self.window.reshape(limits.window, now);
        match self.desk.take_outcome() {
            Some(outcome) => self.window.record(outcome, now),
            None => self.window.advance(now),
        }
        let figures = self.window.figures();
        let crossed = verdict(figures, &limits).is_some();
        self.desk.publish(figures, crossed);
        crossed
    }
}

impl FailurePolicy for Policy {
    fn record_success(&mut self) {
        self.count();
    }

    fn mark_dead_on_failure(&mut self) -> Option<Duration> {
        let crossed = self.count();
        let order = self.desk.order.load(Relaxed);
        let opens = order == Order::Open as u8 || (crossed && order == Order::Judge as u8);
        opens.then_some(Duration::ZERO)
    }

    fn revived(&mut self) {
        self.window.clear();
        self.desk.publish(Figures::default(), false);
    }
}

impl Instrument for Publisher {
    fn on_call_rejected(&self) {}

    fn on_open(&self) {
        self.0.enter(State::from_bits(u64::from(self.0.opens_into.load(Relaxed))));
    }

    fn on_half_open(&self) {
        self.0.enter(State::HalfOpen);
    }

    // failsafe's `reset` calls this under its own lock: atomics only, or it would deadlock.
    fn on_closed(&self) {
        self.0.enter(State::from_bits(u64::from(self.0.closes_into.load(Relaxed))));
    }
}

impl Publisher {
    pub(super) const fn new(desk: Arc<Desk>) -> Self {
        Self(desk)
    }
}
