//! Recommend: the cache, else the database, else what the cache still has, else the default list.
//!
//! It never fails. Whoever asks shows the answer beside something that matters more, and would have to make up a
//! default of their own; so the one decision of what that is lies here.

use std::collections::HashSet;

use cache::{Cache, Freshness};
use contracts::{
    UserId,
    recommendation::{Recommendations, Recommended, Source},
};
use durable::{Database, StorageError};
use resilience::Deadline;
use rules::RulesHandle;
use tokio::time::timeout_at;

use crate::{
    domain::{blend, default_list, pick},
    store::rankings,
};

/// The most products of one answer.
pub const MAX_LIMIT: usize = 50;
/// Candidates cached for a product: enough for the longest answer after what a user owns has been left out.
pub const CANDIDATES: i64 = 70;
/// What "no product" is called in the cache. No SKU has a space.
const ANY: &str = "any product";

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub user: Option<UserId>,
    pub sku: Option<String>,
    pub limit: usize,
}

/// The database did not answer in time, or not at all; it has been logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the database did not answer")]
pub struct Unavailable;

pub struct Recommender {
    pub database: Database,
    pub cache: Cache<Vec<Recommended>, Unavailable>,
    pub rules: RulesHandle,
}

impl Recommender {
    pub async fn recommend(&self, wanted: &Wanted, deadline: Deadline) -> Recommendations {
        let sku = wanted.sku.as_deref();
        let (known, owned) = tokio::join!(self.known(sku, deadline), self.owned(wanted.user, deadline));
        let (source, items) = match known {
            Some((source, candidates)) => (source, pick(candidates, sku, &owned, wanted.limit)),
            None => (Source::Default, Vec::new()),
        };
        let answer = if items.is_empty() {
            Recommendations { source: Source::Default, items: pick(default_list(), sku, &owned, wanted.limit) }
        } else {
            Recommendations { source, items }
        };
        let label = match answer.source {
            Source::Live => "live",
            Source::Cache => "cache",
            Source::Default => "default",
        };
        metrics::counter!("recommendations_total", "source" => label).increment(1);
        answer
    }

    /// The candidates for `sku`, and where they come from.
    async fn known(&self, sku: Option<&str>, deadline: Deadline) -> Option<(Source, Vec<Recommended>)> {
        let load = || self.load(sku, self.before(deadline, 2));
        let looking = self.cache.get_or_load(sku.unwrap_or(ANY), self.rules.current().cache.fresh, load);
        // Who waits for another caller's load may have less time than that one.
        let cached = timeout_at(self.before(deadline, 1).instant(), looking).await.ok()?.ok()?;
        let source = match cached.freshness {
            Freshness::Fresh => Source::Live,
            Freshness::FromCache | Freshness::Stale => Source::Cache,
        };
        Some((source, cached.value))
    }

    async fn load(&self, sku: Option<&str>, deadline: Deadline) -> Result<Vec<Recommended>, Unavailable> {
        let reading = async {
            let mut tx = self.database.begin(deadline).await?;
            let together = match sku {
                Some(sku) => rankings::bought_together(&mut tx, sku, CANDIDATES).await?,
                None => Vec::new(),
            };
            let trending = rankings::trending(&mut tx, CANDIDATES).await?;
            tx.rollback().await?;
            Ok::<_, StorageError>(blend(sku, together, trending))
        };
        in_time(deadline, reading).await
    }

    /// What to leave out for `user`; nothing when that cannot be told in time.
    async fn owned(&self, user: Option<UserId>, deadline: Deadline) -> HashSet<String> {
        let Some(user) = user else { return HashSet::new() };
        let deadline = self.before(deadline, 2);
        let reading = async {
            let mut tx = self.database.begin(deadline).await?;
            let owned = rankings::owned(&mut tx, user).await?;
            tx.rollback().await?;
            Ok::<_, StorageError>(owned)
        };
        in_time(deadline, reading).await.unwrap_or_default()
    }

    /// `deadline` less `times` the reserve: it is kept back once for the fallback and once for the answer's way back.
    fn before(&self, deadline: Deadline, times: u32) -> Deadline {
        let reserve = self.rules.current().network.reserve;
        Deadline::after(deadline.remaining().saturating_sub(reserve * times))
    }
}

/// A statement's timeout does not help when the server is silent.
async fn in_time<T>(
    deadline: Deadline,
    reading: impl Future<Output = Result<T, StorageError>>,
) -> Result<T, Unavailable> {
    match timeout_at(deadline.instant(), reading).await {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(StorageError::Bug(cause))) => tracing::error!(error = %cause, "the database refused a statement"),
        Ok(Err(error)) => tracing::warn!(%error, "recommending without the database"),
        Err(_) => tracing::warn!("recommending without the database, which is silent"),
    }
    Err(Unavailable)
}
