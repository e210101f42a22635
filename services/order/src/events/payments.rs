//! Settled payments: each enters the workflow like a request, with the inbox row in the same transaction.

use std::{sync::Arc, time::Duration};

use contracts::{
    Event as Message, OrderId,
    event::{EventData, PaymentApproved, PaymentDeclined, PaymentFenced},
};
use durable::inbox;
use events::{HandleError, Handler, Outcome};
use resilience::Deadline;

use crate::{
    domain::{Event, Refusal},
    workflow::{ApplyError, Workflow},
};

/// The consumer group, and its name in the inbox.
pub const GROUP: &str = "order";

/// One transition, without anybody waiting.
const BUDGET: Duration = Duration::from_secs(2);

pub struct Payments(pub Arc<Workflow>);

impl Handler for Payments {
    async fn handle(&self, message: &Message) -> Result<Outcome, HandleError> {
        let Some((order, event)) = understood(message)? else { return Ok(Outcome::Ignored) };
        let mut tx = self.0.database.begin(Deadline::after(BUDGET)).await?;
        if !inbox::first_delivery(&mut tx, GROUP, message.id).await? {
            return Ok(Outcome::Duplicate);
        }
        match self.0.apply_in(&mut tx, order, None, &event, crate::workflow::Extras::default()).await {
            Ok(after) => {
                tx.commit().await?;
                self.0.applied(&after, &event);
                self.0.release_before_retry(&after).await;
                Ok(Outcome::Applied)
            }
            // Known before, from the answer to our call. The inbox row is kept all the same.
            Err(ApplyError::Refused(Refusal::AlreadySo)) => {
                tx.commit().await?;
                Ok(Outcome::Duplicate)
            }
            Err(error @ (ApplyError::Refused(Refusal::Never) | ApplyError::NotFound)) => {
                Err(HandleError::Refused(format!("{} of order {order}: {error}", message.kind)))
            }
            Err(ApplyError::Storage(error)) => Err(error.into()),
            Err(error) => Err(HandleError::transient(error)),
        }
    }
}

/// The message as an event of the workflow; `None` for types that mean nothing here.
fn understood(message: &Message) -> Result<Option<(OrderId, Event)>, HandleError> {
    if let Some(data) = decoded::<PaymentApproved>(message)? {
        return Ok(Some((data.order_id, Event::Approved { attempt: data.attempt_id, channel: data.channel })));
    }
    if let Some(data) = decoded::<PaymentDeclined>(message)? {
        let event = Event::Declined { attempt: data.attempt_id, channel: data.channel, code: data.decline_code };
        return Ok(Some((data.order_id, event)));
    }
    if let Some(data) = decoded::<PaymentFenced>(message)? {
        return Ok(Some((data.order_id, Event::Fenced { attempt: data.attempt_id })));
    }
    Ok(None)
}

fn decoded<D: EventData>(message: &Message) -> Result<Option<D>, HandleError> {
    let unreadable = |error: serde_json::Error| HandleError::Refused(format!("unreadable {}: {error}", D::TYPE));
    message.decode::<D>().transpose().map_err(unreadable)
}
