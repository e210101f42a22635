//! The guards of one callee, what they count, and what they show. They change with the rules and keep what they learnt.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use resilience::{
    Breaker, Bulkhead, Deadline, Invalid,
    breaker::{self, BreakerSnapshot, State, Transition},
    bulkhead::{self, BulkheadSnapshot},
    rate_limit::{Limiter, LimiterSnapshot},
    retry::{Attempt, BudgetSnapshot, Purse, Reason, Retry},
};
use serde::Serialize;
use tokio::time::Instant;

use super::{NotSent, meters::Meters};
use crate::signals::Signals;

/// All guards of one callee, for whatever is to be called: an exchange over HTTP here, or a driver of one's own.
pub struct Guards {
    name: &'static str,
    breaker: Breaker,
    bulkhead: Bulkhead,
    limiter: ArcSwap<Limiter>,
    retry: Retry,
    meters: Arc<Meters>,
}

/// The right to one try. Dropped without a verdict, as when the caller leaves, it was neutral.
#[must_use = "a lease that is dropped counts as a try that was never made"]
pub struct Lease<'a> {
    breaker: breaker::Permit<'a>,
    _bulkhead: bulkhead::Permit,
}

impl Lease<'_> {
    /// The callee did its work, be its answer yes or no.
    pub fn success(self) {
        self.breaker.success();
    }

    /// The callee failed.
    pub fn failure(self) {
        self.breaker.failure();
    }

    /// Nothing was learnt about the callee.
    pub fn ignore(self) {
        self.breaker.ignore();
    }
}

/// What `/internal/state` shows of a callee.
#[derive(Debug, Clone, Serialize)]
pub struct DownstreamSnapshot {
    pub breaker: BreakerSnapshot,
    pub bulkhead: BulkheadSnapshot,
    pub limit: LimiterSnapshot,
    pub retry_budget: BudgetSnapshot,
}

impl Guards {
    /// `signals` hear of every change of the breaker's state.
    pub fn new(name: &'static str, rule: &rules::Downstream, signals: Signals) -> Result<Self, Invalid> {
        let meters = Arc::new(Meters::new(name));
        let told = meters.clone();
        let listen = move |transition: &Transition| {
            told.changed(transition);
            signals.alerts().changed(name, transition);
        };
        let guards = Self {
            name,
            breaker: Breaker::new(rule.breaker.clone(), rand::random())?.with_listener(listen),
            bulkhead: Bulkhead::new(rule.bulkhead.clone())?,
            limiter: ArcSwap::from_pointee(limiter(rule)?),
            retry: Retry::new(rule.retry, rand::random()),
            meters,
        };
        guards.gauge();
        Ok(guards)
    }

    /// Other limits. Valid rules change all of the guards; of others, those up to the first that refuses.
    pub fn reconfigure(&self, rule: &rules::Downstream) -> Result<(), Invalid> {
        self.breaker.reconfigure(rule.breaker.clone())?;
        self.bulkhead.reconfigure(rule.bulkhead.clone())?;
        match self.limiter.load().reconfigure(rule.limit) {
            Ok(true) => {}
            // Another kind of limiter cannot take over what this one counted.
            Ok(false) => self.limiter.store(Arc::new(limiter(rule)?)),
            Err(error) => return Err(Invalid::new("limit", error.to_string())),
        }
        self.retry.reconfigure(rule.retry);
        Ok(())
    }

    /// All that has to be had before a try, in the order in which waiting for it makes sense: what refuses at once
    /// comes first, and the breaker's lease last, so that none runs out in a queue.
    pub async fn admit(&self, deadline: Deadline) -> Result<Lease<'_>, NotSent> {
        let began = Instant::now();
        if began >= deadline.instant() {
            return Err(self.refused(deadline, NotSent::Deadline));
        }
        if self.breaker.peek().is_err() {
            return Err(self.refused(deadline, NotSent::BreakerOpen));
        }
        let mut waited = false;
        let permit = match self.bulkhead.try_acquire() {
            Some(permit) => permit,
            None => {
                waited = true;
                let acquired = self.bulkhead.acquire(deadline).await;
                acquired.map_err(|_| self.refused(deadline, NotSent::BulkheadFull))?
            }
        };
        match self.turn_at_once() {
            Some(true) => {}
            Some(false) => return Err(self.refused(deadline, NotSent::RateLimited)),
            None => {
                waited = true;
                let turn = self.limiter.load_full().acquire(deadline).await;
                turn.map_err(|_| self.refused(deadline, NotSent::RateLimited))?;
            }
        }
        // Reading the clock costs as much as a guard, so who did not wait goes by what it read first.
        let now = if waited { Instant::now() } else { began };
        let Ok(breaker) = self.breaker.acquire_at(now) else {
            return Err(self.refused(deadline, NotSent::BreakerOpen));
        };
        let wait = now.saturating_duration_since(began);
        if wait >= WORTH_TELLING {
            self.meters.guard_wait.record(wait.as_secs_f64());
        }
        Ok(Lease { breaker, _bulkhead: permit })
    }

    /// Whether it is this try's turn; `None` where the limiter is one that paces, and has to be waited for.
    fn turn_at_once(&self) -> Option<bool> {
        let limiter = self.limiter.load();
        (!matches!(**limiter, Limiter::LeakyBucket(_))).then(|| limiter.check().is_ok())
    }

    /// Whatever refused: with no time left, it was the time that was missing.
    fn refused(&self, deadline: Deadline, by: NotSent) -> NotSent {
        match by {
            NotSent::BreakerOpen => self.meters.breaker_rejected.increment(1),
            NotSent::BulkheadFull => self.meters.bulkhead_rejected.increment(1),
            NotSent::RateLimited => self.meters.rate_limited.increment(1),
            NotSent::Deadline | NotSent::Connect => {}
        }
        let why = if deadline.has_passed() { NotSent::Deadline } else { by };
        tracing::debug!(downstream = self.name, reason = why.as_str(), "a guard refused a call");
        why
    }

    /// The first try of a call leaves, by this lease: retries are a share of these.
    pub fn first_try(&self, lease: &Lease<'_>) {
        self.retry.request_at(lease.breaker.started());
    }

    pub fn is_open(&self) -> bool {
        matches!(self.breaker.state(), State::Open | State::ForcedOpen)
    }

    /// How long to wait before another try; `None` if there is to be none.
    pub fn another_try(&self, attempt: &Attempt, purse: &Purse) -> Option<Duration> {
        match self.retry.schedule(attempt, purse) {
            Ok(wait) => Some(wait),
            Err(given_up) => {
                let outcome = match given_up.reason {
                    // Nobody wanted one.
                    Reason::Final | Reason::Ours | Reason::NotIdempotent => return None,
                    Reason::TriesSpent => "tries_spent",
                    Reason::BreakerOpen => "breaker_open",
                    Reason::NoTime => "no_time",
                    Reason::PurseEmpty => "purse_empty",
                    Reason::BudgetSpent => "budget_spent",
                };
                self.count_retry(outcome);
                None
            }
        }
    }

    pub(super) fn count_retry(&self, outcome: &'static str) {
        self.meters.retry(outcome);
    }

    pub(super) fn meters(&self) -> &Meters {
        &self.meters
    }

    pub fn is_cut_off(&self) -> bool {
        self.breaker.peek().is_err()
    }

    pub fn snapshot(&self) -> DownstreamSnapshot {
        DownstreamSnapshot {
            breaker: self.breaker.snapshot(),
            bulkhead: self.bulkhead.snapshot(),
            limit: self.limiter.load().snapshot(),
            retry_budget: self.retry.snapshot(),
        }
    }

    pub(super) fn gauge(&self) {
        self.meters.gauge(&self.snapshot());
    }
}

/// Shorter than this, a try waited for a processor and not for a guard.
pub(super) const WORTH_TELLING: Duration = Duration::from_millis(1);

fn limiter(rule: &rules::Downstream) -> Result<Limiter, Invalid> {
    Limiter::new(rule.limit).map_err(|error| Invalid::new("limit", error.to_string()))
}
