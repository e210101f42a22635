//! What can still happen to an order that has ended: a charge that is proven late, refunds, and its coupon.

use contracts::{
    RefundId,
    event::CouponOutcome,
    order::{OrderCouponState, OrderPaymentState, OrderStatus},
};

use super::{Decided, accept, keep, paying::request_full_refund};
use crate::domain::{Effect, Event, KeyFate, Order, RefundPurpose, RefundReason, RefundState, Refusal, Transition};

pub(super) fn decide(order: &Order, event: &Event) -> Decided {
    match event {
        Event::Approved { channel, .. } if order.status != OrderStatus::Confirmed => {
            let mut next = order.clone();
            next.payment.channel = Some(*channel);
            late_approval(next)
        }
        Event::Refunded { refund, amount_minor } => Some(refunded(order.clone(), *refund, *amount_minor)),
        Event::CouponSettled(outcome) => coupon_settled(order, outcome),
        _ => None,
    }
}

/// Rejected, Cancelled → the same, with the charge to be paid back. A proven charge outranks every belief, a fence
/// included.
fn late_approval(next: Order) -> Decided {
    use OrderPaymentState as P;
    if matches!(next.payment.state, P::Approved | P::RefundDue | P::Refunded) {
        return None;
    }
    let mut transition = keep(next, None);
    request_full_refund(&mut transition, RefundReason::LateApproval);
    accept(transition)
}

/// Any → the same, with less refund due.
fn refunded(mut next: Order, id: RefundId, amount_minor: i64) -> Result<Transition, Refusal> {
    let refund = next.refunds.iter_mut().find(|refund| refund.id == id).ok_or(Refusal::Never)?;
    if refund.state == RefundState::Refunded {
        return Err(Refusal::AlreadySo);
    }
    // Somebody paid back another sum than was asked for.
    if refund.amount_minor != amount_minor {
        return Err(Refusal::Never);
    }
    refund.state = RefundState::Refunded;
    if refund.reason.purpose() == RefundPurpose::Coupon {
        next.coupon.state = OrderCouponState::Refunded;
    }
    // Bounded by the total, since no refund asks for more than is left of it.
    next.payment.refunded_minor += amount_minor;
    if next.payment.state == OrderPaymentState::RefundDue && !next.has_open_refund() {
        next.payment.state = OrderPaymentState::Refunded;
    }
    Ok(keep(next, Some(format!("{amount_minor}"))))
}

fn coupon_settled(order: &Order, outcome: &CouponOutcome) -> Decided {
    use OrderStatus as S;
    let mut next = order.clone();
    match (order.status, outcome) {
        // Confirmed → Confirmed, with the discount to be paid back
        (S::Confirmed, CouponOutcome::Honoured { discount_minor }) if order.awaits_compensation() => {
            // A discount that leaves nothing to pay breaks coupon's own promise.
            if !(0..order.price.total_minor).contains(discount_minor) {
                return Some(Err(Refusal::Never));
            }
            let detail = Some(discount_minor.to_string());
            if !next.request_refund(RefundReason::Coupon, *discount_minor) {
                next.coupon.state = OrderCouponState::Applied;
                return accept(keep(next, detail));
            }
            let effects = vec![Effect::RefundRequested(RefundPurpose::Coupon)];
            accept(Transition { order: next, effects, key: KeyFate::Keep, detail })
        }
        // Confirmed → Confirmed, without a discount; a person decides what the customer gets
        (S::Confirmed, CouponOutcome::Refused { reason }) if order.awaits_compensation() => {
            next.coupon.state = OrderCouponState::Rejected;
            accept(keep(next, Some(reason.clone())))
        }
        // Rejected, Cancelled → the same: the coupon was redeemed for an order that is dead, and is let go again
        (S::Rejected | S::Cancelled, CouponOutcome::Honoured { .. }) if order.coupon.code.is_some() => {
            let effect = if order.status == S::Rejected { Effect::Rejected } else { Effect::Cancelled };
            accept(Transition { order: next, effects: vec![effect], key: KeyFate::Keep, detail: None })
        }
        _ => None,
    }
}
