use contracts::{
    AttemptId,
    order::{OrderCouponState, OrderPaymentState, OrderStatus, StatusReason},
};

use crate::domain::{
    Effect, Event, KeyFate, Order, RefundPurpose, RefundReason, Refusal, decide,
    sample::{
        after, approved, confirmed, declined, deferrable, deferred, held, in_flight, not_dispatched, now, pending,
        submitted,
    },
};

const FULL: Effect = Effect::RefundRequested(RefundPurpose::Full);

#[test]
fn an_order_that_was_not_charged_is_cancelled_at_once_and_lets_everything_go() {
    let with_coupon = [held(), Event::CouponHeld { discount_minor: 100 }];
    let orders = [
        submitted(None),
        after(submitted(None), &[held()]).order,
        after(submitted(Some("WELCOME10")), &with_coupon).order,
    ];
    for order in orders {
        let end = after(order, &[Event::CancelRequested]);
        assert_eq!((end.order.status, end.effects), (OrderStatus::Cancelled, vec![Effect::Cancelled]));
        assert_eq!((end.order.reason, end.key), (Some(StatusReason::UserCancelled), KeyFate::Complete));
        assert!(matches!(end.order.coupon.state, OrderCouponState::None | OrderCouponState::Rejected));
    }
}

// Trace 18: the user's wish outlives a fence that says "unknown".
#[test]
fn the_wish_to_cancel_is_kept_until_it_is_known_whether_the_order_was_charged() {
    let attempt = AttemptId::generate();
    for order in [in_flight(attempt), pending(attempt), deferred(attempt)] {
        let status = order.status;
        let waiting = after(order, &[Event::CancelRequested]);
        assert_eq!((waiting.order.status, waiting.key), (status, KeyFate::Keep));
        assert!(waiting.order.cancel_requested);
        assert_eq!(waiting.effects, []);
        assert_eq!(decide(&waiting.order, &Event::CancelRequested, now()), Err(Refusal::AlreadySo));

        let charged = after(waiting.order.clone(), &[approved(attempt)]);
        assert_eq!((charged.order.status, charged.effects), (OrderStatus::Cancelled, vec![Effect::Cancelled, FULL]));
        assert_eq!(charged.order.payment.state, OrderPaymentState::RefundDue);
        let refund = charged.order.refund(RefundPurpose::Full).unwrap();
        assert_eq!((refund.amount_minor, refund.reason), (1_000, RefundReason::Cancelled));

        for event in [declined(attempt), Event::Fenced { attempt }] {
            let end = after(waiting.order.clone(), std::slice::from_ref(&event));
            assert_eq!((end.order.status, end.effects), (OrderStatus::Cancelled, vec![Effect::Cancelled]));
            assert_eq!((end.order.reason, end.key), (Some(StatusReason::UserCancelled), KeyFate::Complete));
        }
    }
}

#[test]
fn an_unsent_charge_of_an_order_to_be_cancelled_cancels_it_and_is_not_deferred() {
    let attempt = AttemptId::generate();
    let wanted_back = after(in_flight(attempt), &[Event::CancelRequested]).order;
    for event in [not_dispatched(attempt, true), not_dispatched(attempt, false), deferrable(attempt, true, 1_000)] {
        let end = after(wanted_back.clone(), &[event]);
        assert_eq!((end.order.status, end.effects), (OrderStatus::Cancelled, vec![Effect::Cancelled]));
    }
}

#[test]
fn the_wish_to_cancel_survives_a_crash_of_the_run() {
    let attempt = AttemptId::generate();
    let events = [Event::CancelRequested, Event::PaymentUnknown { attempt }, Event::InReview { attempt }];
    let order = after(in_flight(attempt), &events).order;
    assert_eq!(after(order, &[approved(attempt)]).order.status, OrderStatus::Cancelled);
}

#[test]
fn a_confirmed_order_is_paid_back_and_returned() {
    let attempt = AttemptId::generate();
    let end = after(confirmed(attempt), &[Event::CancelRequested]);
    assert_eq!((end.order.status, end.effects), (OrderStatus::Cancelled, vec![Effect::Cancelled, FULL]));
    assert_eq!((end.order.payment.state, end.key), (OrderPaymentState::RefundDue, KeyFate::Complete));
    assert_eq!(decide(&end.order, &Event::CancelRequested, now()), Err(Refusal::AlreadySo));
}

#[test]
fn a_rejected_order_cannot_be_cancelled() {
    let attempt = AttemptId::generate();
    let rejected: Order = after(pending(attempt), &[Event::Fenced { attempt }]).order;
    assert_eq!(decide(&rejected, &Event::CancelRequested, now()), Err(Refusal::Never));
}
