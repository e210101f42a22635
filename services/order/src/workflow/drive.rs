//! The loop that brings an order from where it stands to an outcome. Its states are the recovery points: whoever runs
//! it, the first request, a repeated one or the recoverer, goes on from the state that the database has.

use std::time::Duration;

use chassis::{RequestContext, crash_point};
use contracts::{
    AttemptId, ProblemType,
    order::{OrderPaymentState, OrderStatus, Suggestion},
};
use durable::idempotency::Held;
use resilience::{Deadline, degrade::Served};
use tokio::task::JoinHandle;

use super::{ApplyError, Workflow, apply::Extras, release::OwnHolds};
use crate::{
    domain::{Event, Order},
    error::Error,
};

/// Who runs the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// A client waits: go on where it makes sense.
    Request,
    /// Nobody waits: bring what has not been charged to an end.
    Recoverer,
}

/// One run over one order.
pub struct Run<'a> {
    pub workflow: &'a Workflow,
    pub context: &'a RequestContext,
    pub held: Held,
    pub runner: Runner,
}

/// For the record of what is known: it has to be written whether or not anybody still waits.
const RECORD_BUDGET: Duration = Duration::from_secs(1);

impl Run<'_> {
    /// Returns the order as far as it came. An error means that its state could not be written: it stands where it
    /// stood, and another run resumes it.
    pub async fn drive(&self, mut order: Order) -> Result<Order, Error> {
        let mut suggestions = self.ask_for_suggestions(&order);
        // The attempt whose intent this run has saved and whose request it has not sent yet.
        let mut to_send: Option<AttemptId> = None;
        while let Some(event) = self.next(&order, to_send.take()).await {
            let extras = match event {
                Event::Approved { .. } | Event::PaymentUnknown { .. } => self.collect(&order, suggestions.take()).await,
                _ => Extras::default(),
            };
            let record = Deadline::after(RECORD_BUDGET);
            order = match self.workflow.apply(order.id, Some(self.held), &event, extras, record).await {
                Ok(after) => after,
                // Somebody else moved the order first: an event from payment, or a run that took it over.
                Err(ApplyError::FencedOff | ApplyError::Refused(_)) => {
                    order = self.overtaken(&order, &event).await?;
                    break;
                }
                Err(ApplyError::NotFound) => return Err(Error::OrderNotFound),
                // The intent is durable and the request may have left: what became of it is not known, and that is
                // what the client is told. The recoverer goes on from here.
                Err(ApplyError::Storage(error)) if order.status == OrderStatus::PaymentInFlight => {
                    tracing::error!(order_id = %order.id, event = event.name(), %error, "the outcome is not recorded");
                    return Ok(order);
                }
                Err(ApplyError::Storage(error)) => return Err(error.into()),
            };
            crash_point(recorded(&event));
            if let Event::ChargeIntended(attempt) = event {
                to_send = Some(attempt);
            }
        }
        self.workflow.release_before_retry(&order).await;
        Ok(order)
    }

    /// The order as somebody else left it, if it has an outcome by now; otherwise another run is at work on it.
    async fn overtaken(&self, order: &Order, event: &Event) -> Result<Order, Error> {
        let now = self.workflow.find(order.id, Deadline::after(RECORD_BUDGET)).await?;
        tracing::info!(
            order_id = %order.id, event = event.name(), status = now.status.as_str(), "overtaken by another change"
        );
        let settled = now.status.is_final() || now.status == OrderStatus::PaymentPending;
        if settled { Ok(now) } else { Err(Error::FencedOff) }
    }

    /// What happens next to an order that stands like this; nothing, once only others can move it.
    async fn next(&self, order: &Order, to_send: Option<AttemptId>) -> Option<Event> {
        let Workflow { inventory, payment, coupon, .. } = self.workflow;
        match order.status {
            OrderStatus::Created | OrderStatus::StockReserved if self.must_end(order) => Some(Event::Expired),
            OrderStatus::Created => {
                let answer = inventory.reserve(self.context, order).await;
                crash_point("order.stock_answered");
                Some(self.beyond_own_holds(order, answer).await)
            }
            OrderStatus::StockReserved => match &order.coupon.code {
                Some(code) if order.coupon.is_open() => {
                    let answer = coupon.redeem(self.context, order, code).await;
                    crash_point("order.coupon_answered");
                    Some(answer)
                }
                _ => Some(Event::ChargeIntended(AttemptId::generate())),
            },
            OrderStatus::PaymentInFlight => {
                let attempt = order.payment.attempt_id?;
                if order.payment.state == OrderPaymentState::NotDispatched {
                    let context = RequestContext { deadline: self.fence_deadline(), ..self.context.clone() };
                    let answer = payment.fence(&context, attempt).await;
                    crash_point("order.fence_answered");
                    // Whatever it does not decide is not known.
                    match answer {
                        Some(Event::InReview { .. }) | None => Some(Event::PaymentUnknown { attempt }),
                        decided => decided,
                    }
                } else if to_send == Some(attempt) {
                    let answer = payment.charge(self.context, order, attempt).await;
                    crash_point("order.charge_answered");
                    Some(answer)
                } else {
                    // Found so: the run that saved the intent died, before or after it sent the request.
                    Some(Event::PaymentUnknown { attempt })
                }
            }
            OrderStatus::PaymentPending | OrderStatus::Confirmed | OrderStatus::Rejected | OrderStatus::Cancelled => {
                None
            }
        }
    }

    /// A refusal that invites a retry lets the stock go before it is given, and where that fails an event does, later.
    /// A retry that comes sooner must not store "out of stock" because of what is held for itself: that is final, and
    /// wrong a moment later. What is in its way is let go of here, and where that fails again, it is told to come again.
    async fn beyond_own_holds(&self, order: &Order, answer: Event) -> Event {
        match &answer {
            Event::StockRefused(problem) if problem.kind == ProblemType::OutOfStock => {}
            _ => return answer,
        }
        match self.workflow.let_own_holds_go(order).await {
            OwnHolds::None => answer,
            OwnHolds::LetGo => self.workflow.inventory.reserve(self.context, order).await,
            OwnHolds::Unknown => Event::StockUnknown,
        }
    }

    fn must_end(&self, order: &Order) -> bool {
        // What the callee would refuse for lack of time is not begun.
        let rules = self.workflow.rules.current();
        let needed = match order.status {
            OrderStatus::StockReserved => rules.charge_route().min_useful_budget + rules.network.reserve,
            _ => rules.reserve_route().min_useful_budget + rules.network.reserve,
        };
        self.runner == Runner::Recoverer || self.context.deadline.require(needed).is_err()
    }

    /// A fence decides between an honest refusal and a pending order, so it is asked even when little time is left.
    fn fence_deadline(&self) -> Deadline {
        self.context.deadline.max(Deadline::after(Duration::from_millis(150)))
    }

    /// Begun early and looked at late, so that they cost an order no time.
    fn ask_for_suggestions(&self, order: &Order) -> Option<JoinHandle<Served<Vec<Suggestion>>>> {
        let sku = order.lines.first()?.sku.clone();
        if self.runner == Runner::Recoverer {
            return None;
        }
        let (recommendation, context, user) =
            (self.workflow.recommendation.clone(), self.context.clone(), order.user_id);
        Some(tokio::spawn(async move { recommendation.suggest(&context, user, &sku).await }))
    }

    /// The suggestions if they are there by now, or what can be had at once.
    async fn collect(&self, order: &Order, asked: Option<JoinHandle<Served<Vec<Suggestion>>>>) -> Extras {
        let Some((asked, line)) = asked.zip(order.lines.first()) else { return Extras::default() };
        // Does nothing to what has finished.
        asked.abort();
        let suggestions = match asked.await {
            Ok(found) => found,
            Err(_) => self.workflow.recommendation.suggest_at_once(self.context, &line.sku).await,
        };
        Extras { suggestions: Some(suggestions) }
    }
}

/// The crash point after the record of what a step came to.
const fn recorded(event: &Event) -> &'static str {
    match event {
        Event::StockHeld { .. } | Event::StockRefused(_) | Event::StockNotDispatched | Event::StockUnknown => {
            "order.stock_recorded"
        }
        Event::CouponHeld { .. } | Event::CouponPending | Event::CouponRefused(_) => "order.coupon_recorded",
        Event::ChargeIntended(_) => "order.charge_intended",
        Event::Fenced { .. } => "order.fence_recorded",
        _ => "order.outcome_recorded",
    }
}
