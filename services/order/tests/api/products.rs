use std::time::Duration;

use chrono::{DateTime, Utc};
use contracts::headers;
use rules::AvailabilityLevel;
use serde_json::{Value, json};
use testkit::{Reply, eventually, redis, user_token};
use tokio::time::Instant;

use crate::world::{World, answer, patient, problem};

pub fn level() -> serde_json::Value {
    json!({"sku": "TEA", "name": "Tea", "unit_price_minor": 500, "currency": "USD", "on_hand": 9, "reserved": 2, "available": 7})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_product_page_shows_price_availability_and_suggestions() {
    let world = World::start().await;
    world.inventory.behave(|_| Reply::Json(200, level()));
    let (status, product) = world.get("/v1/products/TEA").await;
    assert_eq!(status, 200);
    assert_eq!((&product["unit_price_minor"], &product["availability"]["available"]), (&json!(500), &json!(7)));
    assert_eq!(product["availability"]["stale"], false);
    assert_eq!(product["recommendations"], json!([{"sku": "MUG", "name": "Mug"}]));
    assert_eq!(product["degraded"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_without_suggestions_says_so() {
    let world = World::start().await;
    world.inventory.behave(|_| Reply::Json(200, level()));
    world.recommendation.behave(|_| Reply::Close);
    let (status, product) = world.get("/v1/products/TEA").await;
    assert_eq!((status, &product["degraded"]), (200, &json!(["recommendation"])));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_product_is_404_and_an_inventory_without_an_answer_503() {
    let world = World::start().await;
    world.inventory.behave(|_| problem("not-found", 404, json!({})));
    assert_eq!(world.get("/v1/products/NONE").await.0, 404);
    assert_eq!(world.get("/v1/products/a%2Fb%3Fc").await.0, 404);
    assert_eq!(world.inventory.seen().last().unwrap().path, "/v1/stock/a%2Fb%3Fc");
    world.inventory.behave(|_| Reply::Close);
    let (status, body) = world.get("/v1/products/TEA").await;
    assert_eq!((status, &body["type"]), (503, &json!("urn:problem:inventory-unavailable")));
    assert_eq!(world.get("/v1/products").await.0, 503);
}

#[tokio::test(flavor = "multi_thread")]
async fn products_are_listed_page_by_page() {
    let world = World::start().await;
    world.inventory.behave(|_| Reply::Json(200, json!({"items": [level()], "next_cursor": "abc"})));
    let (status, page) = world.get("/v1/products?limit=1").await;
    assert_eq!((status, &page["items"][0]["sku"], &page["next_cursor"]), (200, &json!("TEA"), &json!("abc")));
    world.get("/v1/products?limit=1&cursor=a%26b").await;
    assert_eq!(world.inventory.seen().last().unwrap().path, "/v1/stock?limit=1&cursor=a%26b");
    world.inventory.behave(|_| problem("invalid-request", 400, json!({})));
    assert_eq!(world.get("/v1/products?cursor=zzz").await.0, 400);
}

fn as_of(product: &Value) -> DateTime<Utc> {
    product["availability"]["as_of"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inventory_that_does_not_answer_leaves_what_it_said_last_and_says_when() {
    let mut rules = patient();
    rules.downstream.inventory.timeout = Duration::from_millis(400);
    rules.downstream.inventory.attempt_timeout = Duration::from_millis(150);
    // What is tested is each silence, not the breaker that they would open.
    rules.downstream.inventory.breaker.consecutive_failures = 1_000;
    let world = World::with_rules(rules).await;
    world.inventory.behave(|seen| match seen.path.starts_with("/v1/stock?") {
        true => Reply::Json(200, json!({"items": [level()], "next_cursor": "abc"})),
        false => Reply::Json(200, level()),
    });
    let asked = Utc::now();
    let fresh = world.get("/v1/products/TEA").await.1;
    let answered = Utc::now();
    assert_eq!((&fresh["availability"]["stale"], &fresh["degraded"]), (&json!(false), &json!([])));
    assert!(as_of(&fresh) >= asked && as_of(&fresh) <= answered, "{fresh}");
    let page = world.get("/v1/products?limit=7").await.1;
    assert_eq!(
        (&page["items"][0]["availability"]["stale"], &page["items"][0]["degraded"]),
        (&json!(false), &json!([]))
    );
    let last = as_of(&page["items"][0]);
    for silence in [Reply::Hang, Reply::Close, Reply::Json(500, json!({}))] {
        let how = silence.clone();
        world.inventory.behave(move |_| how.clone());
        let (limit, begun) = (Duration::from_secs(10), Instant::now());
        let request = world.app.get("/v1/products/TEA").bearer_auth(user_token(world.user));
        let request = request.header(headers::EXPECTED_TIMEOUT_MS, limit.as_millis().to_string());
        let (status, stale) = answer(request.send().await.unwrap()).await;
        assert_eq!(status, 200, "{silence:?}: {stale}");
        assert!(begun.elapsed() < limit, "{silence:?}");
        assert_eq!((&stale["availability"]["available"], &stale["availability"]["stale"]), (&json!(7), &json!(true)));
        assert_eq!((&stale["degraded"], &stale["unit_price_minor"]), (&json!(["availability"]), &json!(500)));
        // A list tells about its products too, and it came later.
        assert_eq!(as_of(&stale), last, "{silence:?}");
        let (status, stale) = world.get("/v1/products?limit=7").await;
        assert_eq!((status, &stale["items"][0]["availability"]["stale"]), (200, &json!(true)));
        assert_eq!((&stale["items"][0]["degraded"], &stale["next_cursor"]), (&json!(["availability"]), &json!("abc")));
        assert_eq!(as_of(&stale["items"][0]), last, "{silence:?}");
    }
    // Neither of them was ever answered for.
    for path in ["/v1/products/NEW", "/v1/products?limit=8"] {
        let (status, body) = world.get(path).await;
        assert_eq!((status, &body["type"]), (503, &json!("urn:problem:inventory-unavailable")), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_an_open_breaker_nobody_is_asked_and_what_is_known_is_shown() {
    let mut rules = patient();
    rules.downstream.inventory.breaker.consecutive_failures = 1;
    let world = World::with_rules(rules).await;
    world.inventory.behave(|_| Reply::Json(200, level()));
    assert_eq!(world.get("/v1/products/TEA").await.0, 200);
    world.inventory.behave(|_| Reply::Close);
    assert_eq!(world.get("/v1/products/TEA").await.1["availability"]["stale"], true);
    assert_eq!(world.state().await["downstream"]["inventory"]["breaker"]["state"], "open");
    let asked = world.inventory.seen().len();
    let (status, stale) = world.get("/v1/products/TEA").await;
    assert_eq!((status, &stale["availability"]["stale"]), (200, &json!(true)));
    assert_eq!(stale["degraded"], json!(["availability"]));
    assert_eq!(world.get("/v1/products/NEW").await.0, 503);
    assert_eq!(world.inventory.seen().len(), asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_shows_what_is_known_without_asking() {
    let world = World::start().await;
    world.inventory.behave(|_| Reply::Json(200, level()));
    assert_eq!(world.get("/v1/products/TEA").await.0, 200);
    world.rule(|rules| rules.degrade.availability = AvailabilityLevel::Cache);
    let asked = world.inventory.seen().len();
    let (status, stale) = world.get("/v1/products/TEA").await;
    assert_eq!((status, &stale["availability"]["stale"]), (200, &json!(true)));
    assert_eq!(world.get("/v1/products/NEW").await.0, 503);
    assert_eq!(world.inventory.seen().len(), asked);
    world.rule(|rules| rules.degrade.availability = AvailabilityLevel::Live);
    assert_eq!(world.get("/v1/products/TEA").await.1["availability"]["stale"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_product_that_is_gone_or_was_seen_too_long_ago_is_not_shown_from_memory() {
    let world = World::start().await;
    world.inventory.behave(|_| Reply::Json(200, level()));
    assert_eq!(world.get("/v1/products/TEA").await.0, 200);
    world.inventory.behave(|_| problem("not-found", 404, json!({})));
    assert_eq!(world.get("/v1/products/TEA").await.0, 404);
    world.inventory.behave(|_| Reply::Close);
    assert_eq!(world.get("/v1/products/TEA").await.0, 503, "gone");
    world.inventory.behave(|_| Reply::Json(200, level()));
    assert_eq!(world.get("/v1/products/TEA").await.0, 200);
    world.rule(|rules| rules.cache.keep_stale = Duration::ZERO);
    world.inventory.behave(|_| Reply::Close);
    assert_eq!(world.get("/v1/products/TEA").await.0, 503, "too long ago");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_has_seen_nothing_shows_what_another_one_saw_and_what_it_saw_go() {
    let mut rules = patient();
    rules.cache.patience = Duration::from_secs(2);
    let (url, prefix) = (redis::shared_url(), redis::key_prefix());
    let old = World::with_redis(rules.clone(), &url, &prefix).await;
    let new = World::with_redis(rules, &url, &prefix).await;
    new.inventory.behave(|_| Reply::Close);
    assert_eq!(new.get("/v1/products/TEA").await.0, 503);
    old.inventory.behave(|_| Reply::Json(200, level()));
    let seen = old.get("/v1/products/TEA").await.1;
    // It is told off the request's path.
    let shown = eventually("the other replica shows it", async || {
        let (status, product) = new.get("/v1/products/TEA").await;
        (status == 200).then_some(product)
    })
    .await;
    assert_eq!((&shown["availability"]["stale"], &shown["degraded"]), (&json!(true), &json!(["availability"])));
    assert_eq!(as_of(&shown), as_of(&seen));
    old.inventory.behave(|_| problem("not-found", 404, json!({})));
    assert_eq!(old.get("/v1/products/TEA").await.0, 404);
    eventually("the other replica has heard that it is gone", async || {
        (new.get("/v1/products/TEA").await.0 == 503).then_some(())
    })
    .await;
}
