//! Refunds and coupons after the charge, as payment and coupon tell of them.

use contracts::{
    AttemptId, Currency, OrderId, RefundId,
    event::{CouponOutcome, CouponSettled, PaymentApproved, PaymentDeclined, PaymentFenced, PaymentRefunded},
    payment::Channel,
};
use serde_json::{Value, json};
use testkit::{Reply, eventually};

use crate::world::{World, approved, tea, tea_with_coupon};

fn ids(order: &Value) -> (OrderId, AttemptId) {
    let attempt = order["payment"]["attempt_id"].as_str().unwrap();
    (order["id"].as_str().unwrap().parse().unwrap(), attempt.parse().unwrap())
}

fn charged(order_id: OrderId, attempt_id: AttemptId) -> PaymentApproved {
    let (channel, currency) = (Channel::Primary, Currency::USD);
    PaymentApproved { order_id, attempt_id, channel, provider_ref: "ch_1".into(), amount_minor: 1_000, currency }
}

async fn paid_back(world: &World, order: &Value, purpose: &str, amount_minor: i64) {
    let (order_id, attempt_id) = ids(order);
    let refund_id = RefundId::derive(order_id, purpose);
    world.say(&PaymentRefunded { order_id, attempt_id, refund_id, amount_minor, currency: Currency::USD }).await;
}

/// What was asked to go back: purpose, sum and reason.
async fn refunds(world: &World) -> Vec<(String, i64, String)> {
    sqlx::query_as("select purpose, amount_minor, reason from refunds order by requested_at")
        .fetch_all(world.db.pool())
        .await
        .unwrap()
}

/// Confirmed at full price while the coupon service was away.
async fn confirmed_without_its_discount(world: &World) -> Value {
    world.coupon.behave(|_| Reply::Close);
    let (status, order) = world.place("k", &tea_with_coupon()).await;
    assert_eq!((status, &order["coupon"]["state"], &order["total_minor"]), (201, &json!("pending"), &json!(1_000)));
    order
}

async fn settled(world: &World, order: &Value, outcome: CouponOutcome) {
    world.say(&CouponSettled { order_id: ids(order).0, outcome }).await;
}

// Trace 1.
#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_is_proven_after_the_order_was_rejected_is_paid_back_once() {
    let world = World::start().await;
    world.payment.behave(|_| Reply::Close);
    let (_, order) = world.place("k", &tea()).await;
    let (order_id, attempt_id) = ids(&order);
    world.say(&PaymentFenced { order_id, attempt_id }).await;
    world.until(&order, "/status", json!("rejected")).await;
    world.say(&charged(order_id, attempt_id)).await;
    world.say(&charged(order_id, attempt_id)).await;
    let due = world.until(&order, "/payment/state", json!("refund_due")).await;
    assert_eq!((&due["status"], &due["status_reason"]), (&json!("rejected"), &json!("payment_not_found")));
    paid_back(&world, &order, "full", 1_000).await;
    paid_back(&world, &order, "full", 1_000).await;
    let paid = world.until(&order, "/payment/state", json!("refunded")).await;
    assert_eq!(paid["payment"]["refunded_minor"], 1_000);
    assert_eq!(refunds(&world).await, [("full".to_owned(), 1_000, "late_approval".to_owned())]);
    assert_eq!(world.events().await.iter().filter(|kind| *kind == "payment.refund_requested").count(), 1);
}

// Trace 22: it begins with the confirmation and not before.
#[tokio::test(flavor = "multi_thread")]
async fn a_discount_is_asked_for_once_the_order_is_confirmed_and_then_paid_out() {
    let world = World::start().await;
    world.payment.behave(|_| Reply::Close);
    world.coupon.behave(|_| Reply::Close);
    let (_, order) = world.place("k", &tea_with_coupon()).await;
    assert_eq!(world.events().await, ["payment.unknown"]);
    let (order_id, attempt_id) = ids(&order);
    world.say(&charged(order_id, attempt_id)).await;
    world.until(&order, "/status", json!("confirmed")).await;
    let told = world.events().await;
    assert_eq!(told[told.len() - 2..], ["order.confirmed", "coupon.compensate"]);
    let confirmed: String = sqlx::query_scalar("select payload from outbox where payload like '%order.confirmed%'")
        .fetch_one(world.db.pool())
        .await
        .unwrap();
    assert!(confirmed.contains(r#""coupon_code":null"#), "nothing was redeemed yet: {confirmed}");

    settled(&world, &order, CouponOutcome::Honoured { discount_minor: 50 }).await;
    eventually("the discount is due", async || (!refunds(&world).await.is_empty()).then_some(())).await;
    assert_eq!(refunds(&world).await, [("coupon".to_owned(), 50, "coupon".to_owned())]);
    paid_back(&world, &order, "coupon", 50).await;
    let paid = world.until(&order, "/coupon/state", json!("refunded")).await;
    assert_eq!((&paid["payment"]["refunded_minor"], &paid["payment"]["state"]), (&json!(50), &json!("approved")));
    assert_eq!(paid["status"], "confirmed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discount_that_is_settled_twice_is_paid_out_once() {
    let world = World::start().await;
    let order = confirmed_without_its_discount(&world).await;
    for _ in 0..2 {
        settled(&world, &order, CouponOutcome::Honoured { discount_minor: 50 }).await;
    }
    eventually("both are heard", async || (world.count("select count(*) from inbox").await == 2).then_some(())).await;
    assert_eq!(refunds(&world).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discount_of_nothing_and_one_that_cannot_be_had_ask_for_no_refund() {
    let outcomes = [
        (CouponOutcome::Honoured { discount_minor: 0 }, "applied"),
        (CouponOutcome::Refused { reason: "exhausted".into() }, "rejected"),
    ];
    for (outcome, state) in outcomes {
        let world = World::start().await;
        let order = confirmed_without_its_discount(&world).await;
        settled(&world, &order, outcome).await;
        let order = world.until(&order, "/coupon/state", json!(state)).await;
        assert_eq!((&order["status"], &order["payment"]["refunded_minor"]), (&json!("confirmed"), &json!(0)));
        assert_eq!(refunds(&world).await, []);
    }
}

// Trace 21.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_is_cancelled_after_its_discount_was_paid_out_is_paid_the_rest() {
    let world = World::start().await;
    let order = confirmed_without_its_discount(&world).await;
    settled(&world, &order, CouponOutcome::Honoured { discount_minor: 50 }).await;
    eventually("the discount is due", async || (!refunds(&world).await.is_empty()).then_some(())).await;
    assert_eq!(world.cancel(&order).await.0, 200);
    let due: Vec<i64> = refunds(&world).await.into_iter().map(|(_, amount, _)| amount).collect();
    assert_eq!(due, [50, 950]);
    paid_back(&world, &order, "full", 950).await;
    paid_back(&world, &order, "coupon", 50).await;
    let paid = world.until(&order, "/payment/state", json!("refunded")).await;
    assert_eq!(paid["payment"]["refunded_minor"], 1_000);
}

// Trace 27: a duplicate is dropped, what came too early waits, and only what can never apply is a dead letter.
#[tokio::test(flavor = "multi_thread")]
async fn a_coupon_that_is_settled_too_early_waits_for_the_confirmation() {
    let world = World::start().await;
    world.payment.behave(|_| Reply::Close);
    world.coupon.behave(|_| Reply::Close);
    let (_, order) = world.place("k", &tea_with_coupon()).await;
    settled(&world, &order, CouponOutcome::Honoured { discount_minor: 50 }).await;
    let (order_id, attempt_id) = ids(&order);
    // On a topic of its own, so it overtakes.
    world.say(&charged(order_id, attempt_id)).await;
    world.until(&order, "/status", json!("confirmed")).await;
    eventually("the discount is due", async || (!refunds(&world).await.is_empty()).then_some(())).await;
}

// What was said before the proof of a charge may arrive after it: it changes nothing, and nobody has to look at it.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_charge_has_outranked_is_dropped() {
    let world = World::start().await;
    world.payment.behave(approved);
    let (_, order) = world.place("k", &tea()).await;
    let (order_id, attempt_id) = ids(&order);
    world.say(&PaymentFenced { order_id, attempt_id }).await;
    let (channel, decline_code) = (Channel::Primary, "x".to_owned());
    world.say(&PaymentDeclined { order_id, attempt_id, channel, decline_code }).await;
    eventually("both are dropped", async || (world.count("select count(*) from inbox").await == 2).then_some(())).await;
    assert_eq!(world.get(&format!("/v1/orders/{order_id}")).await.1["status"], "confirmed");
}
