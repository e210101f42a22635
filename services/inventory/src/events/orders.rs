//! Orders that were confirmed, and orders that died.
//!
//! Refused for good, and so a dead letter, is one thing besides an unreadable event: the confirmation of an order that
//! never reserved anything. Order confirms only what inventory has answered that it holds, and rows are never deleted,
//! so waiting would not bring it about.

use std::time::Duration;

use contracts::{
    Event, OrderId,
    event::{EventData, OrderCancelled, OrderConfirmed, OrderRejected},
};
use durable::{Database, inbox};
use events::{HandleError, Handler, Outcome};
use resilience::Deadline;

use crate::{
    Error,
    domain::{Command, Refusal},
    workflow,
};

/// The consumer group, and inventory's name in its inbox.
pub const GROUP: &str = "inventory";

/// Far above one short transaction, far below what would hold up a shutdown.
const LIMIT: Duration = Duration::from_secs(3);

#[derive(Debug, Clone)]
pub struct Orders {
    pub database: Database,
}

impl Handler for Orders {
    async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        let Some((order, command)) = read(event)? else { return Ok(Outcome::Ignored) };
        self.apply(event, order, command).await.map_err(|error| match error {
            Error::Reservation { refusal: Refusal::NeverReserved, .. } => HandleError::Refused(error.to_string()),
            Error::Storage(error) => error.into(),
            other => HandleError::transient(other),
        })
    }
}

impl Orders {
    /// The inbox row and the effect, in one transaction.
    async fn apply(&self, event: &Event, order: OrderId, command: Command<'_>) -> Result<Outcome, Error> {
        let mut tx = self.database.begin(Deadline::after(LIMIT)).await?;
        if !inbox::first_delivery(&mut tx, GROUP, event.id).await? {
            return Ok(Outcome::Duplicate);
        }
        let reservation = workflow::settle(&mut tx, order, command).await?;
        tx.commit().await?;
        tracing::info!(order_id = %order, kind = event.kind, state = reservation.state.as_str(), "reservation settled");
        Ok(Outcome::Applied)
    }
}

fn read(event: &Event) -> Result<Option<(OrderId, Command<'static>)>, HandleError> {
    Ok(match event.kind.as_str() {
        OrderConfirmed::TYPE => Some((decode::<OrderConfirmed>(event)?.order_id, Command::Commit)),
        OrderRejected::TYPE => Some((decode::<OrderRejected>(event)?.order_id, Command::Release)),
        OrderCancelled::TYPE => Some((decode::<OrderCancelled>(event)?.order_id, Command::Release)),
        _ => None,
    })
}

fn decode<D: EventData>(event: &Event) -> Result<D, HandleError> {
    let refused = |reason: String| HandleError::Refused(format!("{}: {reason}", D::TYPE));
    match event.decode::<D>() {
        Some(Ok(data)) => Ok(data),
        Some(Err(error)) => Err(refused(error.to_string())),
        None => Err(refused(format!("the type is {}", event.kind))),
    }
}
