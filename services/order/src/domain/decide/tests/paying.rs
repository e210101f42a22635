use contracts::{
    AttemptId, ProblemType,
    order::{OrderPaymentState, OrderStatus, StatusReason},
};

use crate::domain::{
    Effect, Event, KeyFate, Refusal, decide,
    sample::{
        after, approved, confirmed, declined, deferrable, deferred, held, in_flight, not_dispatched, now, pending,
        submitted,
    },
};

#[test]
fn an_approval_confirms_an_order_in_flight_and_a_pending_one() {
    let attempt = AttemptId::generate();
    for order in [in_flight(attempt), pending(attempt), deferred(attempt)] {
        let end = after(order, &[approved(attempt)]);
        assert_eq!((end.order.status, end.order.payment.state), (OrderStatus::Confirmed, OrderPaymentState::Approved));
        assert_eq!((end.effects, end.key), (vec![Effect::Confirmed], KeyFate::Complete));
    }
}

// Trace 22: compensation that settles while the payment is pending gives its discount to nobody.
#[test]
fn compensation_begins_with_the_confirmation() {
    let attempt = AttemptId::generate();
    let events = [held(), Event::CouponPending, Event::ChargeIntended(attempt)];
    let order = after(submitted(Some("WELCOME10")), &events).order;
    let waiting = after(order.clone(), &[Event::PaymentUnknown { attempt }]);
    assert_eq!(waiting.effects, [Effect::PaymentUnknown]);
    for order in [order, waiting.order] {
        let end = after(order, &[approved(attempt)]);
        assert_eq!(end.effects, [Effect::Confirmed, Effect::CompensateCoupon]);
    }
}

#[test]
fn a_decline_rejects_and_keeps_the_key() {
    let attempt = AttemptId::generate();
    for order in [in_flight(attempt), pending(attempt), deferred(attempt)] {
        let end = after(order, &[declined(attempt)]);
        assert_eq!(end.order.reason, Some(StatusReason::PaymentDeclined));
        assert_eq!((end.effects, end.key), (vec![Effect::Rejected], KeyFate::Complete));
        assert_eq!(end.order.problem.unwrap().extra["decline_code"], "stolen_card");
    }
}

#[test]
fn what_never_left_this_process_and_may_not_wait_rejects_at_once_and_frees_the_key() {
    let attempt = AttemptId::generate();
    let end = after(in_flight(attempt), &[not_dispatched(attempt, false)]);
    assert_eq!((end.order.status, end.key), (OrderStatus::Rejected, KeyFate::Release));
    assert_eq!(end.order.problem.unwrap().kind, ProblemType::PaymentUnavailable);
}

// Trace 9: a duplicate of the refused request may still arrive at payment and be let through there.
#[test]
fn what_payment_refused_is_fenced_before_the_order_is_rejected() {
    let attempt = AttemptId::generate();
    let waiting = after(in_flight(attempt), &[not_dispatched(attempt, true)]);
    assert_eq!((waiting.order.status, waiting.key), (OrderStatus::PaymentInFlight, KeyFate::Keep));
    assert_eq!(waiting.effects, []);
    let end = after(waiting.order.clone(), &[Event::Fenced { attempt }]);
    assert_eq!((end.order.status, end.key), (OrderStatus::Rejected, KeyFate::Release));
    assert_eq!(end.order.reason, Some(StatusReason::PaymentUnavailable));
    // Without an answer from the fence nothing is known.
    let unknown = after(waiting.order, &[Event::PaymentUnknown { attempt }]);
    assert_eq!((unknown.order.status, unknown.key), (OrderStatus::PaymentPending, KeyFate::Complete));
}

// Trace 7: a fence after a dispatch proves nothing about the charge that was dispatched.
#[test]
fn a_fence_after_a_dispatch_does_not_free_the_key() {
    let attempt = AttemptId::generate();
    for order in [in_flight(attempt), pending(attempt)] {
        let end = after(order, &[Event::Fenced { attempt }]);
        assert_eq!((end.order.status, end.key), (OrderStatus::Rejected, KeyFate::Complete));
        assert_eq!(end.order.reason, Some(StatusReason::PaymentNotFound));
        assert!(!end.order.problem.unwrap().retryable);
    }
}

// Trace 6: once a charge is intended, running out of time is no refusal.
#[test]
fn time_cannot_run_out_once_a_charge_is_intended() {
    let attempt = AttemptId::generate();
    assert_eq!(decide(&in_flight(attempt), &Event::Expired, now()), Err(Refusal::Never));
    let unknown = after(in_flight(attempt), &[Event::PaymentUnknown { attempt }]);
    assert_eq!((unknown.order.status, unknown.effects), (OrderStatus::PaymentPending, vec![Effect::PaymentUnknown]));
}

#[test]
fn a_small_order_waits_for_its_charge_wherever_the_request_was_refused() {
    let attempt = AttemptId::generate();
    for left in [true, false] {
        let end = after(in_flight(attempt), &[deferrable(attempt, left, 1_000)]);
        assert_eq!(end.order.status, OrderStatus::PaymentPending);
        assert_eq!(
            (end.order.payment.state, end.order.degraded),
            (OrderPaymentState::Deferred, vec!["payment".into()])
        );
        assert_eq!((end.effects, end.key), (vec![Effect::PaymentDeferred], KeyFate::Complete));
    }
}

#[test]
fn an_order_above_the_limit_does_not_wait() {
    let attempt = AttemptId::generate();
    let refused = after(in_flight(attempt), &[deferrable(attempt, true, 999)]);
    assert_eq!(refused.order.status, OrderStatus::PaymentInFlight);
    assert_eq!(after(refused.order, &[Event::Fenced { attempt }]).order.status, OrderStatus::Rejected);
    let unsent = after(in_flight(attempt), &[deferrable(attempt, false, 999)]);
    assert_eq!((unsent.order.status, unsent.key), (OrderStatus::Rejected, KeyFate::Release));
}

// The fence has been asked for: what it says decides, not a limit that was raised meanwhile.
#[test]
fn an_order_that_is_being_fenced_is_not_deferred_after_all() {
    let attempt = AttemptId::generate();
    let waiting = after(in_flight(attempt), &[not_dispatched(attempt, true)]).order;
    assert_eq!(decide(&waiting, &deferrable(attempt, true, 1_000), now()), Err(Refusal::AlreadySo));
}

// Trace 3: an order that waits for its charge would otherwise hold its stock for ever.
#[test]
fn a_deferred_order_ends_by_a_fence() {
    let attempt = AttemptId::generate();
    let end = after(deferred(attempt), &[Event::Fenced { attempt }]);
    assert_eq!((end.order.status, end.effects), (OrderStatus::Rejected, vec![Effect::Rejected]));
    assert_eq!((end.order.reason, end.key), (Some(StatusReason::PaymentUnavailable), KeyFate::Complete));
}

#[test]
fn a_deferred_charge_that_was_sent_is_unknown_until_it_is_settled() {
    let attempt = AttemptId::generate();
    let sent = after(deferred(attempt), &[Event::PaymentUnknown { attempt }]);
    assert_eq!(sent.order.payment.state, OrderPaymentState::Unknown);
    assert_eq!((sent.order.status, sent.effects), (OrderStatus::PaymentPending, vec![]));
}

#[test]
fn a_review_is_shown_and_still_settled() {
    let attempt = AttemptId::generate();
    let review = after(pending(attempt), &[Event::InReview { attempt }]).order;
    assert_eq!((review.status, review.payment.state), (OrderStatus::PaymentPending, OrderPaymentState::Review));
    assert_eq!(decide(&review, &Event::InReview { attempt }, now()), Err(Refusal::AlreadySo));
    assert_eq!(after(review, &[approved(attempt)]).order.status, OrderStatus::Confirmed);
    assert_eq!(decide(&in_flight(attempt), &Event::InReview { attempt }, now()), Err(Refusal::NotYet));
}

// Trace 27: an ordinary duplicate is not a dead letter.
#[test]
fn refusals_tell_a_duplicate_from_something_early_and_from_something_wrong() {
    let attempt = AttemptId::generate();
    let order = confirmed(attempt);
    assert_eq!(decide(&order, &approved(attempt), now()), Err(Refusal::AlreadySo));
    assert_eq!(decide(&order, &Event::PaymentUnknown { attempt }, now()), Err(Refusal::AlreadySo));
    assert_eq!(decide(&pending(attempt), &not_dispatched(attempt, true), now()), Err(Refusal::AlreadySo));
    assert_eq!(decide(&submitted(None), &approved(attempt), now()), Err(Refusal::NotYet));
    assert_eq!(decide(&in_flight(attempt), &approved(AttemptId::generate()), now()), Err(Refusal::Never));
}

// A call may tell of the charge before the message of what came before it arrives.
#[test]
fn what_a_proven_charge_has_outranked_is_dropped_when_it_arrives_after_it() {
    let attempt = AttemptId::generate();
    for stale in [Event::Fenced { attempt }, declined(attempt), Event::InReview { attempt }] {
        assert_eq!(decide(&confirmed(attempt), &stale, now()), Err(Refusal::AlreadySo), "{}", stale.name());
    }
}
