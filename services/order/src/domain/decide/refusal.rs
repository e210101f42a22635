//! How an event is refused that has no arm. Messages come twice, late and out of order; an ordinary duplicate must not
//! look like something that a person has to see.

use contracts::{
    event::CouponOutcome,
    order::{OrderCouponState, OrderPaymentState, OrderStatus},
};

use crate::domain::{Event, Order, Refusal};

pub(super) fn of(order: &Order, event: &Event) -> Refusal {
    use OrderCouponState as C;
    use OrderPaymentState as P;
    use OrderStatus as S;
    let ended = order.status.is_final();
    let dead = matches!(order.status, S::Rejected | S::Cancelled);
    let reserved = order.status != S::Created;
    let charged = matches!(order.payment.state, P::Approved | P::RefundDue | P::Refunded);
    let so = match event {
        Event::StockHeld { .. } => reserved && !dead,
        Event::StockRefused(_) | Event::StockNotDispatched | Event::StockUnknown | Event::Expired => dead,
        Event::CouponHeld { .. } => matches!(order.coupon.state, C::Held | C::Applied),
        Event::CouponPending => order.coupon.state == C::Pending,
        Event::CouponRefused(_) => order.coupon.state == C::Rejected,
        Event::ChargeIntended(attempt) => order.payment.attempt_id == Some(*attempt),
        Event::Approved { .. } => charged,
        // Of an attempt that is ours. What ended the order knew at least as much: only a proven charge can follow, and
        // it outranks what was said before it and arrives after it.
        Event::Declined { .. } | Event::Fenced { .. } => ended,
        Event::NotDispatched { .. } => true,
        Event::PaymentUnknown { .. } => order.status != S::PaymentInFlight,
        // The run that sent the charge has not been given up yet.
        Event::InReview { .. } if order.status == S::PaymentInFlight => return Refusal::NotYet,
        Event::InReview { .. } => true,
        Event::CancelRequested => order.cancel_requested || order.status == S::Cancelled,
        // Decided above, in every state.
        Event::Refunded { .. } => false,
        Event::CouponSettled(_) if order.coupon.code.is_none() => false,
        Event::CouponSettled(_) if !ended && order.coupon.state == C::Pending => return Refusal::NotYet,
        Event::CouponSettled(CouponOutcome::Refused { .. }) => dead || order.coupon.state == C::Rejected,
        Event::CouponSettled(CouponOutcome::Honoured { .. }) => {
            order.refund(crate::domain::RefundPurpose::Coupon).is_some()
                || (order.status == S::Confirmed && order.coupon.state == C::Applied)
        }
    };
    if so { Refusal::AlreadySo } else { Refusal::Never }
}
