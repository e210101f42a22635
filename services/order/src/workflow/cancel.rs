//! `POST /v1/orders/{id}/cancel`, and the fence that an open payment needs before anybody can say how it ended.

use std::time::Duration;

use chassis::{RequestContext, crash_point};
use contracts::{OrderId, order::OrderStatus};
use resilience::Deadline;

use super::{ApplyError, Extras, Workflow};
use crate::{
    domain::{Event, Order, Refusal},
    error::Error,
};

/// For the record of what payment has said: it has to be written whether or not anybody still waits.
const RECORD_BUDGET: Duration = Duration::from_secs(1);

impl Workflow {
    /// The order after its user's wish. While its payment is open the wish is kept, and whatever comes out of the
    /// charge ends the order by it.
    pub async fn cancel(&self, context: &RequestContext, id: OrderId) -> Result<Order, Error> {
        let order = match self.apply(id, None, &Event::CancelRequested, Extras::default(), context.deadline).await {
            Ok(order) => order,
            // Wished before. The fence of then may have got no answer.
            Err(ApplyError::Refused(Refusal::AlreadySo)) => self.find(id, context.deadline).await?,
            Err(ApplyError::Refused(_)) => return Err(Error::NotCancellable(id)),
            Err(error) => return Err(error.into()),
        };
        crash_point("order.cancel_recorded");
        self.fence(context, order).await
    }

    /// Asks payment never to charge an order whose payment is open. Its answer is an event like any other.
    pub async fn fence(&self, context: &RequestContext, order: Order) -> Result<Order, Error> {
        let open = matches!(order.status, OrderStatus::PaymentInFlight | OrderStatus::PaymentPending);
        let Some(attempt) = order.payment.attempt_id.filter(|_| open) else { return Ok(order) };
        let answer = self.payment.fence(context, attempt).await;
        crash_point("order.fence_answered");
        let event = match answer {
            // What is in flight has a run that will say more than "unknown".
            None => return Ok(order),
            Some(Event::PaymentUnknown { .. } | Event::InReview { .. })
                if order.status == OrderStatus::PaymentInFlight =>
            {
                return Ok(order);
            }
            Some(event) => event,
        };
        match self.apply(order.id, None, &event, Extras::default(), Deadline::after(RECORD_BUDGET)).await {
            Ok(order) => {
                crash_point("order.fence_recorded");
                Ok(order)
            }
            // Known before, or somebody knew more.
            Err(ApplyError::Refused(_)) => self.find(order.id, context.deadline).await,
            Err(error) => Err(error.into()),
        }
    }
}
