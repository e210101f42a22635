use std::{collections::HashSet, sync::Arc, time::Duration};

use contracts::headers;
use futures_util::future::join_all;
use serde_json::json;
use testkit::{Reply, eventually, tier_token, user_token};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::world::{World, answer, approved, patient, problem, stock_held, tea};

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_is_answered_with_the_same_order_and_says_so() {
    let world = World::start().await;
    let (status, first) = world.place("k-1", &tea()).await;
    assert_eq!(status, 201);
    // White space, the order of members and the quoted spelling of the key make no other request.
    let body = r#"{ "payment_method": "tok_approve", "items": [ {"quantity": 2, "sku": "TEA"} ] }"#;
    let request = world
        .app
        .post("/v1/orders")
        .bearer_auth(user_token(world.user))
        .header(headers::IDEMPOTENCY_KEY, "\"k-1\"")
        .header("content-type", "application/json; charset=utf-8")
        .body(body);
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()[headers::IDEMPOTENT_REPLAYED], "true");
    assert_eq!(answer(response).await, (201, first));
    assert_eq!(world.payment.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_belongs_to_its_user() {
    let mut world = World::start().await;
    let (_, first) = world.place("k", &tea()).await;
    world.user = contracts::UserId::generate();
    let (status, second) = world.place("k", &tea()).await;
    assert_eq!(status, 201);
    assert_ne!(first["id"], second["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_came_with_another_body_is_refused() {
    let world = World::start().await;
    world.place("k", &tea()).await;
    let other = json!({"items": [{"sku": "TEA", "quantity": 3}], "payment_method": "tok_approve"});
    let (status, body) = world.place("k", &other).await;
    assert_eq!((status, &body["type"]), (422, &json!("urn:problem:idempotency-key-reused")));
    assert_eq!(world.count("select count(*) from orders").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_first_request_runs_its_repetition_is_told_so_at_once() {
    let world = World::start().await;
    let go = Arc::new(Semaphore::new(0));
    let held = go.clone();
    world.payment.behave(move |seen| Reply::Held(held.clone(), Box::new(approved(seen))));
    let first = tokio::spawn(world.request("k", &tea()).send());
    eventually("the charge is under way", || async { world.payment.seen().first().map(drop) }).await;
    let response = world.request("k", &tea()).send().await.unwrap();
    assert!(response.headers().contains_key("retry-after"));
    let (status, body) = answer(response).await;
    assert_eq!((status, &body["type"]), (409, &json!("urn:problem:idempotency-in-flight")));
    assert!(!first.is_finished(), "the repetition waited for the first request");
    go.add_permits(1);
    assert_eq!(first.await.unwrap().unwrap().status(), 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_requests_with_one_key_make_one_order_and_one_charge() {
    let world = World::start().await;
    // A VIP's quota has room for as many at once.
    let token = tier_token(world.user, "vip");
    let place = async || {
        let request = world.app.post("/v1/orders").bearer_auth(&token).header(headers::IDEMPOTENCY_KEY, "k");
        answer(request.json(&tea()).send().await.unwrap()).await
    };
    let answers = join_all((0..100).map(|_| place())).await;
    let mut orders = HashSet::new();
    for (status, body) in answers {
        match status {
            201 => _ = orders.insert(body["id"].as_str().unwrap().to_owned()),
            409 => assert_eq!(body["type"], "urn:problem:idempotency-in-flight"),
            other => panic!("{other}: {body}"),
        }
    }
    assert_eq!(orders.len(), 1);
    assert_eq!(world.count("select count(*) from orders").await, 1);
    assert_eq!(world.payment.seen().len(), 1);
    assert_eq!(world.inventory.seen_at("PUT", "/v1/reservations/").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_from_before_the_workflow_store_nothing() {
    let world = World::start().await;
    let bad = json!({"items": [], "payment_method": "tok_approve"});
    assert_eq!(world.place("k", &bad).await.0, 422);
    assert_eq!(world.place("k", &json!({"items": 1})).await.0, 400);
    assert_eq!(world.count("select count(*) from idempotency_keys").await, 0);
    assert_eq!(world.place("k", &tea()).await.0, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn final_refusals_are_replayed_as_they_were() {
    let world = World::start().await;
    world.inventory.behave(|_| problem("out-of-stock", 409, json!({"sku": "TEA", "available": 1})));
    let (_, first) = world.place("k", &tea()).await;
    world.inventory.behave(stock_held);
    let response = world.request("k", &tea()).send().await.unwrap();
    assert_eq!(response.headers()[headers::IDEMPOTENT_REPLAYED], "true");
    assert_eq!(answer(response).await, (409, first));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_order_is_replayed_as_it_is_now() {
    let world = World::start().await;
    world.payment.behave(|_| Reply::Close);
    let (status, pending) = world.place("k", &tea()).await;
    assert_eq!(status, 202);
    let replayed = world.place("k", &tea()).await;
    assert_eq!(replayed, (202, pending));
    assert_eq!(world.payment.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_or_malformed_key_is_refused_by_name() {
    let world = World::start().await;
    let without = world.app.post("/v1/orders").bearer_auth(user_token(world.user)).json(&tea());
    let (status, body) = answer(without.send().await.unwrap()).await;
    assert_eq!((status, &body["type"]), (400, &json!("urn:problem:idempotency-key-missing")));
    for bad in ["", "a b", &"k".repeat(256), "\"open"] {
        let (status, body) = world.place(bad, &tea()).await;
        assert_eq!((status, &body["errors"][0]["field"]), (400, &json!("idempotency-key")), "{bad}");
    }
    let twice = world.request("a", &tea()).header(headers::IDEMPOTENCY_KEY, "b").send().await.unwrap();
    assert_eq!(twice.status(), 400);
}

/// The claim of a run that died before it did anything, or after it made its order.
async fn dead_claim(world: &World, key: &str, order: Uuid, lease: &str) {
    let request: contracts::order::PlaceOrder = serde_json::from_value(tea()).unwrap();
    let fingerprint = <sha2::Sha256 as sha2::Digest>::digest(serde_json::to_vec(&request).unwrap());
    sqlx::query(
        "insert into idempotency_keys (user_id, method, path, key, fingerprint, resource_id, lease_until)
         values ($1, 'POST', '/v1/orders', $2, $3, $4, now() + $5::text::interval)",
    )
    .bind(world.user.as_uuid())
    .bind(key)
    .bind(fingerprint.as_slice())
    .bind(order)
    .bind(lease)
    .execute(world.db.pool())
    .await
    .unwrap();
}

// Trace 5.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_without_an_order_is_taken_over_under_the_id_that_it_fixed() {
    let world = World::start().await;
    let id = Uuid::now_v7();
    dead_claim(&world, "k", id, "-1 second").await;
    let (status, order) = world.place("k", &tea()).await;
    assert_eq!((status, order["id"].as_str().unwrap()), (201, id.to_string().as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_lease_runs_is_left_alone() {
    let world = World::start().await;
    dead_claim(&world, "k", Uuid::now_v7(), "9 seconds").await;
    let (status, body) = world.place("k", &tea()).await;
    assert_eq!((status, &body["type"]), (409, &json!("urn:problem:idempotency-in-flight")));
}

// The second run must not make another order, and the first must not write beside it.
// Trace 5.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_taken_over_can_write_nothing_more() {
    let mut rules = patient();
    // The recoverer stays out of this.
    rules.recover.interval = Duration::from_secs(3_600);
    // One try, long enough for a slow answer.
    rules.downstream.inventory.attempt_timeout = rules.downstream.inventory.timeout;
    let world = World::with_rules(rules).await;
    let go = Arc::new(Semaphore::new(0));
    let held = go.clone();
    world.inventory.behave(move |seen| Reply::Held(held.clone(), Box::new(stock_held(seen))));
    let first = tokio::spawn(world.request("k", &tea()).send());
    eventually("the first run reserves", || async { world.inventory.seen().first().map(drop) }).await;
    // It pauses for longer than its lease, and another takes over.
    sqlx::query("update idempotency_keys set attempt = attempt + 1").execute(world.db.pool()).await.unwrap();
    go.add_permits(1);
    let (status, body) = answer(first.await.unwrap().unwrap()).await;
    assert_eq!((status, &body["type"]), (409, &json!("urn:problem:idempotency-in-flight")));
    assert_eq!(world.count("select count(*) from orders where status = 'created'").await, 1);
    assert!(world.payment.seen().is_empty());

    // The run that holds it now brings the same order to its end.
    sqlx::query("update idempotency_keys set lease_until = now()").execute(world.db.pool()).await.unwrap();
    go.add_permits(1);
    let (status, _) = world.place("k", &tea()).await;
    assert_eq!(status, 201);
    assert_eq!(world.count("select count(*) from orders").await, 1);
}

// After the intent to charge, a repetition asks about the same attempt and never charges another.
// Trace 6.
#[tokio::test(flavor = "multi_thread")]
async fn a_take_over_after_the_intent_to_charge_is_pending_and_charges_nothing() {
    let mut rules = patient();
    rules.recover.interval = Duration::from_secs(3_600);
    let world = World::with_rules(rules).await;
    world.payment.behave(|_| Reply::Hang);
    let first = tokio::spawn(world.request("k", &tea()).header(headers::EXPECTED_TIMEOUT_MS, "1500").send());
    eventually("the charge is under way", || async { world.payment.seen().first().map(drop) }).await;
    sqlx::query("update idempotency_keys set lease_until = now()").execute(world.db.pool()).await.unwrap();
    let (status, order) = world.place("k", &tea()).await;
    assert_eq!((status, &order["status"]), (202, &json!("payment_pending")));
    // The first run comes back to an order that has an outcome, and tells it.
    assert_eq!(answer(first.await.unwrap().unwrap()).await, (202, order));
    assert_eq!(world.payment.seen().len(), 1);
}

// Trace 8.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_pruned_when_its_order_is_settled_and_not_before() {
    let world = World::start().await;
    world.place("settled", &tea()).await;
    world.payment.behave(|_| Reply::Close);
    world.place("pending", &tea()).await;
    sqlx::query(
        "update idempotency_keys set created_at = now() - interval '2 days', lease_until = now() - interval '2 days'",
    )
    .execute(world.db.pool())
    .await
    .unwrap();
    order::store::keys::prune(world.db.pool(), Duration::from_secs(86_400), 100).await.unwrap();
    let left: Vec<String> =
        sqlx::query_scalar("select key from idempotency_keys").fetch_all(world.db.pool()).await.unwrap();
    assert_eq!(left, ["pending"]);
}
