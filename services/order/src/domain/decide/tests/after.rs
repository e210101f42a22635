use contracts::{
    AttemptId, OrderId, RefundId,
    event::CouponOutcome,
    order::{OrderCouponState, OrderPaymentState, OrderStatus},
};

use crate::domain::{
    Effect, Event, KeyFate, Order, RefundPurpose, RefundReason, Refusal, decide,
    sample::{
        after, approved, confirmed, confirmed_with_pending_coupon, declined, held, in_flight, now, pending, submitted,
    },
};

const FULL: Effect = Effect::RefundRequested(RefundPurpose::Full);

fn honoured(discount_minor: i64) -> Event {
    Event::CouponSettled(CouponOutcome::Honoured { discount_minor })
}

fn refused() -> Event {
    Event::CouponSettled(CouponOutcome::Refused { reason: "exhausted".into() })
}

/// As payment tells it.
fn refunded(order: &Order, purpose: RefundPurpose) -> Event {
    let refund = order.refund(purpose).unwrap();
    Event::Refunded { refund: refund.id, amount_minor: refund.amount_minor }
}

// Trace 1: the request that was given up reaches the provider after all.
#[test]
fn a_charge_that_is_proven_after_the_order_died_is_paid_back() {
    let attempt = AttemptId::generate();
    let dead = [
        after(pending(attempt), &[Event::Fenced { attempt }]).order,
        after(pending(attempt), &[declined(attempt)]).order,
        after(pending(attempt), &[Event::CancelRequested, Event::Fenced { attempt }]).order,
    ];
    for order in dead {
        let (status, reason) = (order.status, order.reason);
        let late = after(order, &[approved(attempt)]);
        assert_eq!((late.order.status, late.order.reason), (status, reason));
        assert_eq!((late.effects, late.key), (vec![FULL], KeyFate::Keep));
        assert_eq!(late.order.payment.state, OrderPaymentState::RefundDue);
        assert_eq!(late.order.refund(RefundPurpose::Full).unwrap().reason, RefundReason::LateApproval);
        assert_eq!(decide(&late.order, &approved(attempt), now()), Err(Refusal::AlreadySo));

        let paid = after(late.order.clone(), &[refunded(&late.order, RefundPurpose::Full)]).order;
        assert_eq!((paid.status, paid.payment.state), (status, OrderPaymentState::Refunded));
        assert_eq!(paid.payment.refunded_minor, 1_000);
        assert_eq!(decide(&paid, &approved(attempt), now()), Err(Refusal::AlreadySo));
    }
}

#[test]
fn a_refund_is_counted_once_and_only_as_it_was_asked_for() {
    let attempt = AttemptId::generate();
    let due = after(confirmed(attempt), &[Event::CancelRequested]).order;
    let told = refunded(&due, RefundPurpose::Full);
    let paid = after(due.clone(), std::slice::from_ref(&told)).order;
    assert_eq!(decide(&paid, &told, now()), Err(Refusal::AlreadySo));
    let foreign = RefundId::derive(OrderId::generate(), "full");
    assert_eq!(decide(&due, &Event::Refunded { refund: foreign, amount_minor: 1_000 }, now()), Err(Refusal::Never));
    let refund = due.refund(RefundPurpose::Full).unwrap().id;
    assert_eq!(decide(&due, &Event::Refunded { refund, amount_minor: 999 }, now()), Err(Refusal::Never));
}

#[test]
fn an_honoured_coupon_is_paid_out_once_and_the_order_says_so_when_it_is() {
    let order = confirmed_with_pending_coupon(AttemptId::generate());
    let due = after(order, &[honoured(100)]);
    assert_eq!(due.effects, [Effect::RefundRequested(RefundPurpose::Coupon)]);
    assert_eq!(due.order.refund(RefundPurpose::Coupon).unwrap().amount_minor, 100);
    assert_eq!(decide(&due.order, &honoured(100), now()), Err(Refusal::AlreadySo));
    let paid = after(due.order.clone(), &[refunded(&due.order, RefundPurpose::Coupon)]).order;
    assert_eq!((paid.coupon.state, paid.payment.refunded_minor), (OrderCouponState::Refunded, 100));
    // Paid, less a part: nothing else is due.
    assert_eq!((paid.status, paid.payment.state), (OrderStatus::Confirmed, OrderPaymentState::Approved));
    assert_eq!(decide(&paid, &honoured(100), now()), Err(Refusal::AlreadySo));
}

#[test]
fn a_coupon_that_takes_nothing_off_asks_for_no_refund() {
    let end = after(confirmed_with_pending_coupon(AttemptId::generate()), &[honoured(0)]);
    assert_eq!((end.effects, end.order.coupon.state), (vec![], OrderCouponState::Applied));
    assert_eq!(decide(&end.order, &honoured(0), now()), Err(Refusal::AlreadySo));
}

#[test]
fn a_coupon_that_cannot_be_honoured_is_rejected_and_left_to_a_person() {
    let end = after(confirmed_with_pending_coupon(AttemptId::generate()), &[refused()]);
    assert_eq!((end.effects, end.order.coupon.state), (vec![], OrderCouponState::Rejected));
    assert_eq!(decide(&end.order, &refused(), now()), Err(Refusal::AlreadySo));
    assert_eq!(decide(&end.order, &honoured(100), now()), Err(Refusal::Never));
}

#[test]
fn a_discount_as_high_as_the_total_is_never_paid_out() {
    let order = confirmed_with_pending_coupon(AttemptId::generate());
    for discount in [-1, 1_000, i64::MAX] {
        assert_eq!(decide(&order, &honoured(discount), now()), Err(Refusal::Never));
    }
}

// Trace 21: two of ten are paid back for the coupon, and then the order is cancelled.
#[test]
fn a_full_refund_is_the_charge_less_what_was_asked_for_before() {
    for told_before_the_cancel in [true, false] {
        let mut order = after(confirmed_with_pending_coupon(AttemptId::generate()), &[honoured(200)]).order;
        let coupon = refunded(&order, RefundPurpose::Coupon);
        if told_before_the_cancel {
            order = after(order, std::slice::from_ref(&coupon)).order;
        }
        let cancelled = after(order, &[Event::CancelRequested]).order;
        assert_eq!(cancelled.refund(RefundPurpose::Full).unwrap().amount_minor, 800);
        let mut paid = after(cancelled.clone(), &[refunded(&cancelled, RefundPurpose::Full)]).order;
        if !told_before_the_cancel {
            assert_eq!(paid.payment.state, OrderPaymentState::RefundDue);
            paid = after(paid, &[coupon]).order;
        }
        assert_eq!((paid.payment.state, paid.payment.refunded_minor), (OrderPaymentState::Refunded, 1_000));
        assert_eq!(paid.coupon.state, OrderCouponState::Refunded);
    }
}

// The coupon was redeemed for an order that its user took back meanwhile.
#[test]
fn a_coupon_that_is_settled_for_a_dead_order_is_released_and_not_paid_out() {
    let order = confirmed_with_pending_coupon(AttemptId::generate());
    let cancelled = after(order, &[Event::CancelRequested]);
    assert_eq!(cancelled.effects, [Effect::Cancelled, FULL]);
    let settled = after(cancelled.order, &[honoured(100)]);
    assert_eq!(settled.effects, [Effect::Cancelled]);
    assert!(settled.order.refund(RefundPurpose::Coupon).is_none());
    assert_eq!(decide(&settled.order, &refused(), now()), Err(Refusal::AlreadySo));

    let attempt = AttemptId::generate();
    let events = [held(), Event::CouponPending, Event::ChargeIntended(attempt), declined(attempt), honoured(100)];
    assert_eq!(after(submitted(Some("WELCOME10")), &events).effects, [Effect::Rejected]);
}

#[test]
fn a_settled_coupon_is_refused_by_an_order_that_waits_for_its_payment_or_has_none() {
    let attempt = AttemptId::generate();
    let events = [held(), Event::CouponPending, Event::ChargeIntended(attempt)];
    let order = after(submitted(Some("WELCOME10")), &events).order;
    assert_eq!(decide(&order, &honoured(100), now()), Err(Refusal::NotYet));
    assert_eq!(decide(&in_flight(attempt), &honoured(100), now()), Err(Refusal::Never));
}
