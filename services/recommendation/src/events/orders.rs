//! Confirmed orders are counted. That one is cancelled later does not matter: the products were wanted together.

use std::time::Duration;

use contracts::{
    Event, EventId,
    event::{EventData, OrderConfirmed},
};
use durable::{Database, StorageError, inbox};
use events::{HandleError, Handler, Outcome};
use resilience::Deadline;

use crate::{domain::Purchase, store::purchases};

/// The consumer group, and recommendation's name in its inbox.
pub const GROUP: &str = "recommendation";

/// Far above one short transaction, far below what would hold up a shutdown.
const LIMIT: Duration = Duration::from_secs(3);

#[derive(Debug, Clone)]
pub struct Orders {
    pub database: Database,
}

impl Handler for Orders {
    async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        let order = match event.decode::<OrderConfirmed>() {
            None => return Ok(Outcome::Ignored),
            Some(Ok(order)) => order,
            Some(Err(error)) => return Err(HandleError::Refused(format!("{}: {error}", OrderConfirmed::TYPE))),
        };
        let purchase = Purchase::of(&order, event.time).map_err(|error| HandleError::Refused(error.to_string()))?;
        let outcome = self.apply(event, &purchase).await.map_err(HandleError::transient)?;
        tracing::debug!(order_id = %order.order_id, outcome = outcome.as_str(), "purchase recorded");
        Ok(outcome)
    }
}

impl Orders {
    /// The inbox rows and the effect, in one transaction. An order counts once, and so has a row of its own: it is told of
    /// again, as another event, as long as one of its siblings has not been seen to have heard of it.
    async fn apply(&self, event: &Event, purchase: &Purchase) -> Result<Outcome, StorageError> {
        let mut tx = self.database.begin(Deadline::after(LIMIT)).await?;
        if !inbox::first_delivery(&mut tx, GROUP, event.id).await? {
            return Ok(Outcome::Duplicate);
        }
        let purchased = EventId::derive(event.subject, OrderConfirmed::TYPE);
        if !inbox::first_delivery(&mut tx, GROUP, purchased).await? {
            tx.commit().await?;
            return Ok(Outcome::Duplicate);
        }
        purchases::record(&mut tx, purchase).await?;
        tx.commit().await?;
        Ok(Outcome::Applied)
    }
}
