//! Products as the shop window shows them: as inventory says, or else as it said last.
//!
//! Not for orders: whether there is stock to sell, and at what price, inventory alone decides when it holds it.

use std::num::NonZeroUsize;

use chassis::{CallError, Degradable, RequestContext};
use chrono::{DateTime, Utc};
use contracts::{ProblemType, inventory::StockLevel, order::Page};
use resilience::last_known::{LastKnown, LastKnownConfig, LastKnownSnapshot};
use rules::RulesHandle;

use super::{
    inventory::Inventory,
    recommendation::percent_encoded,
    snapshots::{Snapshot, Snapshots},
};
use crate::error::Error;

/// One a process.
pub struct Products {
    inventory: Inventory,
    availability: Degradable,
    rules: RulesHandle,
    levels: LastKnown<Seen<StockLevel>>,
    /// For products that this process has not seen itself.
    shared: Snapshots,
    pages: LastKnown<Seen<Page<StockLevel>>>,
}

/// What inventory said.
#[derive(Debug, Clone)]
pub struct Seen<T> {
    pub value: T,
    /// Before it was asked: what it said was true then or later.
    pub as_of: DateTime<Utc>,
    /// It is an earlier answer.
    pub stale: bool,
}

impl Products {
    #[must_use]
    pub fn new(inventory: Inventory, shared: Snapshots, rules: &RulesHandle, availability: Degradable) -> Self {
        let limits = limits(rules);
        let (levels, pages) = (LastKnown::new(limits), LastKnown::new(limits));
        Self { inventory, availability, rules: rules.clone(), levels, shared, pages }
    }

    pub async fn one(&self, context: &RequestContext, sku: &str) -> Result<Seen<StockLevel>, Error> {
        let live = async || {
            let as_of = Utc::now();
            match self.inventory.product(context, &percent_encoded(sku)).await {
                Ok(value) => {
                    self.remember(&value, as_of);
                    self.shared.tell(sku, Some(Snapshot { level: value.clone(), as_of }));
                    Ok(Ok(Seen { value, as_of, stale: false }))
                }
                Err(CallError::Refused(problem)) if problem.kind == ProblemType::NotFound => {
                    // Not of every name that somebody makes up.
                    if self.levels.forget(sku) {
                        self.shared.tell(sku, None);
                    }
                    Ok(Err(Error::ProductNotFound))
                }
                Err(error) => Err(error),
            }
        };
        let last = async || match self.levels.recall(sku) {
            Ok((last, _)) => Some(last),
            Err(_) => {
                self.shared.ask(sku).await.map(|Snapshot { level, as_of }| Seen { value: level, as_of, stale: true })
            }
        };
        self.live_or_last(context, live, &self.levels, last).await
    }

    /// `query` is that of inventory's list.
    pub async fn page(&self, context: &RequestContext, query: &str) -> Result<Seen<Page<StockLevel>>, Error> {
        let live = async || {
            let as_of = Utc::now();
            match self.inventory.products(context, query).await {
                Ok(value) => {
                    value.items.iter().for_each(|level| self.remember(level, as_of));
                    let page = Seen { value, as_of, stale: false };
                    self.pages.keep(query, page.clone());
                    Ok(Ok(page))
                }
                Err(CallError::Refused(problem)) if problem.kind == ProblemType::InvalidRequest => {
                    Ok(Err(Error::BadParameter("cursor", "is none of ours")))
                }
                Err(error) => Err(error),
            }
        };
        let last = async || self.pages.recall(query).ok().map(|(last, _)| last);
        self.live_or_last(context, live, &self.pages, last).await
    }

    #[must_use]
    pub fn availability(&self) -> &Degradable {
        &self.availability
    }

    #[must_use]
    pub fn shared(&self) -> &Snapshots {
        &self.shared
    }

    #[must_use]
    pub fn snapshots(&self) -> [LastKnownSnapshot; 2] {
        [self.levels.snapshot(), self.pages.snapshot()]
    }

    /// A refusal of inventory's is an answer, and no reason to show what was before.
    async fn live_or_last<T: Clone>(
        &self,
        context: &RequestContext,
        live: impl AsyncFnOnce() -> Result<Result<Seen<T>, Error>, CallError>,
        known: &LastKnown<Seen<T>>,
        last: impl AsyncFnOnce() -> Option<Seen<T>>,
    ) -> Result<Seen<T>, Error> {
        known.reconfigure(limits(&self.rules));
        let chain = self.availability.begin::<_, ()>(context);
        let chain = chain.or("live", async || live().await.map_err(drop)).await;
        let chain =
            chain.or("cache", async || last().await.map(|last| Ok(Seen { stale: true, ..last })).ok_or(())).await;
        self.availability.finish(chain).map_err(|_| Error::InventoryUnavailable)?.value
    }

    fn remember(&self, level: &StockLevel, as_of: DateTime<Utc>) {
        self.levels.keep(&level.sku, Seen { value: level.clone(), as_of, stale: false });
    }
}

/// Of the rules in force.
pub(super) fn limits(rules: &RulesHandle) -> LastKnownConfig {
    let cache = &rules.current().cache;
    LastKnownConfig {
        capacity: NonZeroUsize::try_from(cache.last_answers).unwrap_or(NonZeroUsize::MAX),
        max_age: cache.keep_stale,
    }
}
