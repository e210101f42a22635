//! The only place where an order changes.
//!
//! An event that does not fit is refused in one of three ways, and changes nothing. The shell (`workflow/apply.rs`)
//! loads the order under its row lock, calls [`decide`], and saves the order, its history and the events that it
//! emits in one transaction.
//!
//! One file for each part of an order's life, in its order: [`placing`], [`paying`], and what comes [`after`] it ended;
//! [`cancelling`] can come at any time. [`refusal`] says of what is left how it is refused.

mod after;
mod cancelling;
mod paying;
mod placing;
mod refusal;
#[cfg(test)]
mod tests;

use chrono::{DateTime, Utc};
use contracts::{
    Problem,
    order::{OrderCouponState, OrderStatus, StatusReason},
};

use super::{Effect, Event, KeyFate, Order, RefundPurpose, Refusal, Transition};

/// The order after `event`, and what follows from it.
pub fn decide(order: &Order, event: &Event, now: DateTime<Utc>) -> Result<Transition, Refusal> {
    if let Some(attempt) = event.attempt() {
        match order.payment.attempt_id {
            None if order.status.is_final() => return Err(Refusal::Never),
            None => return Err(Refusal::NotYet),
            Some(own) if own != attempt => return Err(Refusal::Never),
            Some(_) => {}
        }
    }
    // A part of life that does not know the event hands it on.
    let decided = match event {
        Event::CancelRequested => cancelling::decide(order),
        Event::Refunded { .. } | Event::CouponSettled(_) => after::decide(order, event),
        _ => match order.status {
            OrderStatus::Created | OrderStatus::StockReserved => placing::decide(order, event),
            OrderStatus::PaymentInFlight | OrderStatus::PaymentPending => paying::decide(order, event),
            OrderStatus::Confirmed | OrderStatus::Rejected | OrderStatus::Cancelled => after::decide(order, event),
        },
    };
    let mut transition = decided.unwrap_or_else(|| Err(refusal::of(order, event)))?;
    transition.order.updated_at = now;
    Ok(transition)
}

/// What a part of life says to an event; `None`: it has no arm for it.
type Decided = Option<Result<Transition, Refusal>>;

fn accept(transition: Transition) -> Decided {
    Some(Ok(transition))
}

/// Nothing is told to others.
fn keep(order: Order, detail: Option<String>) -> Transition {
    Transition { order, effects: Vec::new(), key: KeyFate::Keep, detail }
}

fn reject(mut order: Order, reason: StatusReason, problem: Problem, key: KeyFate) -> Transition {
    order.status = OrderStatus::Rejected;
    order.reason = Some(reason);
    give_coupon_up(&mut order);
    let detail = Some(problem.detail.clone());
    order.problem = Some(problem.with_order(order.id));
    Transition { order, effects: vec![Effect::Rejected], key, detail }
}

/// The end of an order that its user took back and that was not charged.
fn cancel(mut order: Order) -> Transition {
    order.status = OrderStatus::Cancelled;
    order.reason = Some(StatusReason::UserCancelled);
    give_coupon_up(&mut order);
    Transition { order, effects: vec![Effect::Cancelled], key: KeyFate::Complete, detail: None }
}

/// A dead order takes no discount, but for one that is on its way back as money.
fn give_coupon_up(order: &mut Order) {
    use OrderCouponState as C;
    if matches!(order.coupon.state, C::Held | C::Applied | C::Pending) && order.refund(RefundPurpose::Coupon).is_none()
    {
        order.coupon.state = C::Rejected;
    }
}
