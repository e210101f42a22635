//! From the intent to charge to the outcome: a charge may be under way.
//!
//! The key is given back in the two places alone where the request certainly had no effect: it never left this process,
//! or payment refused it and then fenced the attempt. Everything else that ends here may have been charged.

use contracts::{
    Problem, ProblemType,
    order::{OrderCouponState, OrderPaymentState, OrderStatus, StatusReason},
    payment::Channel,
};

use super::{Decided, accept, cancel, keep, reject};
use crate::domain::{Effect, Event, KeyFate, Order, RefundPurpose, RefundReason, Transition};

pub(super) fn decide(order: &Order, event: &Event) -> Decided {
    use OrderPaymentState as P;
    use OrderStatus as S;
    let mut next = order.clone();
    match (order.status, event) {
        // PaymentInFlight, PaymentPending → Cancelled, with the charge to be paid back
        (_, Event::Approved { channel, .. }) if order.cancel_requested => {
            accept(charged_but_cancelled(approve(next, *channel)))
        }
        // PaymentInFlight, PaymentPending → Confirmed
        (_, Event::Approved { channel, .. }) => accept(confirm(approve(next, *channel))),
        // PaymentInFlight, PaymentPending → Rejected | Cancelled
        (_, Event::Declined { channel, code, .. }) => {
            next.payment.state = P::Declined;
            next.payment.channel = Some(*channel);
            let problem = Problem::new(ProblemType::PaymentDeclined, format!("the provider declined: {code}"))
                .with("decline_code", code.as_str());
            accept(uncharged(next, StatusReason::PaymentDeclined, problem, KeyFate::Complete))
        }
        // PaymentInFlight → Cancelled | Rejected: nothing left this process, so there is nothing to fence
        //                 → Cancelled: payment never sends a refused attempt but for a deferral, and that was not asked
        (S::PaymentInFlight, Event::NotDispatched { left, reason, .. })
            if order.cancel_requested || (!left && !defers(order, event)) =>
        {
            next.payment.state = P::NotDispatched;
            let problem = unavailable(reason);
            accept(uncharged(next, StatusReason::PaymentUnavailable, problem, KeyFate::Release))
        }
        // PaymentInFlight → PaymentPending, until payment can send the charge
        (S::PaymentInFlight, Event::NotDispatched { reason, .. })
            if order.payment.state == P::InFlight && defers(order, event) =>
        {
            next.status = S::PaymentPending;
            next.payment.state = P::Deferred;
            next.degraded.push("payment".to_owned());
            let (effects, detail) = (vec![Effect::PaymentDeferred], Some(reason.clone()));
            accept(Transition { order: next, effects, key: KeyFate::Complete, detail })
        }
        // PaymentInFlight → PaymentInFlight, until payment has fenced the attempt: a copy of the request that was
        // refused could otherwise be let through later
        (S::PaymentInFlight, Event::NotDispatched { reason, .. }) if order.payment.state == P::InFlight => {
            next.payment.state = P::NotDispatched;
            accept(keep(next, Some(reason.clone())))
        }
        // PaymentInFlight → Rejected | Cancelled: refused, then fenced; no charge was sent and none will be
        (S::PaymentInFlight, Event::Fenced { .. }) if order.payment.state == P::NotDispatched => {
            next.payment.state = P::Fenced;
            accept(uncharged(next, StatusReason::PaymentUnavailable, unavailable("fenced"), KeyFate::Release))
        }
        // PaymentInFlight, PaymentPending → Rejected | Cancelled: fenced by somebody else, and a request may have left
        // before that, so the key stays
        (_, Event::Fenced { .. }) => {
            let reason = match order.payment.state {
                P::Deferred => StatusReason::PaymentUnavailable,
                _ => StatusReason::PaymentNotFound,
            };
            next.payment.state = P::Fenced;
            let kind = ProblemType::PaymentUnavailable;
            let problem = Problem { retryable: false, retry_after_ms: None, ..Problem::new(kind, kind.title()) };
            accept(uncharged(next, reason, problem, KeyFate::Complete))
        }
        // PaymentInFlight → PaymentPending
        (S::PaymentInFlight, Event::PaymentUnknown { .. }) => {
            next.status = S::PaymentPending;
            next.payment.state = P::Unknown;
            let effects = vec![Effect::PaymentUnknown];
            accept(Transition { order: next, effects, key: KeyFate::Complete, detail: None })
        }
        // PaymentPending → PaymentPending: payment has sent what was deferred, and looks after it
        (S::PaymentPending, Event::PaymentUnknown { .. }) if order.payment.state == P::Deferred => {
            next.payment.state = P::Unknown;
            accept(keep(next, None))
        }
        // PaymentPending → PaymentPending, for a person to look at
        (S::PaymentPending, Event::InReview { .. }) if order.payment.state != P::Review => {
            next.payment.state = P::Review;
            accept(keep(next, None))
        }
        _ => None,
    }
}

/// Whether the charge of this order may wait.
fn defers(order: &Order, event: &Event) -> bool {
    let Event::NotDispatched { defer_up_to: Some(most), .. } = event else { return false };
    order.price.total_minor <= *most
}

fn approve(mut order: Order, channel: Channel) -> Order {
    order.payment.state = OrderPaymentState::Approved;
    order.payment.channel = Some(channel);
    order
}

fn confirm(mut order: Order) -> Transition {
    order.status = OrderStatus::Confirmed;
    let mut effects = vec![Effect::Confirmed];
    match order.coupon.state {
        OrderCouponState::Held => order.coupon.state = OrderCouponState::Applied,
        OrderCouponState::Pending => effects.push(Effect::CompensateCoupon),
        _ => {}
    }
    Transition { order, effects, key: KeyFate::Complete, detail: None }
}

/// How an order ends of which it is known that it was not charged.
fn uncharged(order: Order, reason: StatusReason, problem: Problem, key: KeyFate) -> Transition {
    if order.cancel_requested { cancel(order) } else { reject(order, reason, problem, key) }
}

/// The end of an order that was charged and is not wanted.
pub(super) fn charged_but_cancelled(order: Order) -> Transition {
    let mut transition = cancel(order);
    request_full_refund(&mut transition, RefundReason::Cancelled);
    transition
}

/// The charge less the refunds that were asked for before: computed here, under the order's lock.
pub(super) fn request_full_refund(transition: &mut Transition, reason: RefundReason) {
    let order = &mut transition.order;
    if order.request_refund(reason, order.price.total_minor) {
        transition.effects.push(Effect::RefundRequested(RefundPurpose::Full));
    }
    order.payment.state =
        if order.has_open_refund() { OrderPaymentState::RefundDue } else { OrderPaymentState::Refunded };
}

fn unavailable(reason: &str) -> Problem {
    let detail = format!("the charge did not reach the provider ({reason}); nothing was charged");
    Problem::new(ProblemType::PaymentUnavailable, detail).with_mechanism(mechanism(reason))
}

/// Our guard towards payment that kept the charge from leaving; anything else is payment's word.
fn mechanism(reason: &str) -> String {
    let guard = match reason {
        "breaker_open" => "breaker",
        "bulkhead_full" => "bulkhead",
        "rate_limited" => "rate_limit",
        "connect_failed" => "connect",
        other => return format!("payment.{other}"),
    };
    format!("{guard}.payment")
}
