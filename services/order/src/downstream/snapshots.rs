//! What inventory said of a product, shared by the replicas through Redis, so that one which has just started is not
//! without any.
//!
//! Told once in a while and off the request's path; asked only by who knows nothing itself, and no longer than a cache
//! is worth waiting for. Without Redis each replica has its own memory alone.

use std::{sync::Arc, time::Duration};

use cache::{Cache, CacheConfig, CacheSnapshot, ConnectionManager};
use chrono::{DateTime, Utc};
use contracts::inventory::StockLevel;
use resilience::last_known::{LastKnown, LastKnownConfig};
use rules::RulesHandle;
use serde::{Deserialize, Serialize};

use super::products::limits;

/// One a process.
pub struct Snapshots {
    cache: Arc<Cache<Option<Snapshot>, ()>>,
    /// What this replica has told lately, by SKU.
    told: LastKnown<()>,
    rules: RulesHandle,
}

/// `None` in its place: there is no such product any more.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Snapshot {
    pub level: StockLevel,
    pub as_of: DateTime<Utc>,
}

/// Raised whenever what is stored changes its type or meaning.
const SCHEMA: u32 = 1;

impl Snapshots {
    /// Keys begin with `prefix`.
    #[must_use]
    pub fn new(redis: ConnectionManager, prefix: String, rules: &RulesHandle) -> Self {
        let config = CacheConfig { prefix, ..CacheConfig::new("order-products", SCHEMA) };
        let told = LastKnown::new(limits(rules));
        Self { cache: Arc::new(Cache::new(redis, config)), told, rules: rules.clone() }
    }

    /// Tells the others, unless that was done lately.
    pub fn tell(&self, sku: &str, snapshot: Option<Snapshot>) {
        let current = self.rules.current();
        self.told.reconfigure(LastKnownConfig { max_age: current.cache.fresh, ..limits(&self.rules) });
        if snapshot.is_some() && self.told.recall(sku).is_ok() {
            return;
        }
        self.told.keep(sku, ());
        self.follow_the_rules();
        let (cache, sku) = (self.cache.clone(), sku.to_owned());
        // Ends within the cache's patience.
        drop(tokio::spawn(async move {
            // Of no time in which it would do instead of asking.
            cache.put(&sku, &snapshot, Duration::ZERO).await;
        }));
    }

    /// What any replica was told last.
    pub async fn ask(&self, sku: &str) -> Option<Snapshot> {
        self.follow_the_rules();
        self.cache.peek(sku).await.flatten()
    }

    #[must_use]
    pub fn snapshot(&self) -> CacheSnapshot {
        self.cache.snapshot()
    }

    fn follow_the_rules(&self) {
        let limits = &self.rules.current().cache;
        self.cache.reconfigure(limits.patience, limits.keep_stale);
    }
}
