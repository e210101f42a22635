use std::time::Duration;

use contracts::{UserId, headers};
use serde_json::json;
use testkit::{Reply, eventually, user_token};
use uuid::Uuid;

use crate::world::{World, answer, patient, tea};

#[tokio::test(flavor = "multi_thread")]
async fn orders_are_listed_newest_first_page_by_page() {
    let world = World::start().await;
    let mut placed = Vec::new();
    for i in 0..5 {
        placed.push(world.place(&format!("k{i}"), &tea()).await.1["id"].clone());
    }
    placed.reverse();
    let (mut listed, mut cursor) = (Vec::new(), String::new());
    loop {
        let (status, page) = world.get(&format!("/v1/orders?limit=2{cursor}")).await;
        assert_eq!(status, 200);
        listed.extend(page["items"].as_array().unwrap().iter().map(|order| order["id"].clone()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(listed, placed);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_queries_are_refused_by_name() {
    let world = World::start().await;
    for query in ["limit=0", "limit=101", "limit=-1", "limit=x", "limit=", "cursor=x", "colour=red"] {
        let (status, body) = world.get(&format!("/v1/orders?{query}")).await;
        assert_eq!((status, &body["type"]), (400, &json!("urn:problem:invalid-request")), "{query}");
        let name = query.split('=').next().unwrap();
        let field = body["errors"][0]["field"].as_str().unwrap();
        assert!(field == name || field == "query", "{query}: {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_users_order_is_as_good_as_none() {
    let world = World::start().await;
    let (_, order) = world.place("k", &tea()).await;
    let id = order["id"].as_str().unwrap();
    for path in [format!("/v1/orders/{id}"), format!("/v1/orders/{id}/history")] {
        assert_eq!(world.get(&path).await.0, 200);
        let stranger = world.app.get(&path).bearer_auth(user_token(UserId::generate())).send().await.unwrap();
        let (status, theirs) = answer(stranger).await;
        assert_eq!((status, &theirs["type"]), (404, &json!("urn:problem:not-found")));
        let unknown = path.replace(id, &Uuid::now_v7().to_string());
        assert_eq!(world.get(&unknown).await, (404, theirs));
    }
    let strangers = world.app.get("/v1/orders").bearer_auth(user_token(UserId::generate())).send().await.unwrap();
    assert_eq!(answer(strangers).await.1["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_can_wait_for_a_change_and_so_many_as_the_rule_says() {
    let mut rules = patient();
    rules.service.order.max_in_flight = 1;
    rules.route.get_mut("GET /v1/orders/{order_id}").unwrap().max_waiting = 2;
    let world = World::with_rules(rules).await;
    world.payment.behave(|_| Reply::Close);
    let (_, order) = world.place("k", &tea()).await;
    let path = format!("/v1/orders/{}", order["id"].as_str().unwrap());
    let ask = || world.app.get(&path).bearer_auth(user_token(world.user)).header("prefer", "wait=10");
    let mut waiting = Vec::new();
    for count in 1..=2 {
        // Those before it wait, and are not in flight: there is one place alone.
        waiting.push(tokio::spawn(ask().send()));
        eventually("it waits", || async { (world.waiting().await == count).then_some(()) }).await;
    }
    assert_eq!(answer(ask().send().await.unwrap()).await, (200, order.clone()), "one too many is answered at once");
    assert_eq!(world.waiting().await, 2);

    // As soon as the rule changes.
    world.rule(|rules| rules.route.get_mut("GET /v1/orders/{order_id}").unwrap().max_waiting = 3);
    waiting.push(tokio::spawn(ask().send()));
    eventually("the third waits", || async { (world.waiting().await == 3).then_some(()) }).await;
    sqlx::query("update orders set status = 'confirmed', payment_state = 'approved', updated_at = now()")
        .execute(world.db.pool())
        .await
        .unwrap();
    for waiting in waiting {
        let (status, changed) = answer(waiting.await.unwrap().unwrap()).await;
        assert_eq!((status, &changed["status"]), (200, &json!("confirmed")));
    }
    eventually("nobody waits", || async { (world.waiting().await == 0).then_some(()) }).await;
    assert_eq!(world.get(&path).await.0, 200, "every place has been given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_with_the_callers_time_and_shows_the_order_as_it_is() {
    let world = World::start().await;
    world.payment.behave(|_| Reply::Close);
    let (_, order) = world.place("k", &tea()).await;
    let path = format!("/v1/orders/{}", order["id"].as_str().unwrap());
    let request = world
        .app
        .get(&path)
        .bearer_auth(user_token(world.user))
        .header("prefer", "respond-async, wait=100")
        .header(headers::EXPECTED_TIMEOUT_MS, "200");
    let answered = tokio::time::timeout(Duration::from_secs(5), request.send()).await.unwrap().unwrap();
    assert_eq!(answer(answered).await, (200, order));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_port_shows_health_metrics_state_and_the_api_document() {
    let world = World::start().await;
    world.place("k", &tea()).await;
    let get = async |path: &str| answer(world.app.client.get(world.app.admin_url(path)).send().await.unwrap()).await;
    assert_eq!(get("/healthz").await.0, 200);
    assert_eq!(get("/readyz").await.0, 200);
    world.payment.behave(|_| Reply::Close);
    assert_eq!(world.place("pending", &tea()).await.0, 202);
    // Of all the services that run in this process; this one sets its own again every second.
    let at_least = |text: &str, name: &str, least: f64| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        value.is_some_and(|value| value >= least)
    };
    eventually("what is promised is there", || async {
        let (status, metrics) = get("/metrics").await;
        assert_eq!(status, 200);
        let text = metrics.as_str().unwrap();
        for name in ["http_requests_total{", "http_request_duration_seconds_bucket{", "outbox_backlog "] {
            assert!(text.contains(name), "{name}");
        }
        let counted = at_least(text, r#"orders_total{status="confirmed",reason="none"}"#, 1.0);
        let pending = at_least(text, "payment_pending ", 1.0);
        (counted && pending && at_least(text, "payment_pending_oldest_age_seconds ", 0.001)).then_some(())
    })
    .await;
    let (_, state) = get("/internal/state").await;
    assert_eq!((&state["service"], &state["rules"]["origin"]), (&json!("order"), &json!("default")));
    let (_, document) = get("/openapi.json").await;
    for path in ["/v1/orders", "/v1/orders/{order_id}", "/v1/orders/{order_id}/history", "/v1/products/{sku}"] {
        assert!(document["paths"][path].is_object(), "{path}");
    }
    assert_eq!(get("/nothing").await.0, 404);
}
