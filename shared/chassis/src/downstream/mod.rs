//! The one client for calls between services: what travels with a call, what guards it, and what its end proves.
//!
//! The outcome of a call is one of four. *Answered*: the callee did it. [`CallError::NotSent`]: the request certainly
//! did not leave, so nothing happened. [`CallError::Refused`]: the callee said that it did not do it.
//! [`CallError::Unknown`]: it may have happened, and only the callee can tell. The last is never turned into one of
//! the others: not by a timeout, not by a closed connection, not by a 5xx, and not by a second try that was refused.
//!
//! Every call passes the guards of its callee's rule, and only calls that their caller declares repeatable are tried
//! again.
//!
//! Reading order: this file (the callee) · `call` (the guards around an exchange) · `guards` (what admits a try) ·
//! `meters` · `transport` (one exchange) · `evidence` (what the end of it proves).

mod call;
mod evidence;
mod guards;
mod meters;
mod transport;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use reqwest::Method;
use resilience::Invalid;
use rules::{Downstreams, RulesHandle};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::MissedTickBehavior;

use self::{
    call::{Inside, Repeat, Settings},
    evidence::judge,
    transport::{Peer, Request},
};
pub use self::{
    evidence::{Answer, CallError, NotSent},
    guards::{DownstreamSnapshot, Guards, Lease},
};
use crate::{Lifecycle, RequestContext, signals::Signals};

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

impl Downstream {
    /// Guarded by `rule` alone, which stays as it is, with nobody to tell of it; `token` is shown to the callee as a bearer token. `reserve` is kept
    /// back from the caller's time, for the answer to be made use of.
    pub fn new(
        name: &'static str,
        base: &str,
        token: Option<&str>,
        rule: &rules::Downstream,
        reserve: Duration,
    ) -> Result<Self, DownstreamError> {
        Self::signalling(name, base, token, rule, reserve, Signals::default())
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
        let (rule, reserve) = (choose(&first.downstream), first.network.reserve);
        let downstream = Self::signalling(name, base, token, rule, reserve, lifecycle.signals().clone())?;
        let (followed, measured) = (downstream.clone(), downstream.clone());
        lifecycle.measured_by(move || measured.0.guards.gauge());
        lifecycle.spawn_background("downstream", |stop| async move {
            let mut tick = tokio::time::interval(LOOK_EVERY);
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

    fn signalling(
        name: &'static str,
        base: &str,
        token: Option<&str>,
        rule: &rules::Downstream,
        reserve: Duration,
        signals: Signals,
    ) -> Result<Self, DownstreamError> {
        Ok(Self(Arc::new(Inside {
            name,
            peer: Peer { base: base.to_owned(), token: token.map(str::to_owned) },
            guards: Guards::new(name, rule, signals.clone())?,
            settings: ArcSwap::from_pointee(Settings { client: transport::client(rule)?, rule: rule.clone(), reserve }),
            signals,
        })))
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

    /// Whether the breaker would refuse a call at this moment. One whose time in the open is over does not: it waits for a
    /// call to probe with, so that whoever holds back until it is closed holds back for ever.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.0.guards.is_cut_off()
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

/// How often a ramp that nobody calls on moves on.
const LOOK_EVERY: Duration = Duration::from_secs(1);
