//! The one place where the guards are put together around an exchange.
//!
//! For each try: composite rules → deadline → peek at the breaker → bulkhead → rate limit → breaker lease and ramp → the try's timeout →
//! exchange → record. Between tries: the decision about another one.

use std::time::Duration;

use arc_swap::ArcSwap;
use reqwest::Client;
use resilience::{Deadline, retry::Attempt};
use serde::Serialize;
use tokio::time::Instant;
use traces::{Kind, Span};

use super::{
    CallError, NotSent,
    evidence::{TIMED_OUT, Tried, Verdict, together},
    guards::{Guards, WORTH_TELLING},
    meters::outcome,
    transport::{Peer, Request, exchange},
};
use crate::{
    RequestContext,
    signals::{self, Signals},
};

/// A callee with its guards.
pub(super) struct Inside {
    pub name: &'static str,
    pub peer: Peer,
    pub guards: Guards,
    pub settings: ArcSwap<Settings>,
    pub signals: Signals,
}

/// What changes with the rules, beside the guards themselves.
pub(super) struct Settings {
    pub client: Client,
    pub rule: rules::Downstream,
    pub reserve: Duration,
}

/// Whether a call may be made twice. Only its caller can know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    Never,
    /// Twice has the effect of once.
    Idempotent,
    /// It has no effect at all, so an earlier try that is in doubt proves nothing against a later answer.
    Safe,
}

impl Inside {
    /// A call with all its tries.
    pub async fn run<B: Serialize + Sync, T>(
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
        if let Err(held) = self.signals.check(context, self.name) {
            metrics::counter!(
                "stability_rate_limited_total", "mechanism" => signals::mechanism(&held), "downstream" => self.name
            )
            .increment(1);
            return Tried::refused(if signals::breaks(&held) { NotSent::BreakerOpen } else { NotSent::RateLimited });
        }
        let mut waiting = Span::within(Kind::Internal, &context.trace, || format!("guards of {}", self.name).into());
        let lease = match self.guards.admit(deadline).await {
            Ok(lease) => lease,
            Err(why) => {
                waiting.fail(why.as_str());
                return Tried::refused(why);
            }
        };
        let waited = waiting.elapsed();
        if waited < WORTH_TELLING {
            waiting.forget();
        } else {
            // Over before the exchange begins: what was waited for a guard is not the callee's time.
            drop(waiting);
        }
        // Read after the waits, which have taken their part of it.
        let (in_full, left) = (rule.attempt_timeout.min(rule.timeout), deadline.remaining());
        if left.is_zero() {
            return Tried::refused(NotSent::Deadline);
        }
        if retries == 0 {
            self.guards.first_try(&lease);
        }
        let budget = left.min(in_full);
        let own = context.trace.child();
        let mut span =
            Span::begin(Kind::Client, own, Some(context.trace), || format!("{} {}", request.method, self.name).into());
        let started = Instant::now();
        let arrived = exchange(&settings.client, &self.peer, context, &own, request, budget, rule.passes_purse).await;
        let took = started.elapsed();
        let bytes = arrived.as_ref().map_or(0, |arrived| arrived.bytes.len() as u64);
        let (outcome, status, retry_after) = match arrived {
            Ok(arrived) => (judge(arrived.status, &arrived.bytes), Some(arrived.status), arrived.retry_after),
            Err(error) => (Err(error), None, None),
        };
        let timed_out = matches!(&outcome, Err(CallError::Unknown(reason)) if status.is_none() && reason == TIMED_OUT);
        // A short wait for a permit is no excuse for the callee; a try that got markedly less than its due is one.
        let cut_short = budget < in_full.mul_f64(0.75);
        let tried = Tried { outcome, status, retry_after, timed_out, cut_short };
        let slow = took >= rule.breaker.slow_threshold;
        let verdict = tried.verdict(slow);
        match verdict {
            Verdict::Success => lease.success(),
            Verdict::Failure => lease.failure(),
            Verdict::Neutral => lease.ignore(),
        }
        if verdict != Verdict::Neutral {
            self.signals.record(context, self.name, verdict == Verdict::Failure, took, bytes);
        }
        self.guards.meters().tried(&tried.outcome, tried.timed_out, slow, took);
        describe(&mut span, self.name, retries, waited, &tried);
        tried
    }
}

/// What a trace tells of a try. No path, header or body: they hold ids, tokens and cards.
fn describe<T>(span: &mut Span, callee: &'static str, retries: u32, waited: Duration, tried: &Tried<T>) {
    span.set("peer.service", callee);
    span.set("http.request.resend_count", retries);
    span.set("guard.wait_ms", i64::try_from(waited.as_millis()).unwrap_or(i64::MAX));
    if let Some(status) = tried.status {
        span.set("http.response.status_code", status);
    }
    let outcome = outcome(&tried.outcome);
    span.set("outcome", outcome);
    if tried.timed_out {
        span.fail("timed out");
    } else if matches!(tried.outcome, Err(CallError::NotSent(_) | CallError::Unknown(_))) {
        span.fail(outcome);
    }
}
