//! What became of payments, refunds and coupons: each enters the workflow like a request, with the inbox row in the same
//! transaction.
//!
//! An event that the order refuses is dropped when it is already so, tried again when it came too early, and a dead
//! letter when it can never apply.

use std::{sync::Arc, time::Duration};

use chassis::crash_point;
use chrono::{TimeDelta, Utc};
use contracts::{
    Event as Message, OrderId,
    event::{
        CouponSettled, EventData, PaymentApproved, PaymentDeclined, PaymentFenced, PaymentRefunded, PaymentReview,
    },
};
use durable::inbox;
use events::{HandleError, Handler, Outcome};
use resilience::Deadline;

use crate::{
    domain::{Event, Refusal},
    workflow::{ApplyError, Extras, Workflow},
};

/// The consumer group, and its name in the inbox.
pub const GROUP: &str = "order";

/// One transition, without anybody waiting.
const BUDGET: Duration = Duration::from_secs(2);

pub struct Outcomes(pub Arc<Workflow>);

impl Handler for Outcomes {
    async fn handle(&self, message: &Message) -> Result<Outcome, HandleError> {
        let Some((order, event)) = understood(message)? else { return Ok(Outcome::Ignored) };
        let mut tx = self.0.database.begin(Deadline::after(BUDGET)).await?;
        if !inbox::first_delivery(&mut tx, GROUP, message.id).await? {
            return Ok(Outcome::Duplicate);
        }
        crash_point("order.message_received");
        match self.0.apply_in(&mut tx, order, None, &event, Extras::default()).await {
            Ok(applied) => {
                crash_point("order.message_applied");
                tx.commit().await?;
                crash_point("order.message_committed");
                self.0.applied(&applied, &event);
                self.0.release_before_retry(&applied.order).await;
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
            Err(error @ ApplyError::Refused(Refusal::NotYet)) if self.is_too_old(message) => {
                let reason = format!("{} of order {order}: {error}, for too long", message.kind);
                Err(HandleError::Refused(reason))
            }
            Err(ApplyError::Storage(error)) => Err(error.into()),
            Err(error) => Err(HandleError::transient(error)),
        }
    }
}

impl Outcomes {
    /// Whether what it came before should have happened by now.
    fn is_too_old(&self, message: &Message) -> bool {
        let patience = self.0.rules.current().recover.early_max_age;
        TimeDelta::from_std(patience).is_ok_and(|patience| Utc::now() - message.time > patience)
    }
}

/// The message as an event of the workflow; `None` for types that mean nothing here.
fn understood(message: &Message) -> Result<Option<(OrderId, Event)>, HandleError> {
    Ok(match message.kind.as_str() {
        PaymentApproved::TYPE => {
            let PaymentApproved { order_id, attempt_id: attempt, channel, .. } = decoded(message)?;
            Some((order_id, Event::Approved { attempt, channel }))
        }
        PaymentDeclined::TYPE => {
            let PaymentDeclined { order_id, attempt_id: attempt, channel, decline_code: code } = decoded(message)?;
            Some((order_id, Event::Declined { attempt, channel, code }))
        }
        PaymentFenced::TYPE => {
            let PaymentFenced { order_id, attempt_id: attempt } = decoded(message)?;
            Some((order_id, Event::Fenced { attempt }))
        }
        PaymentReview::TYPE => {
            let PaymentReview { order_id, attempt_id: attempt } = decoded(message)?;
            Some((order_id, Event::InReview { attempt }))
        }
        PaymentRefunded::TYPE => {
            let PaymentRefunded { order_id, refund_id: refund, amount_minor, .. } = decoded(message)?;
            Some((order_id, Event::Refunded { refund, amount_minor }))
        }
        CouponSettled::TYPE => {
            let CouponSettled { order_id, outcome } = decoded(message)?;
            Some((order_id, Event::CouponSettled(outcome)))
        }
        _ => None,
    })
}

fn decoded<D: EventData>(message: &Message) -> Result<D, HandleError> {
    let unreadable = |reason: String| HandleError::Refused(format!("unreadable {}: {reason}", D::TYPE));
    match message.decode::<D>() {
        Some(data) => data.map_err(|error| unreadable(error.to_string())),
        None => Err(unreadable(format!("the type is {}", message.kind))),
    }
}
