//! Inventory: on the core path. It alone decides about stock.

use chassis::{CallError, Downstream, NotSent, RequestContext};
use contracts::{
    OrderId, Problem, ProblemType,
    inventory::{Reservation, ReservationState, ReserveStock, StockLevel},
    order::{ItemRequest, OrderStatus, Page},
};
use reqwest::Method;

use crate::domain::{Event, Line, Order};

#[derive(Clone)]
pub struct Inventory(pub Downstream);

impl Inventory {
    /// Asks for all the stock of an order.
    pub async fn reserve(&self, context: &RequestContext, order: &Order) -> Event {
        let items = order.lines.iter().map(|l| ItemRequest { sku: l.sku.clone(), quantity: l.quantity }).collect();
        let path = format!("/v1/reservations/{}", order.id);
        let body = ReserveStock { items };
        match self.0.call_repeatable::<_, Reservation>(context, Method::PUT, &path, Some(&body)).await {
            Ok(answer) => {
                let lines = answer.body.items.into_iter().map(|item| Line {
                    sku: item.sku,
                    quantity: item.quantity,
                    named: Some((item.name, item.unit_price_minor)),
                });
                Event::StockHeld { lines: lines.collect(), currency: answer.body.currency }
            }
            Err(CallError::NotSent(NotSent::Deadline)) => Event::Expired,
            Err(CallError::NotSent(_)) => Event::StockNotDispatched,
            Err(CallError::Refused(problem)) if is_business_no(problem.kind) => {
                Event::StockRefused(forwarded(*problem))
            }
            // Refused for a reason that is between the two services, such as a token: no stock is held.
            Err(CallError::Refused(_)) => Event::StockNotDispatched,
            Err(CallError::Unknown(_)) => Event::StockUnknown,
        }
    }

    /// Lets the stock of a dead order go at once. False: the event has to see to it.
    pub async fn release(&self, context: &RequestContext, order: OrderId) -> bool {
        let path = format!("/v1/reservations/{order}/release");
        let released = self.0.call_repeatable::<(), Reservation>(context, Method::POST, &path, None).await;
        if let Err(error) = &released {
            tracing::info!(order_id = %order, %error, "the release is left to the event");
        }
        released.is_ok()
    }

    /// Whether the order's end has taken effect on its stock; `None`: inventory gave no answer.
    pub async fn has_settled(&self, context: &RequestContext, order: &Order) -> Option<bool> {
        match self.0.get::<Reservation>(context, &format!("/v1/reservations/{}", order.id)).await {
            Ok(answer) => Some(match answer.body.state {
                ReservationState::Held => false,
                ReservationState::Committed => order.status == OrderStatus::Confirmed,
                ReservationState::Returned | ReservationState::Released => order.status != OrderStatus::Confirmed,
            }),
            // Not even a tombstone: the release has not arrived.
            Err(CallError::Refused(problem)) if problem.kind == ProblemType::NotFound => Some(false),
            Err(_) => None,
        }
    }

    pub async fn product(&self, context: &RequestContext, sku: &str) -> Result<StockLevel, CallError> {
        self.0.get(context, &format!("/v1/stock/{sku}")).await.map(|answer| answer.body)
    }

    pub async fn products(&self, context: &RequestContext, query: &str) -> Result<Page<StockLevel>, CallError> {
        self.0.get(context, &format!("/v1/stock{query}")).await.map(|answer| answer.body)
    }
}

fn is_business_no(kind: ProblemType) -> bool {
    matches!(kind, ProblemType::OutOfStock | ProblemType::UnknownSku | ProblemType::ReservationReleased)
}

/// What a client is told of a sibling's refusal: its kind and its own members.
fn forwarded(problem: Problem) -> Box<Problem> {
    Box::new(Problem { mechanism: None, rule_version: None, ..problem })
}
