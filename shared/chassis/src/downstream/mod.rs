//! The one client for calls between services: what travels with a call, what guards it, and what its end proves.
//!
//! The outcome of a call is one of four. *Answered*: the callee did it. [`CallError::NotSent`]: the request certainly
//! did not leave, so nothing happened. [`CallError::Refused`]: the callee said that it did not do it.
//! [`CallError::Unknown`]: it may have happened, and only the callee can tell. The last is never turned into one of
//! the others: not by a timeout, not by a closed connection, not by a 5xx, and not by a second try that was refused.
//!
//! Every call passes the guards of its callee's rule, and here is the one place where they are put together: for each
//! try deadline → peek at the breaker → bulkhead → rate limit → breaker lease and ramp → the try's timeout → exchange
//! → record; between tries the decision about another one. Only calls that their caller declares repeatable get
//! another.
//!
//! Reading order: this file · `guards` (what admits a try) · `transport` (one exchange) · `evidence` (what the end of
//! it proves).

mod evidence;
mod guards;
mod transport;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use reqwest::{Client, Method};
use resilience::{Deadline, Invalid, retry::Attempt};
use rules::{Downstreams, RulesHandle};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{Instant, MissedTickBehavior};

pub use self::{
    evidence::{Answer, CallError, NotSent},
    guards::DownstreamSnapshot,
};
use self::{
    evidence::{TIMED_OUT, Tried, Verdict, judge, together},
    guards::Guards,
    transport::{Peer, Request, exchange},
};
use crate::{Lifecycle, RequestContext};

/// A callee, or one way of calling it that has guards of its own. Clones share the guards.
#[derive(Clone)]
pub struct Downstream(Arc<Inside>);

/// A rule that no client or guard can be made of.
#[derive(Debug, thiserror::Error)]
pub enum DownstreamError {
    #[error("no HTTP client: {0}")]
    Client(#[from] reqwest::Error),
    #[error("the rule is invalid: {0}")]
    Rule(#[from] Invalid),
}

/// Whether a call may be made twice. Only its caller can know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Never,
    /// Twice has the effect of once.
    Idempotent,
    /// It has no effect at all, so an earlier try that is in doubt proves nothing against a later answer.
    Safe,
}

impl Downstream {
    /// Guarded by `rule`, which stays as it is; `token` is shown to the callee as a bearer token. `reserve` is kept
    /// back from the caller's time, for the answer to be made use of.
    pub fn new(
        name: &'static str,
        base: &str,
        token: Option<&str>,
        rule: &rules::Downstream,
        reserve: Duration,
    ) -> Result<Self, DownstreamError> {
        Ok(Self(Arc::new(Inside {
            name,
            peer: Peer { base: base.to_owned(), token: token.map(str::to_owned) },
            guards: Guards::new(name, rule)?,
            settings: ArcSwap::from_pointee(Settings { client: transport::client(rule)?, rule: rule.clone(), reserve }),
        })))
    }

    /// Guarded by the rule that `choose` takes from those in force, now and after each change of them.
    pub fn live(
        name: &'static str,
        base: &str,
        token: Option<&str>,
        rules: &RulesHandle,
        choose: fn(&Downstreams) -> &rules::Downstream,
        lifecycle: &Lifecycle,
    ) -> Result<Self, DownstreamError> {
        // Before the first look, so that no change falls between the two.
        let mut changes = rules.subscribe();
        let first = rules.current();
        let downstream = Self::new(name, base, token, choose(&first.downstream), first.network.reserve)?;
        let followed = downstream.clone();
        lifecycle.spawn_background("downstream", |stop| async move {
            let mut tick = tokio::time::interval(GAUGE_EVERY);
            tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    _ = tick.tick() => followed.0.guards.gauge(),
                    Ok(()) = changes.changed() => {
                        let rules = changes.borrow_and_update().rules.clone();
                        if let Err(error) = followed.reconfigure(choose(&rules.downstream), rules.network.reserve) {
                            tracing::error!(
                                downstream = name, %error, rule_version = rules.version, "a rule is not in force"
                            );
                        }
                    }
                }
            }
        });
        Ok(downstream)
    }

    /// Puts another rule in force. What the guards have learnt stays, and calls that run are not touched.
    pub fn reconfigure(&self, rule: &rules::Downstream, reserve: Duration) -> Result<(), DownstreamError> {
        let before = self.0.settings.load();
        let client = if transport::needs_another_client(&before.rule, rule) {
            transport::client(rule)?
        } else {
            before.client.clone()
        };
        self.0.guards.reconfigure(rule)?;
        self.0.settings.store(Arc::new(Settings { client, rule: rule.clone(), reserve }));
        Ok(())
    }

    #[must_use]
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// What the guards hold and have learnt, for people.
    #[must_use]
    pub fn snapshot(&self) -> DownstreamSnapshot {
        self.0.guards.snapshot()
    }

    /// A question: it has no effect, so it is asked again where that may help.
    pub async fn get<T: DeserializeOwned>(&self, context: &RequestContext, path: &str) -> Result<Answer<T>, CallError> {
        let request = Request::<()> { method: Method::GET, path, body: None, extra_headers: &[] };
        self.0.run(context, &request, Repeat::Safe, judge).await
    }

    /// One call, never repeated here.
    pub async fn call<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        context: &RequestContext,
        method: Method,
        path: &str,
        body: Option<&B>,
        extra_headers: &[(&str, &str)],
    ) -> Result<Answer<T>, CallError> {
        self.call_judged(context, method, path, body, extra_headers, judge).await
    }

    /// [`Self::call`] where the callee makes one effect of the same request sent twice: it may be.
    pub async fn call_repeatable<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        context: &RequestContext,
        method: Method,
        path: &str,
        body: Option<&B>,
    ) -> Result<Answer<T>, CallError> {
        let request = Request { method, path, body, extra_headers: &[] };
        self.0.run(context, &request, Repeat::Idempotent, judge).await
    }

    /// [`Self::call`] for a callee outside the system, whose refusals are not problems of ours: `judge` says what an
    /// answer that arrived whole is evidence of.
    pub async fn call_judged<B: Serialize + Sync, T>(
        &self,
        context: &RequestContext,
        method: Method,
        path: &str,
        body: Option<&B>,
        extra_headers: &[(&str, &str)],
        judge: impl Fn(u16, &[u8]) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let request = Request { method, path, body, extra_headers };
        self.0.run(context, &request, Repeat::Never, judge).await
    }
}

/// What `/internal/state` shows of all callees, by name.
#[must_use]
pub fn snapshots(callees: &[Downstream]) -> BTreeMap<&'static str, DownstreamSnapshot> {
    callees.iter().map(|callee| (callee.name(), callee.snapshot())).collect()
}

/// How often gauges are renewed: several times between two scrapes.
const GAUGE_EVERY: Duration = Duration::from_secs(1);

struct Inside {
    name: &'static str,
    peer: Peer,
    guards: Guards,
    settings: ArcSwap<Settings>,
}

struct Settings {
    client: Client,
    rule: rules::Downstream,
    reserve: Duration,
}

impl Inside {
    /// A call with all its tries.
    async fn run<B: Serialize + Sync, T>(
        &self,
        context: &RequestContext,
        request: &Request<'_, B>,
        repeat: Repeat,
        judge: impl Fn(u16, &[u8]) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let settings = self.settings.load_full();
        let Ok(budget) = context.deadline.child(settings.rule.timeout, settings.reserve) else {
            return Err(CallError::NotSent(NotSent::Deadline));
        };
        let deadline = Deadline::after(budget);
        let mut earlier = None;
        let mut retries = 0;
        loop {
            let tried = self.try_once(&settings, context, request, deadline, retries, &judge).await;
            if retries > 0 {
                self.guards.count_retry(if tried.outcome.is_ok() { "succeeded" } else { "failed" });
            }
            let class = tried.class();
            let error = match together(earlier.take(), tried.outcome) {
                Err(error) => error,
                answered => return answered,
            };
            let attempt = Attempt {
                class,
                idempotent: repeat != Repeat::Never,
                retries,
                breaker_open: self.guards.is_open(),
                remaining: deadline.remaining(),
                // What the network alone takes.
                useful: settings.reserve,
            };
            let Some(wait) = self.guards.another_try(&attempt, &context.purse) else { return Err(error) };
            tracing::debug!(downstream = self.name, %error, ?wait, "trying again");
            tokio::time::sleep(wait).await;
            // A question has no effect that could be in doubt: its last answer is the one that counts.
            earlier = (repeat != Repeat::Safe).then_some(error);
            retries += 1;
        }
    }

    /// One try: admitted, sent, recorded.
    async fn try_once<B: Serialize + Sync, T>(
        &self,
        settings: &Settings,
        context: &RequestContext,
        request: &Request<'_, B>,
        deadline: Deadline,
        retries: u32,
        judge: &impl Fn(u16, &[u8]) -> Result<T, CallError>,
    ) -> Tried<T> {
        let rule = &settings.rule;
        let lease = match self.guards.admit(deadline).await {
            Ok(lease) => lease,
            Err(why) => return Tried::refused(why),
        };
        // Read after the waits, which have taken their part of it.
        let (in_full, left) = (rule.attempt_timeout.min(rule.timeout), deadline.remaining());
        if left.is_zero() {
            return Tried::refused(NotSent::Deadline);
        }
        if retries == 0 {
            self.guards.first_try();
        }
        let budget = left.min(in_full);
        let started = Instant::now();
        let arrived = exchange(&settings.client, &self.peer, context, request, budget, rule.passes_purse).await;
        let took = started.elapsed();
        let (outcome, status, retry_after) = match arrived {
            Ok(arrived) => (judge(arrived.status, &arrived.bytes), Some(arrived.status), arrived.retry_after),
            Err(error) => (Err(error), None, None),
        };
        let timed_out = matches!(&outcome, Err(CallError::Unknown(reason)) if status.is_none() && reason == TIMED_OUT);
        // A short wait for a permit is no excuse for the callee; a try that got markedly less than its due is one.
        let cut_short = budget < in_full.mul_f64(0.75);
        let tried = Tried { outcome, status, retry_after, timed_out, cut_short };
        match tried.verdict(took >= rule.breaker.slow_threshold) {
            Verdict::Success => lease.breaker.success(),
            Verdict::Failure => lease.breaker.failure(),
            Verdict::Neutral => lease.breaker.ignore(),
        }
        self.observe(&tried, took);
        tried
    }

    fn observe<T>(&self, tried: &Tried<T>, took: Duration) {
        let label = match &tried.outcome {
            Ok(_) => "answered",
            Err(CallError::NotSent(_)) => "not_sent",
            Err(CallError::Refused(_)) => "refused",
            Err(CallError::Unknown(_)) => "unknown",
        };
        metrics::histogram!("downstream_request_duration_seconds", "downstream" => self.name, "outcome" => label)
            .record(took.as_secs_f64());
        if tried.timed_out {
            metrics::counter!("downstream_request_timeout_total", "downstream" => self.name).increment(1);
        }
        if let Err(error) = &tried.outcome {
            tracing::info!(downstream = self.name, outcome = label, reason = %error, "downstream call");
        }
    }
}
