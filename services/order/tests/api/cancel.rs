use std::{sync::Arc, time::Duration};

use contracts::{
    AttemptId, Currency, OrderId, RefundId, UserId,
    event::{PaymentApproved, PaymentRefunded},
    payment::Channel,
};
use serde_json::{Value, json};
use testkit::{Reply, eventually, user_token};
use tokio::sync::Semaphore;

use crate::world::{World, answer, approved, patient, stock_held, tea};

fn ids(order: &Value) -> (OrderId, AttemptId) {
    let attempt = order["payment"]["attempt_id"].as_str().unwrap();
    (order["id"].as_str().unwrap().parse().unwrap(), attempt.parse().unwrap())
}

fn charged(order: &Value) -> PaymentApproved {
    let (order_id, attempt_id) = ids(order);
    PaymentApproved {
        order_id,
        attempt_id,
        channel: Channel::Primary,
        provider_ref: "ch_1".into(),
        amount_minor: 1_000,
        currency: Currency::USD,
    }
}

/// An order whose payment got no answer; the fence says `state`, or nothing.
async fn pending(world: &World, state: Option<&'static str>) -> Value {
    world.payment.behave(move |seen| match (seen.method.as_str(), state) {
        ("POST", Some(state)) => Reply::Json(200, json!({"state": state, "channel": "primary"})),
        _ => Reply::Close,
    });
    world.place("k", &tea()).await.1
}

async fn steps(world: &World, order: &Value) -> Vec<String> {
    let (_, history) = world.get(&format!("/v1/orders/{}/history", order["id"].as_str().unwrap())).await;
    history.as_array().unwrap().iter().map(|entry| entry["event"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_order_is_paid_back_and_its_goods_returned() {
    let world = World::start().await;
    let (_, order) = world.place("k", &tea()).await;
    let (status, cancelled) = world.cancel(&order).await;
    assert_eq!((status, &cancelled["status"]), (200, &json!("cancelled")));
    assert_eq!(cancelled["status_reason"], "user_cancelled");
    assert_eq!(
        (&cancelled["payment"]["state"], &cancelled["payment"]["refunded_minor"]),
        (&json!("refund_due"), &json!(0))
    );
    // Again: the same, and nothing is asked for twice.
    let (status, again) = world.cancel(&order).await;
    assert_eq!((status, &again), (200, &cancelled));
    assert_eq!(world.events().await, ["order.confirmed", "order.cancelled", "payment.refund_requested"]);
    // Trace 14: one of two events with one version would look like an old one.
    let versions = "select count(distinct (payload::jsonb ->> 'version')::bigint) from outbox";
    assert_eq!(world.count(versions).await, 3);

    let (order_id, attempt_id) = ids(&order);
    let refund_id = RefundId::derive(order_id, "full");
    world.say(&PaymentRefunded { order_id, attempt_id, refund_id, amount_minor: 1_000, currency: Currency::USD }).await;
    let paid = world.until(&order, "/payment/state", json!("refunded")).await;
    assert_eq!(paid["payment"]["refunded_minor"], 1_000);
    let expected = ["submitted", "stock_held", "charge_intended", "approved", "cancel_requested", "refunded"];
    assert_eq!(steps(&world, &order).await, expected);
    // The client that was told "confirmed" is shown what became of it.
    let (status, replayed) = world.place("k", &tea()).await;
    assert_eq!((status, &replayed["status"]), (201, &json!("cancelled")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_payment_is_fenced_and_the_order_is_cancelled() {
    let world = World::start().await;
    let order = pending(&world, Some("fenced")).await;
    let (status, cancelled) = world.cancel(&order).await;
    assert_eq!((status, &cancelled["status"]), (200, &json!("cancelled")));
    assert_eq!(cancelled["payment"]["state"], "fenced");
    assert_eq!(world.events().await, ["payment.unknown", "order.cancelled"]);
}

// Trace 18: the fence says "unknown", and the charge is proven later.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_turns_out_to_be_charged_after_its_user_took_it_back_is_paid_back() {
    let world = World::start().await;
    let order = pending(&world, Some("unknown")).await;
    let path = format!("/v1/orders/{}/cancel", order["id"].as_str().unwrap());
    let response = world.app.post(&path).bearer_auth(user_token(world.user)).send().await.unwrap();
    assert!(response.headers().contains_key("retry-after") && response.headers().contains_key("location"));
    let (status, waiting) = answer(response).await;
    assert_eq!((status, &waiting["status"]), (202, &json!("payment_pending")));
    world.say(&charged(&order)).await;
    let cancelled = world.until(&order, "/status", json!("cancelled")).await;
    assert_eq!(cancelled["payment"]["state"], "refund_due");
    assert_eq!(world.cancel(&order).await.0, 200);
    let told = ["payment.unknown", "payment.approved", "order.cancelled", "payment.refund_requested"];
    assert_eq!(world.events().await, told);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_that_finds_the_charge_cancels_and_pays_back_at_once() {
    let world = World::start().await;
    let order = pending(&world, Some("approved")).await;
    let (status, cancelled) = world.cancel(&order).await;
    assert_eq!((status, &cancelled["payment"]["state"]), (200, &json!("refund_due")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_without_an_answer_is_asked_for_again() {
    let mut rules = patient();
    rules.recover.interval = Duration::from_millis(50);
    rules.recover.ask_again = Duration::from_millis(50);
    let world = World::with_rules(rules).await;
    let order = pending(&world, None).await;
    assert_eq!(world.cancel(&order).await.0, 202);
    world.payment.behave(|_| Reply::Json(200, json!({"state": "fenced"})));
    world.until(&order, "/status", json!("cancelled")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_cancelled_while_its_run_is_at_work() {
    let world = World::start().await;
    let go = Arc::new(Semaphore::new(0));
    let held = go.clone();
    world.inventory.behave(move |seen| match seen.method.as_str() {
        "PUT" => Reply::Held(held.clone(), Box::new(stock_held(seen))),
        _ => stock_held(seen),
    });
    let placed = tokio::spawn(world.request("k", &tea()).send());
    eventually("stock is asked for", || async { world.inventory.seen().first().map(drop) }).await;
    let (_, page) = world.get("/v1/orders").await;
    let order = page["items"][0].clone();
    assert_eq!(world.cancel(&order).await.0, 200);
    go.add_permits(8);
    let (status, told) = answer(placed.await.unwrap().unwrap()).await;
    assert_eq!((status, &told["status"]), (202, &json!("cancelled")));
    assert!(world.payment.seen().is_empty(), "a cancelled order was charged");
    assert_eq!(world.events().await, ["order.cancelled"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_under_way_is_left_to_its_run_and_paid_back() {
    let world = World::start().await;
    let go = Arc::new(Semaphore::new(0));
    let held = go.clone();
    world.payment.behave(move |seen| match seen.method.as_str() {
        "PUT" => Reply::Held(held.clone(), Box::new(approved(seen))),
        _ => Reply::Json(200, json!({"state": "dispatched"})),
    });
    let placed = tokio::spawn(world.request("k", &tea()).send());
    eventually("the charge is under way", || async { world.payment.seen().first().map(drop) }).await;
    let (_, page) = world.get("/v1/orders").await;
    let order = page["items"][0].clone();
    let (status, waiting) = world.cancel(&order).await;
    assert_eq!((status, &waiting["status"]), (202, &json!("payment_in_flight")));
    go.add_permits(8);
    let (status, told) = answer(placed.await.unwrap().unwrap()).await;
    assert_eq!((status, &told["status"], &told["payment"]["state"]), (202, &json!("cancelled"), &json!("refund_due")));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_an_order_is_told_of_its_cancellation() {
    let world = World::start().await;
    let order = pending(&world, Some("fenced")).await;
    let path = format!("/v1/orders/{}", order["id"].as_str().unwrap());
    let waiting =
        tokio::spawn(world.app.get(&path).bearer_auth(user_token(world.user)).header("prefer", "wait=10").send());
    eventually("somebody waits", async || (world.waiting().await == 1).then_some(())).await;
    assert_eq!(world.cancel(&order).await.0, 200);
    let (_, seen) = answer(waiting.await.unwrap().unwrap()).await;
    assert_ne!((&seen["status"], &seen["updated_at"]), (&order["status"], &order["updated_at"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_rejected_cannot_be_cancelled_and_what_is_anothers_is_not_there() {
    let world = World::start().await;
    world.payment.behave(|_| Reply::Json(200, json!({"state": "declined", "decline_code": "x"})));
    let (_, body) = world.place("k", &tea()).await;
    let order = json!({"id": body["order_id"]});
    let (status, body) = world.cancel(&order).await;
    assert_eq!((status, &body["type"]), (409, &json!("urn:problem:not-cancellable")));
    assert_eq!((&body["order_id"], &body["retryable"]), (&order["id"], &json!(false)));
    let path = format!("/v1/orders/{}/cancel", order["id"].as_str().unwrap());
    let foreign = world.app.post(&path).bearer_auth(user_token(UserId::generate())).send().await.unwrap();
    assert_eq!(foreign.status(), 404);
    assert_eq!(world.cancel(&json!({"id": OrderId::generate().to_string()})).await.0, 404);
    assert_eq!(world.cancel(&json!({"id": "none"})).await.0, 404);
    assert_eq!(world.app.post(&path).send().await.unwrap().status(), 401);
    assert_eq!(world.get(&path).await.0, 405);
}
