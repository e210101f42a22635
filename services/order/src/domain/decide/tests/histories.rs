use contracts::{
    AttemptId, Problem, ProblemType,
    event::CouponOutcome,
    order::{OrderCouponState, OrderPaymentState, OrderStatus},
};
use proptest::prelude::*;

use crate::domain::{
    Acknowledged, Effect, Event, KeyFate, Order, RefundPurpose, RefundState, decide, outstanding,
    sample::{approved, declined, deferrable, held, not_dispatched, now, submitted},
};

/// An event, or a word from payment about whichever refund the order has asked for.
#[derive(Debug, Clone)]
enum Step {
    Event(Event),
    Refunded(usize),
}

fn any_step(attempt: AttemptId, other: AttemptId) -> impl Strategy<Value = Step> {
    let ids = prop_oneof![9 => Just(attempt), 1 => Just(other)];
    let problem = |kind| Box::new(Problem::new(kind, "x"));
    let placing = prop_oneof![
        Just(held()),
        Just(Event::StockRefused(problem(ProblemType::OutOfStock))),
        Just(Event::StockNotDispatched),
        Just(Event::StockUnknown),
        (0i64..1_200).prop_map(|discount_minor| Event::CouponHeld { discount_minor }),
        Just(Event::CouponPending),
        Just(Event::CouponRefused(problem(ProblemType::CouponExpired))),
        Just(Event::Expired),
        ids.clone().prop_map(Event::ChargeIntended),
    ];
    let paying = prop_oneof![
        ids.clone().prop_map(approved),
        ids.clone().prop_map(declined),
        (ids.clone(), any::<bool>()).prop_map(|(attempt, left)| not_dispatched(attempt, left)),
        (ids.clone(), any::<bool>()).prop_map(|(attempt, left)| deferrable(attempt, left, 1_000)),
        ids.clone().prop_map(|attempt| Event::PaymentUnknown { attempt }),
        ids.clone().prop_map(|attempt| Event::InReview { attempt }),
        ids.prop_map(|attempt| Event::Fenced { attempt }),
    ];
    let after = prop_oneof![
        Just(Event::CancelRequested),
        (0i64..1_200).prop_map(|discount_minor| Event::CouponSettled(CouponOutcome::Honoured { discount_minor })),
        Just(Event::CouponSettled(CouponOutcome::Refused { reason: "x".into() })),
    ];
    prop_oneof![
        3 => placing.prop_map(Step::Event),
        5 => paying.prop_map(Step::Event),
        3 => after.prop_map(Step::Event),
        2 => (0usize..2).prop_map(Step::Refunded),
    ]
}

fn histories() -> impl Strategy<Value = (Option<&'static str>, Vec<Step>)> {
    let (attempt, other) = (AttemptId::generate(), AttemptId::generate());
    let coupon = prop_oneof![Just(None), Just(Some("WELCOME10"))];
    // A start that gets somewhere, then anything.
    let start = prop_oneof![
        Just(vec![]),
        Just(vec![held()]),
        Just(vec![held(), Event::CouponPending, Event::ChargeIntended(attempt)]),
        Just(vec![held(), Event::CouponPending, Event::ChargeIntended(attempt), approved(attempt)]),
        Just(vec![held(), Event::ChargeIntended(attempt)]),
        Just(vec![held(), Event::ChargeIntended(attempt), Event::PaymentUnknown { attempt }]),
    ];
    (coupon, start, prop::collection::vec(any_step(attempt, other), 0..25))
        .prop_map(|(coupon, start, rest)| (coupon, start.into_iter().map(Step::Event).chain(rest).collect()))
}

/// The event of a step, if the order has such a refund.
fn event(order: &Order, step: Step) -> Option<Event> {
    match step {
        Step::Event(event) => Some(event),
        Step::Refunded(nth) => {
            order.refunds.get(nth).map(|r| Event::Refunded { refund: r.id, amount_minor: r.amount_minor })
        }
    }
}

/// What holds of every order that can come about.
fn sound(order: &Order) -> Result<(), TestCaseError> {
    use OrderPaymentState as P;
    use OrderStatus as S;
    let price = order.price;
    prop_assert_eq!(price.total_minor, price.subtotal_minor - price.discount_minor);
    prop_assert!(price.discount_minor >= 0 && price.total_minor >= 0);
    prop_assert_eq!(matches!(order.status, S::Rejected | S::Cancelled), order.reason.is_some());
    // What goes back is never more than was charged, and for a dead order all of it.
    prop_assert!(order.refunds.iter().all(|refund| refund.amount_minor > 0));
    prop_assert!(order.refunds_requested_minor() <= price.total_minor);
    let made = order.refunds.iter().filter(|r| r.state == RefundState::Refunded).map(|r| r.amount_minor);
    prop_assert_eq!(order.payment.refunded_minor, made.sum::<i64>());
    match order.payment.state {
        P::RefundDue => prop_assert!(order.has_open_refund()),
        P::Refunded => prop_assert_eq!(order.payment.refunded_minor, price.total_minor),
        P::Approved => prop_assert_eq!(order.status, S::Confirmed),
        _ => prop_assert!(order.refunds.is_empty()),
    }
    if matches!(order.payment.state, P::RefundDue | P::Refunded) {
        prop_assert_eq!(order.refunds_requested_minor(), price.total_minor);
        prop_assert!(matches!(order.status, S::Rejected | S::Cancelled));
    }
    prop_assert_eq!(order.status == S::Confirmed, order.payment.state == P::Approved);
    if order.refund(RefundPurpose::Coupon).is_some() {
        prop_assert!(matches!(order.coupon.state, OrderCouponState::Pending | OrderCouponState::Refunded));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn whatever_happens_an_order_keeps_its_books((coupon, steps) in histories()) {
        let mut order = submitted(coupon);
        let (mut confirmed, mut ended, mut released) = (0, 0, false);
        for step in steps {
            let Some(event) = event(&order, step) else { continue };
            let Ok(next) = decide(&order, &event, now()) else { continue };
            let died = !next.order.status.is_final() || next.order.status == OrderStatus::Confirmed;
            confirmed += usize::from(next.effects.contains(&Effect::Confirmed));
            if next.order.status != order.status && !died {
                ended += 1;
                // Every dead order releases, whatever it believes.
                prop_assert!(next.effects.iter().any(|e| matches!(e, Effect::Rejected | Effect::Cancelled)));
            }
            if order.status.is_final() {
                let cancelled = next.order.status == OrderStatus::Cancelled;
                prop_assert!(next.order.status == order.status || (cancelled && event == Event::CancelRequested));
                prop_assert_eq!(next.order.problem.is_some(), order.problem.is_some());
            }
            if next.key == KeyFate::Release {
                released = true;
                // No charge can have been sent: there was no attempt, or it is known not to have been dispatched.
                prop_assert!(matches!(next.order.payment.state,
                    OrderPaymentState::None | OrderPaymentState::NotDispatched | OrderPaymentState::Fenced));
                prop_assert_ne!(order.status, OrderStatus::PaymentPending);
            }
            // Each refund that is asked for is told of, and each that is told of has its record.
            for purpose in [RefundPurpose::Full, RefundPurpose::Coupon] {
                let asked = order.refund(purpose).is_none() && next.order.refund(purpose).is_some();
                prop_assert_eq!(asked, next.effects.contains(&Effect::RefundRequested(purpose)));
            }
            if next.effects.contains(&Effect::CompensateCoupon) {
                prop_assert_eq!(next.order.status, OrderStatus::Confirmed);
            }
            if order.payment.attempt_id.is_some() {
                prop_assert_eq!(order.payment.attempt_id, next.order.payment.attempt_id);
                prop_assert_eq!(order.price, next.order.price);
            }
            prop_assert!(next.order.cancel_requested || !order.cancel_requested);
            order = next.order;
            sound(&order)?;
        }
        prop_assert!(confirmed <= 1 && ended <= 1);
        if order.cancel_requested {
            prop_assert_ne!(order.status, OrderStatus::Confirmed);
            prop_assert_ne!(order.status, OrderStatus::Rejected);
        }
        prop_assert!(!released || order.status == OrderStatus::Rejected);
    }

    #[test]
    fn an_event_that_took_effect_takes_none_when_it_comes_again((coupon, steps) in histories()) {
        let mut order = submitted(coupon);
        for step in steps {
            let Some(event) = event(&order, step) else { continue };
            let Ok(next) = decide(&order, &event, now()) else { continue };
            if let Ok(again) = decide(&next.order, &event, now()) {
                // But for a release, which may be said as often as one likes, and a wish that has become possible.
                prop_assert!(again.order == next.order || event == Event::CancelRequested, "{}", event.name());
                prop_assert!(again.effects.iter().all(|e| matches!(e, Effect::Rejected | Effect::Cancelled)));
            }
            order = next.order;
        }
    }

    #[test]
    fn an_order_has_nothing_to_tell_once_everything_is_acknowledged((coupon, steps) in histories()) {
        let mut order = submitted(coupon);
        for step in steps {
            let Some(event) = event(&order, step) else { continue };
            let Ok(next) = decide(&order, &event, now()) else { continue };
            order = next.order;
        }
        let told = outstanding(&order, Acknowledged { stock: true, coupon: true });
        prop_assert_eq!(told.is_empty(), !order.has_open_refund() && !order.awaits_compensation());
        let untold = outstanding(&order, Acknowledged::default());
        prop_assert_eq!(untold.iter().any(|e| matches!(e, Effect::Confirmed | Effect::Rejected | Effect::Cancelled)),
            order.status.is_final());
    }
}
