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
//! **Not for** windows of hours (after a failure the share decides for two of them), for what must never exceed a number (stock, money), nor for limits of a few a window on many replicas: there
//! the error is as large as the limit.
//!
//! **When you copy this**, take this folder and `gate`. Spawn [`Quota::keep_presence`]: an idle replica would not be
//! counted without. The greatest lease trades exactness for round trips; `timeout_ms` is what a fault of Redis costs a
//! request, `pause_after` how often. Limits may change between starts and while it works without a burst: the counters stay.
//!
//! **Proved by** the drills `redis-down` and `redis-slow`.

mod account;
mod config;
mod keys;
mod lasting;
mod local;
mod replica;
mod script;
mod trust;
mod verdict;

use std::{num::NonZeroU32, sync::Arc};

use arc_swap::ArcSwap;
use redis::aio::ConnectionManager;
use serde::Serialize;

use self::replica::Replica;
pub use self::{
    config::{BadQuota, QuotaConfig, Window},
    trust::Authority,
    verdict::{Exceeds, Granted, RateLimited, Refused},
};

/// One limit for all replicas, for each key. Clones share everything.
#[derive(Clone)]
pub struct Quota {
    /// As a whole, so that a call sees one set of limits from its begin to its end.
    replica: Arc<ArcSwap<Replica>>,
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
        Ok(Self { replica: Arc::new(ArcSwap::from_pointee(Replica::new(redis, config, replica))) })
    }

    /// Other limits from the next call on, for all clones. Name and prefix stay, since what has been counted is under
    /// them. Leases, what is owed and what is known of Redis stay too; only another width of the window counts anew,
    /// and then for two windows a lease and the share are needed.
    pub fn reconfigure(&self, mut config: QuotaConfig) -> Result<(), BadQuota> {
        let before = self.replica.load();
        config.name.clone_from(&before.config.name);
        config.prefix.clone_from(&before.config.prefix);
        config.validate()?;
        if config != before.config {
            self.replica.store(Arc::new(before.successor(config)));
        }
        Ok(())
    }

    /// Admits `weight` under `key`, or says when to come back. Waits for Redis only when the lease is used up, and
    /// never longer than `timeout_ms`.
    pub async fn check(&self, key: &str, weight: NonZeroU32) -> Result<Granted, Refused> {
        let replica = self.replica.load_full();
        let limit = replica.config.limit;
        if weight.get() > limit {
            return Err(Exceeds { weight, limit }.into());
        }
        Ok(replica.check(key, weight.get()).await?)
    }

    /// Says every `heartbeat_ms` that this replica is there, and so learns how many there are, and whether Redis is
    /// back. Never returns: spawn it beside the service, and drop it at the end.
    pub async fn keep_presence(&self) {
        loop {
            let replica = self.replica.load_full();
            replica.beat().await;
            tokio::time::sleep(replica.config.heartbeat_ms).await;
        }
    }

    #[must_use]
    pub fn snapshot(&self) -> QuotaSnapshot {
        self.replica.load().snapshot()
    }
}
