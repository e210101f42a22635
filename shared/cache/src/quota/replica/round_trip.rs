//! One round trip to Redis: what is asked for, what its end says about Redis, and who is told.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::{
    super::{
        account::Sizing,
        keys::{Entry, Landed, Landing, State},
        script::{Answer, Ask},
    },
    Replica,
};

impl Replica {
    pub(super) fn launch(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        state: &mut State,
        now: Instant,
        weight: u32,
    ) -> Landing {
        let sizing = Sizing {
            cap: self.config.lease_cap(self.lasting.replicas.load(Relaxed)),
            adaptive: self.config.adaptive,
            lease_for: self.config.lease_for_ms,
        };
        let waiting = entry.waiting().max(u64::from(weight));
        let ask = state.account.ask(now, weight, waiting, sizing);
        let (announce, landing) = watch::channel(None);
        let (replica, entry) = (self.clone(), entry.clone());
        self.lasting.runtime.spawn(async move {
            let asked_at = Instant::now();
            let answer = replica.ask(Some((&entry.counter, ask))).await;
            let landed = if answer.is_some() { Landed::Answered } else { Landed::Unanswered };
            let mut state = entry.state();
            if let Some(Answer { reply, .. }) = answer {
                state.account.answered(asked_at, ask, reply, replica.config.lease_for_ms / 10);
            }
            // First the key is free, then those who wait are told.
            state.flight = None;
            drop(state);
            announce.send_replace(Some(landed));
        });
        landing
    }

    /// One question within the outer timeout, and what it says about Redis. The gate has admitted it.
    pub(super) async fn ask(&self, counter: Option<(&str, Ask)>) -> Option<Answer> {
        self.lasting.round_trips.fetch_add(1, Relaxed);
        // Read before the question: two that are asked at once at the start both have to send the script.
        let answered_before = self.lasting.answered_before.load(Relaxed);
        let asked =
            timeout(self.config.timeout_ms, self.script.ask(self.lasting.redis.clone(), &self.config, counter)).await;
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
        self.lasting.replicas.store(answer.reply.replicas, Relaxed);
        self.lasting.answered_before.store(true, Relaxed);
        if answer.loaded {
            self.lasting.script_loads.fetch_add(1, Relaxed);
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
        self.lasting.failures.fetch_add(1, Relaxed);
        self.gate.failed();
        let cause = error.source().map(ToString::to_string);
        tracing::debug!(quota = %self.config.name, %error, cause, "no lease");
        self.lose();
    }

    pub(super) fn lose(&self) {
        if self.trust.lose() {
            let replicas = self.lasting.replicas.load(Relaxed);
            tracing::warn!(quota = %self.config.name, replicas, "no answer from Redis: the local share decides");
        }
    }
}
