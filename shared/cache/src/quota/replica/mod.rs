//! One replica's part of a quota: the order in which lease, share and Redis are asked, and one round trip a key at a
//! time.
//!
//! A round trip is a task of its own. Whoever waits for it may leave or run out of patience, and the lease still comes
//! in: Redis has charged it.

mod round_trip;

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use redis::aio::ConnectionManager;
use tokio::time::{Instant, timeout_at};

use super::{
    QuotaSnapshot,
    account::Take,
    config::QuotaConfig,
    keys::{Entry, Keys, Landed, Landing, State},
    lasting::Lasting,
    local::Share,
    script::{self, LeaseScript},
    trust::{Authority, Trust},
    verdict::{Granted, RateLimited},
};
use crate::gate::Gate;

pub(super) struct Replica {
    pub config: QuotaConfig,
    lasting: Arc<Lasting>,
    script: LeaseScript,
    gate: Arc<Gate>,
    trust: Arc<Trust>,
    keys: Arc<Keys>,
}

/// What can be said at once, or what to wait for.
enum Step {
    Done(Result<Granted, RateLimited>),
    Wait(Landing),
}

impl Replica {
    pub(super) fn new(redis: ConnectionManager, config: QuotaConfig, id: &str) -> Self {
        let now = Instant::now();
        Self {
            lasting: Arc::new(Lasting::new(redis, id, config.expected_replicas)),
            script: LeaseScript::new(&config, id),
            gate: Arc::new(Gate::new(config.name.as_str(), config.pause_after, config.pause_ms)),
            trust: Arc::new(Trust::new(now, config.window_ms)),
            keys: Arc::new(Keys::new(script::stem(&config), config.max_keys, config.window_ms, now)),
            config,
        }
    }

    /// The same replica under other limits. What is leased, owed and known of Redis goes on. Windows of another width
    /// begin with counts of their own, so they are met as a Redis is that has forgotten everything.
    pub(super) fn successor(&self, config: QuotaConfig) -> Self {
        let (now, before) = (Instant::now(), &self.config);
        let same_window = before.window_ms == config.window_ms;
        let (trust, keys) = if same_window && before.max_keys == config.max_keys {
            self.keys.forget_refusals();
            (self.trust.clone(), self.keys.clone())
        } else {
            let trust = self.trust.successor(now, config.window_ms);
            let keys = Keys::new(script::stem(&config), config.max_keys, config.window_ms, now);
            (Arc::new(trust), Arc::new(keys))
        };
        self.lasting.expect_replicas(config.expected_replicas);
        Self {
            lasting: self.lasting.clone(),
            script: LeaseScript::new(&config, &self.lasting.id),
            gate: Arc::new(self.gate.successor(config.pause_after, config.pause_ms)),
            trust,
            keys,
            config,
        }
    }

    pub(super) async fn check(self: &Arc<Self>, key: &str, weight: u32) -> Result<Granted, RateLimited> {
        let outcome = self.decide(&self.keys.entry(key, Instant::now()), weight).await;
        let (count, by) = match outcome {
            Ok(Granted { authority: Authority::Local, .. }) => (&self.lasting.locally, u64::from(weight)),
            Ok(_) => (&self.lasting.leased, u64::from(weight)),
            Err(_) => (&self.lasting.refused, 1),
        };
        count.fetch_add(by, Relaxed);
        outcome
    }

    pub(super) async fn beat(&self) {
        if self.gate.admit() {
            self.ask(None).await;
        }
    }

    pub(super) fn snapshot(&self) -> QuotaSnapshot {
        QuotaSnapshot {
            name: self.config.name.clone(),
            limit: self.config.limit,
            window_ms: u64::try_from(self.config.window_ms.as_millis()).unwrap_or(u64::MAX),
            authority: self.trust.at(Instant::now()),
            paused: self.gate.is_closed(),
            replicas: self.lasting.replicas.load(Relaxed),
            keys: self.keys.len(),
            admitted_leased: self.lasting.leased.load(Relaxed),
            admitted_locally: self.lasting.locally.load(Relaxed),
            refused: self.lasting.refused.load(Relaxed),
            round_trips: self.lasting.round_trips.load(Relaxed),
            failures: self.lasting.failures.load(Relaxed),
            script_loads: self.lasting.script_loads.load(Relaxed),
        }
    }

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
            return Step::Done(Err(self.limited(wait, authority)));
        }
        if authority != Authority::Local {
            match state.account.take(now, weight) {
                Take::Taken => {
                    state.local.charge(now, weight, share);
                    return Step::Done(Ok(self.granted(&state, now, authority)));
                }
                Take::Refused(wait) => return Step::Done(Err(self.limited(wait, authority))),
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

    fn by_share(&self, entry: &Entry, weight: u32) -> Result<Granted, RateLimited> {
        let now = Instant::now();
        let mut state = entry.state();
        match state.local.take(now, weight, self.share()) {
            Ok(()) => Ok(self.granted(&state, now, Authority::Local)),
            Err(wait) => Err(self.limited(wait, Authority::Local)),
        }
    }

    fn share(&self) -> Share {
        Share::of(&self.config, self.lasting.replicas.load(Relaxed))
    }

    fn limited(&self, retry_after: Duration, authority: Authority) -> RateLimited {
        let QuotaConfig { limit, window_ms: window, .. } = self.config;
        RateLimited { retry_after, limit, window, reset: retry_after, authority }
    }

    fn granted(&self, state: &State, now: Instant, authority: Authority) -> Granted {
        let QuotaConfig { limit, window_ms: window, .. } = self.config;
        let (remaining, reset) = (state.account.remaining(), state.account.resets_in(now));
        Granted { limit, window, remaining, reset, authority }
    }
}
