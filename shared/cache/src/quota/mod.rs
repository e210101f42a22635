//! # Distributed quota: leased from Redis in batches, a local share when Redis is away
//!
//! **Problem.** A limit for the whole cluster needs one count. Asking Redis for every request puts a round trip, and
//! Redis' every fault, into every request; dividing the limit by the replicas is wrong as soon as traffic is uneven.
//!
//! **Rule.** A replica takes a *lease* from the count in Redis and admits from it without asking. One script does it,
//! on the server's clock, and gives every key a lifetime, also one that has lost it. Callers of a key share one round
//! trip. A refusal is remembered, so a used-up quota does not cost a round trip a request. When Redis does not answer
//! in `timeout_ms`, the replica's share decides: a bucket of limit ÷ replicas that has been charged with all traffic
//! before. After a few failures Redis is left alone; who tries again is a round trip that nobody waits for. Once it is
//! back, an admission needs a lease and the share for two windows (`trust`), so there is no burst.
//!
//! **Error.** Leases end with their window; what is left of one lapses. The replicas hold `max_lease` between them
//! (each at least 1), so a window of the server's clock admits at most `limit` and under full demand at least
//! `limit − max_lease`, less what an unanswered question took or a remembered refusal delayed; any other span gets at
//! most one lease more than Redis gave in it. Like every sliding window of two counters, Redis itself gives up to
//! `limit × (1 + t/window)` in a span t that follows on silence. A replica that alone has lost Redis adds its share to
//! what the others may use.
//!
//! **Not for** what must never exceed a number (stock, money), nor for limits of a few a window on many replicas: there
//! the error is as large as the limit.
//!
//! **When you copy this**, take this folder and `gate`. Spawn [`Quota::keep_presence`]: an idle replica would not be
//! counted without. The greatest lease trades exactness for round trips; `timeout_ms` is what a fault of Redis costs a
//! request, `pause_after` how often. The limit may change between starts without a burst, since the counters stay.
//!
//! **Proved by** the drills `redis-down` and `redis-slow`.

mod account;
mod config;
mod keys;
mod local;
mod script;
mod trust;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use redis::aio::ConnectionManager;
use serde::Serialize;
use tokio::{
    runtime::Handle,
    sync::watch,
    time::{Instant, timeout, timeout_at},
};

use self::{
    account::{Sizing, Take},
    keys::{Entry, Keys, Landed, Landing, State},
    local::Share,
    script::{Answer, Ask, LeaseScript},
    trust::Trust,
};
pub use self::{
    config::{BadQuota, QuotaConfig, Window},
    trust::Authority,
};
use crate::gate::Gate;

/// One limit for all replicas, for each key. Clones share everything.
#[derive(Clone)]
pub struct Quota {
    shared: Arc<Shared>,
}

/// Admitted. `remaining` and `resets_in` are what this replica knows of the window, for the rate-limit headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    pub authority: Authority,
    pub remaining: u32,
    pub resets_in: Duration,
}

/// Not admitted, and nothing was charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the quota of {limit} is used up")]
pub struct RateLimited {
    /// `None` for a weight above the limit: it never fits.
    pub retry_after: Option<Duration>,
    pub limit: u32,
    pub authority: Authority,
}

/// Counts since the start, and the present state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuotaSnapshot {
    pub name: String,
    pub limit: u32,
    pub window_ms: u64,
    pub authority: Authority,
    /// Redis is left alone at the moment.
    pub paused: bool,
    /// Last known.
    pub replicas: u32,
    pub keys: usize,
    /// Weight admitted out of leases, and by the local share alone.
    pub admitted_leased: u64,
    pub admitted_locally: u64,
    pub refused: u64,
    /// Questions to Redis, how many of them failed, and how often it had to be sent the script.
    pub round_trips: u64,
    pub failures: u64,
    pub script_loads: u64,
}

impl Quota {
    /// Every replica needs an id of its own. Call it on the runtime that is to talk to Redis: round trips run there,
    /// wherever the caller is, and go on when the caller leaves, since Redis would have charged them all the same.
    pub fn new(redis: ConnectionManager, config: QuotaConfig, replica: &str) -> Result<Self, BadQuota> {
        config.validate()?;
        let now = Instant::now();
        let zero = AtomicU64::default;
        Ok(Self {
            shared: Arc::new(Shared {
                redis,
                script: LeaseScript::new(&config, replica),
                runtime: Handle::current(),
                gate: Gate::new(config.name.as_str(), config.pause_after, config.pause_ms),
                trust: Trust::new(now, config.window_ms),
                keys: Keys::new(script::stem(&config), config.max_keys, config.window_ms, now),
                replicas: AtomicU32::new(config.expected_replicas),
                answered_before: AtomicBool::new(false),
                leased: zero(),
                locally: zero(),
                refused: zero(),
                round_trips: zero(),
                failures: zero(),
                script_loads: zero(),
                config,
            }),
        })
    }

    /// Admits `weight` under `key`, or says when to come back. Waits for Redis only when the lease is used up, and
    /// never longer than `timeout_ms`.
    pub async fn check(&self, key: &str, weight: u32) -> Result<Granted, RateLimited> {
        let shared = &self.shared;
        let outcome = if weight > shared.config.limit {
            Err(shared.refusal(None, shared.trust.at(Instant::now())))
        } else {
            shared.decide(&shared.keys.entry(key, Instant::now()), weight).await
        };
        let (count, by) = match outcome {
            Ok(Granted { authority: Authority::Local, .. }) => (&shared.locally, u64::from(weight)),
            Ok(_) => (&shared.leased, u64::from(weight)),
            Err(_) => (&shared.refused, 1),
        };
        count.fetch_add(by, Relaxed);
        outcome
    }

    /// Says every `heartbeat_ms` that this replica is there, and so learns how many there are, and whether Redis is
    /// back. Never returns: spawn it beside the service, and drop it at the end.
    pub async fn keep_presence(&self) {
        let mut beats = tokio::time::interval(self.shared.config.heartbeat_ms);
        beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            if self.shared.gate.admit() {
                self.shared.ask(None).await;
            }
        }
    }

    #[must_use]
    pub fn snapshot(&self) -> QuotaSnapshot {
        let shared = &self.shared;
        QuotaSnapshot {
            name: shared.config.name.clone(),
            limit: shared.config.limit,
            window_ms: u64::try_from(shared.config.window_ms.as_millis()).unwrap_or(u64::MAX),
            authority: shared.trust.at(Instant::now()),
            paused: shared.gate.is_closed(),
            replicas: shared.replicas.load(Relaxed),
            keys: shared.keys.len(),
            admitted_leased: shared.leased.load(Relaxed),
            admitted_locally: shared.locally.load(Relaxed),
            refused: shared.refused.load(Relaxed),
            round_trips: shared.round_trips.load(Relaxed),
            failures: shared.failures.load(Relaxed),
            script_loads: shared.script_loads.load(Relaxed),
        }
    }
}

struct Shared {
    redis: ConnectionManager,
    config: QuotaConfig,
    script: LeaseScript,
    runtime: Handle,
    gate: Gate,
    trust: Trust,
    keys: Keys,
    replicas: AtomicU32,
    answered_before: AtomicBool,
    leased: AtomicU64,
    locally: AtomicU64,
    refused: AtomicU64,
    round_trips: AtomicU64,
    failures: AtomicU64,
    script_loads: AtomicU64,
}

enum Step {
    Done(Result<Granted, RateLimited>),
    Wait(Landing),
}

impl Shared {
    async fn decide(self: &Arc<Self>, entry: &Arc<Entry>, weight: u32) -> Result<Granted, RateLimited> {
        let mut waiting = None;
        let mut patience = None;
        loop {
            let mut landing = match self.step(entry, weight) {
                Step::Done(outcome) => return outcome,
                Step::Wait(landing) => landing,
            };
            // One patience for all round trips that it takes.
            let until = *patience.get_or_insert_with(|| Instant::now() + self.config.timeout_ms);
            waiting.get_or_insert_with(|| entry.wait(weight));
            match timeout_at(until, landing.wait_for(Option::is_some)).await.map(|landed| landed.map(|landed| *landed))
            {
                Ok(Ok(Some(Landed::Answered))) => {}
                _ => {
                    self.lose();
                    return self.by_share(entry, weight);
                }
            }
        }
    }

    /// What can be decided without waiting, else the round trip to wait for.
    fn step(self: &Arc<Self>, entry: &Arc<Entry>, weight: u32) -> Step {
        let now = Instant::now();
        let (authority, share) = (self.trust.at(now), self.share());
        let mut state = entry.state();
        state.used_at = now;
        if authority == Authority::Both
            && let Err(wait) = state.local.fits(now, weight, share)
        {
            return Step::Done(Err(self.refusal(Some(wait), authority)));
        }
        if authority != Authority::Local {
            match state.account.take(now, weight) {
                Take::Taken => {
                    state.local.charge(now, weight, share);
                    return Step::Done(Ok(granted(&state, now, authority)));
                }
                Take::Refused(wait) => return Step::Done(Err(self.refusal(Some(wait), authority))),
                Take::Short => {}
            }
        }
        // While Redis is left alone nobody waits for it, not for the round trip that tries it either.
        let paused = self.gate.is_closed();
        // One whose runtime has ended or which panicked tells nobody.
        if state.flight.as_ref().is_some_and(|landing| landing.has_changed().is_err()) {
            state.flight = None;
        }
        if state.flight.is_none() && self.gate.admit() {
            state.flight = Some(self.launch(entry, &mut state, now, weight));
        }
        match &state.flight {
            Some(landing) if !paused => Step::Wait(landing.clone()),
            _ => {
                drop(state);
                self.lose();
                Step::Done(self.by_share(entry, weight))
            }
        }
    }

    fn launch(self: &Arc<Self>, entry: &Arc<Entry>, state: &mut State, now: Instant, weight: u32) -> Landing {
        let sizing = Sizing {
            cap: self.config.lease_cap(self.replicas.load(Relaxed)),
            adaptive: self.config.adaptive,
            lease_for: self.config.lease_for_ms,
        };
        let waiting = entry.waiting().max(u64::from(weight));
        let ask = state.account.ask(now, weight, waiting, sizing);
        let (announce, landing) = watch::channel(None);
        let (shared, entry) = (self.clone(), entry.clone());
        self.runtime.spawn(async move {
            let asked_at = Instant::now();
            let answer = shared.ask(Some((&entry.counter, ask))).await;
            let landed = if answer.is_some() { Landed::Answered } else { Landed::Unanswered };
            let mut state = entry.state();
            if let Some(Answer { reply, .. }) = answer {
                state.account.answered(asked_at, ask, reply, shared.config.lease_for_ms / 10);
            }
            // First the key is free, then those who wait are told.
            state.flight = None;
            drop(state);
            announce.send_replace(Some(landed));
        });
        landing
    }

    /// One question within the outer timeout, and what it says about Redis. The gate has admitted it.
    async fn ask(&self, counter: Option<(&str, Ask)>) -> Option<Answer> {
        self.round_trips.fetch_add(1, Relaxed);
        let asked = timeout(self.config.timeout_ms, self.script.ask(self.redis.clone(), &self.config, counter)).await;
        let answer = match asked {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                self.failed(&error);
                return None;
            }
            Err(elapsed) => {
                self.failed(&elapsed);
                return None;
            }
        };
        self.gate.succeeded();
        self.replicas.store(answer.reply.replicas, Relaxed);
        let answered_before = self.answered_before.swap(true, Relaxed);
        if answer.loaded {
            self.script_loads.fetch_add(1, Relaxed);
            // A server that no longer knows the script is another one, or was started again: its counters are gone.
            if answered_before {
                self.trust.start_over(Instant::now());
            }
        }
        if self.trust.regain(Instant::now()) {
            tracing::info!(quota = %self.config.name, "Redis answers: quotas are leased again, within the local share");
        }
        Some(answer)
    }

    fn failed(&self, error: &dyn std::error::Error) {
        self.failures.fetch_add(1, Relaxed);
        self.gate.failed();
        let cause = error.source().map(ToString::to_string);
        tracing::debug!(quota = %self.config.name, %error, cause, "no lease");
        self.lose();
    }

    fn lose(&self) {
        if self.trust.lose() {
            let replicas = self.replicas.load(Relaxed);
            tracing::warn!(quota = %self.config.name, replicas, "no answer from Redis: the local share decides");
        }
    }

    fn by_share(&self, entry: &Entry, weight: u32) -> Result<Granted, RateLimited> {
        let now = Instant::now();
        let mut state = entry.state();
        match state.local.take(now, weight, self.share()) {
            Ok(()) => Ok(granted(&state, now, Authority::Local)),
            Err(wait) => Err(self.refusal(Some(wait), Authority::Local)),
        }
    }

    fn share(&self) -> Share {
        Share::of(&self.config, self.replicas.load(Relaxed))
    }

    fn refusal(&self, retry_after: Option<Duration>, authority: Authority) -> RateLimited {
        RateLimited { retry_after, limit: self.config.limit, authority }
    }
}

fn granted(state: &State, now: Instant, authority: Authority) -> Granted {
    Granted { authority, remaining: state.account.remaining(), resets_in: state.account.resets_in(now) }
}
