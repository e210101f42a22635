use contracts::{
    AttemptId, Problem, ProblemType,
    order::{OrderCouponState, OrderStatus, StatusReason},
};

use crate::domain::{
    Effect, Event, KeyFate, Refusal, decide,
    sample::{after, approved, held, now, submitted},
};

#[test]
fn an_order_with_a_coupon_is_charged_less_the_discount() {
    let attempt = AttemptId::generate();
    let events = [held(), Event::CouponHeld { discount_minor: 100 }, Event::ChargeIntended(attempt), approved(attempt)];
    let end = after(submitted(Some("WELCOME10")), &events);
    assert_eq!((end.order.status, end.order.price.total_minor), (OrderStatus::Confirmed, 900));
    assert_eq!(end.order.coupon.state, OrderCouponState::Applied);
    assert_eq!((end.effects, end.key), (vec![Effect::Confirmed], KeyFate::Complete));
}

#[test]
fn a_coupon_without_an_answer_means_full_price_and_says_so() {
    let order = after(submitted(Some("WELCOME10")), &[held(), Event::CouponPending]).order;
    assert_eq!((order.price.total_minor, order.price.discount_minor), (1_000, 0));
    assert_eq!(order.degraded, ["coupon"]);
}

#[test]
fn a_charge_is_not_intended_while_the_coupon_is_open() {
    let order = after(submitted(Some("WELCOME10")), &[held()]).order;
    let intent = Event::ChargeIntended(AttemptId::generate());
    assert_eq!(decide(&order, &intent, now()), Err(Refusal::Never));
}

#[test]
fn a_discount_that_leaves_nothing_to_pay_is_refused() {
    let order = after(submitted(Some("ALL")), &[held()]).order;
    assert_eq!(decide(&order, &Event::CouponHeld { discount_minor: 1_000 }, now()), Err(Refusal::Never));
}

// Trace 25: a copy of the request that was refused may still arrive, and hold the stock for ever.
#[test]
fn stock_is_released_after_every_way_of_not_getting_it() {
    let refused = |kind| Event::StockRefused(Box::new(Problem::new(kind, "x")));
    let ways = [
        (refused(ProblemType::OutOfStock), StatusReason::OutOfStock, KeyFate::Complete),
        (refused(ProblemType::UnknownSku), StatusReason::UnknownSku, KeyFate::Complete),
        // A hold that was released before is no fault of the stock: the client may try again.
        (refused(ProblemType::ReservationReleased), StatusReason::InventoryUnavailable, KeyFate::Release),
        (Event::StockNotDispatched, StatusReason::InventoryUnavailable, KeyFate::Release),
        (Event::StockUnknown, StatusReason::InventoryUnavailable, KeyFate::Release),
        (Event::Expired, StatusReason::Expired, KeyFate::Release),
    ];
    for (event, reason, key) in ways {
        let end = after(submitted(None), std::slice::from_ref(&event));
        assert_eq!((end.order.status, end.order.reason), (OrderStatus::Rejected, Some(reason)), "{}", event.name());
        assert_eq!((end.effects, end.key), (vec![Effect::Rejected], key), "{}", event.name());
    }
}

#[test]
fn a_stock_refusal_is_answered_as_inventory_said_it() {
    let problem = Problem::new(ProblemType::OutOfStock, "x").with("sku", "TEA").with("available", 1);
    let end = after(submitted(None), &[Event::StockRefused(Box::new(problem))]);
    assert_eq!(end.order.problem.unwrap().extra["available"], 1);
}

#[test]
fn a_refused_coupon_rejects_the_order_with_the_coupons_problem_and_releases_the_stock() {
    let refused = Event::CouponRefused(Box::new(Problem::new(ProblemType::CouponExpired, "x")));
    let end = after(submitted(Some("OLD")), &[held(), refused]);
    assert_eq!((end.order.status, end.effects), (OrderStatus::Rejected, vec![Effect::Rejected]));
    assert_eq!((end.order.coupon.state, end.key), (OrderCouponState::Rejected, KeyFate::Complete));
    assert_eq!(end.order.problem.unwrap().kind, ProblemType::CouponExpired);
}

#[test]
fn an_order_that_ran_out_of_time_with_its_coupon_held_lets_both_go() {
    let end = after(submitted(Some("WELCOME10")), &[held(), Event::CouponHeld { discount_minor: 100 }, Event::Expired]);
    assert_eq!((end.effects, end.key), (vec![Effect::Rejected], KeyFate::Release));
    assert_eq!(end.order.coupon.state, OrderCouponState::Rejected);
}
