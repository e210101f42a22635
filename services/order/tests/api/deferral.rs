use std::time::Duration;

use contracts::{
    Currency,
    event::{PaymentApproved, PaymentFenced},
    payment::Channel,
};
use rules::PaymentLevel;
use serde_json::{Value, json};
use testkit::{Reply, Stub, stub::refusing_url};

use crate::world::{World, patient, problem, stock_held, tea};

/// Payment cannot send charges now; fences are granted.
async fn without_the_provider() -> World {
    let world = World::start().await;
    world.payment.behave(|seen| match seen.method.as_str() {
        "PUT" => problem("payment-not-dispatched", 503, json!({"reason": "breaker_open"})),
        _ => Reply::Json(200, json!({"state": "fenced"})),
    });
    world
}

/// What the last event of this type carries.
async fn said(world: &World, kind: &str) -> Value {
    let payload: String =
        sqlx::query_scalar("select payload from outbox where payload::jsonb ->> 'type' = $1 order by id desc limit 1")
            .bind(kind)
            .fetch_one(world.db.pool())
            .await
            .unwrap();
    serde_json::from_str::<Value>(&payload).unwrap()["data"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_order_waits_until_payment_can_send_its_charge() {
    let world = without_the_provider().await;
    let (status, order) = world.place("k", &tea()).await;
    assert_eq!(
        (status, &order["status"], &order["payment"]["state"]),
        (202, &json!("payment_pending"), &json!("deferred"))
    );
    assert_eq!(order["degraded"], json!(["payment"]));
    assert_eq!(world.payment.seen().len(), 1, "it was fenced");
    let deferred = said(&world, "payment.deferred").await;
    assert_eq!((&deferred["amount_minor"], &deferred["currency"]), (&json!(1_000), &json!("USD")));
    assert_eq!(
        (&deferred["payment_method"], &deferred["attempt_id"]),
        (&json!("tok_approve"), &order["payment"]["attempt_id"])
    );
    let (order_id, attempt_id) = world.order_and_attempt().await;
    let (channel, currency) = (Channel::Backup, Currency::USD);
    world
        .say(&PaymentApproved {
            order_id,
            attempt_id,
            channel,
            provider_ref: "c".into(),
            amount_minor: 1_000,
            currency,
        })
        .await;
    let confirmed = world.until(&order, "/status", json!("confirmed")).await;
    assert_eq!(confirmed["payment"]["channel"], "backup");
    assert_eq!(world.place("k", &tea()).await.0, 201);
}

// The request never left this process, so payment is told what to charge.
#[tokio::test(flavor = "multi_thread")]
async fn a_small_order_waits_as_well_when_payment_cannot_be_reached() {
    let (inventory, payment) = (Stub::start(stock_held).await, Stub::start(|_| Reply::Close).await);
    let url = inventory.url();
    let world = World::with(patient(), url, refusing_url(), inventory, payment).await;
    let (status, order) = world.place("k", &tea()).await;
    assert_eq!((status, &order["payment"]["state"]), (202, &json!("deferred")));
    assert_eq!(said(&world, "payment.deferred").await["amount_minor"], 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_above_the_limit_is_fenced_and_refused_and_its_stock_let_go() {
    let world = without_the_provider().await;
    world.rule(|rules| rules.degrade.defer_max_minor = 999);
    let (status, body) = world.place("k", &tea()).await;
    assert_eq!((status, &body["type"]), (503, &json!("urn:problem:payment-unavailable")));
    assert_eq!(world.payment.seen_at("POST", "/v1/payments/").len(), 1);
    assert_eq!(world.inventory.seen_at("POST", "/v1/reservations/").len(), 1);
    assert_eq!(world.events().await, ["order.rejected"]);
    // In force without a restart.
    world.rule(|rules| rules.degrade.defer_max_minor = 1_000);
    assert_eq!(world.place("k", &tea()).await.0, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_waits_while_payment_is_switched_off() {
    let world = without_the_provider().await;
    world.rule(|rules| rules.degrade.payment = PaymentLevel::Off);
    assert_eq!(world.place("off", &tea()).await.0, 503);
    world.rule(|rules| rules.degrade.payment = PaymentLevel::Defer);
    assert_eq!(world.place("defer", &tea()).await.0, 202);
}

// Trace 3: it can be cancelled, and it cannot wait for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_deferred_order_can_be_cancelled_and_is_ended_by_a_fence() {
    let world = without_the_provider().await;
    let (_, order) = world.place("k", &tea()).await;
    let (status, cancelled) = world.cancel(&order).await;
    assert_eq!((status, &cancelled["status"]), (200, &json!("cancelled")));

    let (_, order) = world.place("l", &tea()).await;
    let (order_id, attempt_id) = (
        order["id"].as_str().unwrap().parse().unwrap(),
        order["payment"]["attempt_id"].as_str().unwrap().parse().unwrap(),
    );
    world.say(&PaymentFenced { order_id, attempt_id }).await;
    let rejected = world.until(&order, "/status", json!("rejected")).await;
    assert_eq!(rejected["status_reason"], "payment_unavailable");
}

// Trace 26: payment never heard of the attempt, and no message about it arrived.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_waits_too_long_for_its_payment_is_fenced() {
    let world = without_the_provider().await;
    let (_, deferred) = world.place("deferred", &tea()).await;
    world.payment.behave(|seen| match seen.method.as_str() {
        "PUT" => Reply::Close,
        _ => Reply::Json(200, json!({"state": "fenced"})),
    });
    let (_, unknown) = world.place("unknown", &tea()).await;
    world.rule(|rules| {
        rules.recover.interval = Duration::from_millis(50);
        rules.recover.pending_max_age = Duration::from_millis(1);
    });
    for (order, reason) in [(deferred, "payment_unavailable"), (unknown, "payment_not_found")] {
        let rejected = world.until(&order, "/status", json!("rejected")).await;
        assert_eq!(rejected["status_reason"], reason);
    }
}
