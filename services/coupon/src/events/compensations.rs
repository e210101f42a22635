//! Coupon's own queue of discounts that are still to be honoured: one handler for each of its tiers.

use std::time::Duration;

use chrono::Utc;
use contracts::{
    Event,
    event::{CompensationDue, EventData},
};
use durable::{Database, inbox, outbox::Outbox};
use events::{HandleError, Handler, Outcome};
use resilience::Deadline;
use rules::RulesHandle;

use super::decode;
use crate::{
    Error,
    store::compensations,
    workflow::{Compensated, Try, compensate},
};

/// The consumer group, and coupon's name in its inbox for these events.
pub const COMPENSATION_GROUP: &str = "coupon.compensate";

/// Far above one short transaction, far below what would hold up a shutdown.
const LIMIT: Duration = Duration::from_secs(3);

#[derive(Debug, Clone)]
pub struct Compensations {
    pub database: Database,
    pub outbox: Outbox,
    pub rules: RulesHandle,
    pub tier: usize,
}

impl Handler for Compensations {
    async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        if event.kind != CompensationDue::TYPE {
            return Ok(Outcome::Ignored);
        }
        let due = decode::<CompensationDue>(event)?;
        let compensated = self.apply(event, &due).await.map_err(|error| match error {
            Error::Storage(error) => error.into(),
            other => HandleError::transient(other),
        })?;
        let order_id = due.order_id;
        match compensated {
            Some(Compensated::Refused { reason }) => {
                tracing::warn!(%order_id, tier = self.tier, reason, "a promised discount cannot be honoured");
                // The message goes where people look, beside the row on the manual list.
                Err(HandleError::Refused(reason))
            }
            Some(compensated) => {
                tracing::info!(%order_id, tier = self.tier, ?compensated, "compensation");
                Ok(Outcome::Applied)
            }
            None => Ok(Outcome::Duplicate),
        }
    }
}

impl Compensations {
    /// `None`: the event took effect before.
    async fn apply(&self, event: &Event, due: &CompensationDue) -> Result<Option<Compensated>, Error> {
        let mut tx = self.database.begin(Deadline::after(LIMIT)).await?;
        if !inbox::first_delivery(&mut tx, COMPENSATION_GROUP, event.id).await? {
            // It comes again after a crash between the commit and its dead letter, which is then still to be written.
            let reason = compensations::refused_by(&mut tx, event.id()).await?;
            return Ok(reason.map(|reason| Compensated::Refused { reason }));
        }
        let delays = self.rules.current().compensate.delays;
        let attempt = Try { event, tier: self.tier, delays: &delays, now: Utc::now() };
        let compensated = compensate(&mut tx, due, attempt).await?;
        tx.commit().await?;
        self.outbox.wake();
        Ok(Some(compensated))
    }
}
