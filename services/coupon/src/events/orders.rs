//! Orders that were confirmed, and orders that died.
//!
//! An order can be confirmed with a coupon that was never redeemed here: this service gave no answer then, and the order
//! went on at full price. Such a confirmation has no effect, and is no error; it is followed by a request to compensate,
//! which is put into a queue of our own, so that a discount which is not to be had now holds up no other order.

use std::time::Duration;

use chrono::Utc;
use contracts::{
    Event, OrderId,
    event::{CompensationDue, CouponCompensate, EventData, OrderCancelled, OrderConfirmed, OrderRejected},
};
use durable::{Database, Tx, inbox, outbox, outbox::Outbox};
use events::{HandleError, Handler, Outcome};
use resilience::Deadline;

use super::decode;
use crate::{
    Error,
    domain::{Command, Refusal},
    store::compensations,
    workflow,
};

/// The consumer group, and coupon's name in its inbox.
pub const GROUP: &str = "coupon";

/// Far above one short transaction, far below what would hold up a shutdown.
const LIMIT: Duration = Duration::from_secs(3);

#[derive(Debug, Clone)]
pub struct Orders {
    pub database: Database,
    pub outbox: Outbox,
}

/// What an event asks for.
enum Meaning {
    Settle(OrderId, Command<'static>),
    Compensate(CompensationDue),
}

impl Handler for Orders {
    async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        let Some(meaning) = read(event)? else { return Ok(Outcome::Ignored) };
        self.apply(event, meaning).await.map_err(|error| match error {
            Error::Storage(error) => error.into(),
            other => HandleError::transient(other),
        })
    }
}

impl Orders {
    /// The inbox row and the effect, in one transaction.
    async fn apply(&self, event: &Event, meaning: Meaning) -> Result<Outcome, Error> {
        let mut tx = self.database.begin(Deadline::after(LIMIT)).await?;
        if !inbox::first_delivery(&mut tx, GROUP, event.id).await? {
            return Ok(Outcome::Duplicate);
        }
        match meaning {
            Meaning::Settle(order, command) => settle(&mut tx, event, order, command).await?,
            Meaning::Compensate(due) => {
                outbox::enqueue_data(&mut tx, &due, event.version, event.traceparent.clone(), Utc::now()).await?;
            }
        }
        tx.commit().await?;
        self.outbox.wake();
        Ok(Outcome::Applied)
    }
}

async fn settle(tx: &mut Tx, event: &Event, order: OrderId, command: Command<'_>) -> Result<(), Error> {
    match workflow::settle(tx, order, command).await {
        Ok(redemption) => {
            let state = redemption.state.as_str();
            tracing::info!(order_id = %order, kind = event.kind, state, "redemption settled");
        }
        Err(Error::Redemption { refusal: Refusal::NeverHeld, .. }) => {
            tracing::info!(order_id = %order, kind = event.kind, "nothing was redeemed here");
        }
        Err(error) => return Err(error),
    }
    if matches!(command, Command::Release) {
        compensations::unlist(tx, order).await?;
    }
    Ok(())
}

fn read(event: &Event) -> Result<Option<Meaning>, HandleError> {
    Ok(match event.kind.as_str() {
        OrderConfirmed::TYPE => {
            let confirmed = decode::<OrderConfirmed>(event)?;
            confirmed.coupon_code.map(|_| Meaning::Settle(confirmed.order_id, Command::Commit))
        }
        OrderRejected::TYPE => Some(Meaning::Settle(decode::<OrderRejected>(event)?.order_id, Command::Release)),
        OrderCancelled::TYPE => Some(Meaning::Settle(decode::<OrderCancelled>(event)?.order_id, Command::Release)),
        CouponCompensate::TYPE => {
            let CouponCompensate { order_id, user_id, code, subtotal_minor, currency } = decode(event)?;
            Some(Meaning::Compensate(CompensationDue { order_id, user_id, code, subtotal_minor, currency }))
        }
        _ => None,
    })
}
