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

use super::NotSent;
use crate::signals::Signals;

pub(super) struct Guards {
    name: &'static str,
    breaker: Breaker,
    bulkhead: Bulkhead,
    limiter: ArcSwap<Limiter>,
    retry: Retry,
}

/// The right to one try. Dropped without a verdict, as when the caller leaves, it was neutral.
pub(super) struct Lease<'a> {
    pub breaker: breaker::Permit<'a>,
    _bulkhead: InFlight,
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
    pub fn new(name: &'static str, rule: &rules::Downstream, signals: Signals) -> Result<Self, Invalid> {
        let listen = move |transition: &Transition| {
            announce(name, transition);
            signals.alerts().tell(name, transition);
        };
        let breaker = Breaker::new(rule.breaker.clone(), rand::random())?.with_listener(listen);
        let guards = Self {
            name,
            breaker,
            bulkhead: Bulkhead::new(rule.bulkhead.clone())?,
            limiter: ArcSwap::from_pointee(limiter(rule)?),
            retry: Retry::new(rule.retry, rand::random()),
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
        let waiting = tokio::time::Instant::now();
        let admitted = self.admit_in_order(deadline).await;
        metrics::histogram!("downstream_guard_wait_seconds", "downstream" => self.name)
            .record(waiting.elapsed().as_secs_f64());
        // Whatever refused: with no time left, it was the time that was missing.
        admitted.map_err(|why| if deadline.has_passed() { NotSent::Deadline } else { why }).inspect_err(|why| {
            tracing::debug!(downstream = self.name, reason = why.as_str(), "a guard refused a call");
        })
    }

    async fn admit_in_order(&self, deadline: Deadline) -> Result<Lease<'_>, NotSent> {
        if deadline.has_passed() {
            return Err(NotSent::Deadline);
        }
        self.breaker.peek().map_err(|_| self.breaker_refused())?;
        let permit = self.bulkhead.acquire(deadline).await.map_err(|_| {
            metrics::counter!("stability_bulkhead_rejected_total", "downstream" => self.name).increment(1);
            NotSent::BulkheadFull
        })?;
        let in_flight = InFlight::new(self.name, permit);
        self.limiter.load_full().acquire(deadline).await.map_err(|_| {
            metrics::counter!("stability_rate_limited_total", "mechanism" => "outbound", "downstream" => self.name)
                .increment(1);
            NotSent::RateLimited
        })?;
        let breaker = self.breaker.acquire().map_err(|_| self.breaker_refused())?;
        Ok(Lease { breaker, _bulkhead: in_flight })
    }

    fn breaker_refused(&self) -> NotSent {
        metrics::counter!("stability_breaker_rejected_total", "downstream" => self.name).increment(1);
        NotSent::BreakerOpen
    }

    /// The first try of a call leaves: retries are a share of these.
    pub fn first_try(&self) {
        self.retry.request();
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

    pub fn count_retry(&self, outcome: &'static str) {
        metrics::counter!("stability_retry_total", "downstream" => self.name, "outcome" => outcome).increment(1);
    }

    pub fn snapshot(&self) -> DownstreamSnapshot {
        DownstreamSnapshot {
            breaker: self.breaker.snapshot(),
            bulkhead: self.bulkhead.snapshot(),
            limit: self.limiter.load().snapshot(),
            retry_budget: self.retry.snapshot(),
        }
    }

    /// What is a state and not an event, for the metrics.
    pub fn gauge(&self) {
        let now = self.snapshot();
        let gauge = |name: &'static str, value: f64| metrics::gauge!(name, "downstream" => self.name).set(value);
        gauge("stability_breaker_state", f64::from(now.breaker.state.metric()));
        gauge("stability_breaker_failure_ratio", now.breaker.failure_ratio);
        if let Some(ms) = now.breaker.last_recovery_ms {
            gauge("stability_breaker_recovery_seconds", Duration::from_millis(ms).as_secs_f64());
        }
        gauge("stability_bulkhead_waiting", f64::from(now.bulkhead.waiting));
        gauge("stability_bulkhead_cap", f64::from(now.bulkhead.cap));
        gauge("stability_limiter_permits_available", f64::from(now.limit.remaining));
        gauge("stability_retry_budget_available", f64::from(now.retry_budget.available));
    }
}

/// A permit that the gauge knows of.
struct InFlight {
    name: &'static str,
    _permit: bulkhead::Permit,
}

impl InFlight {
    fn new(name: &'static str, permit: bulkhead::Permit) -> Self {
        metrics::gauge!("stability_bulkhead_in_flight", "downstream" => name).increment(1.0);
        Self { name, _permit: permit }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        metrics::gauge!("stability_bulkhead_in_flight", "downstream" => self.name).decrement(1.0);
    }
}

fn limiter(rule: &rules::Downstream) -> Result<Limiter, Invalid> {
    Limiter::new(rule.limit).map_err(|error| Invalid::new("limit", error.to_string()))
}

fn announce(name: &'static str, transition: &Transition) {
    let Transition { number, from, to, failure_ratio, slow_ratio, calls, .. } = *transition;
    tracing::warn!(
        downstream = name, number, from = from.as_str(), to = to.as_str(), reason = ?transition.reason,
        failure_ratio, slow_ratio, calls, "the breaker changed its state"
    );
    metrics::gauge!("stability_breaker_state", "downstream" => name).set(f64::from(to.metric()));
    if matches!(to, State::Open | State::ForcedOpen) {
        metrics::counter!("stability_breaker_open_total", "downstream" => name).increment(1);
        if from == State::HalfOpen && to == State::Open {
            metrics::counter!("stability_breaker_half_open_failures_total", "downstream" => name).increment(1);
        }
    }
}
