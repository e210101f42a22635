//! What is served with less: because a sibling fails, or because an operator says so.

use std::time::Duration;

use contracts::{UserId, headers, recommendation::default_list};
use reqwest::header;
use rules::{AdmissionLevel, CouponLevel, RecommendationLevel, Rules};
use serde_json::{Value, json};
use testkit::{Reply, eventually, user_token};
use tokio::time::Instant;

use crate::{
    products::level,
    world::{World, answer, patient, stock_held, suggested, tea, tea_with_coupon},
};

/// Every way of not answering.
fn silences() -> [Reply; 3] {
    [Reply::Hang, Reply::Close, Reply::Json(500, json!({}))]
}

fn default_suggestions() -> Value {
    default_list().into_iter().take(5).map(|item| json!({"sku": item.sku, "name": item.name})).collect()
}

/// How often a feature was served with less, as its switch counts it.
async fn degraded_total(world: &World, feature: &str) -> u64 {
    let state = world.state().await;
    let switches = state["degrade"].as_array().unwrap();
    switches.iter().find(|switch| switch["feature"] == feature).unwrap()["degraded_total"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_goes_on_without_coupon_and_recommendation_within_its_deadline() {
    let mut rules = patient();
    for downstream in [&mut rules.downstream.coupon, &mut rules.downstream.recommendation] {
        downstream.timeout = Duration::from_millis(300);
        downstream.attempt_timeout = Duration::from_millis(150);
    }
    let world = World::with_rules(rules).await;
    for (nth, silence) in silences().into_iter().enumerate() {
        let (coupon, recommendation) = (silence.clone(), silence.clone());
        world.coupon.behave(move |_| coupon.clone());
        world.recommendation.behave(move |_| recommendation.clone());
        let (limit, begun) = (Duration::from_secs(10), Instant::now());
        let request = world.request(&format!("k{nth}"), &tea_with_coupon());
        let request = request.header(headers::EXPECTED_TIMEOUT_MS, limit.as_millis().to_string());
        let (status, order) = answer(request.send().await.unwrap()).await;
        assert_eq!(status, 201, "{silence:?}: {order}");
        assert!(begun.elapsed() < limit, "{silence:?}");
        assert_eq!(order["degraded"], json!(["coupon", "recommendation"]), "{silence:?}");
        assert_eq!((&order["total_minor"], &order["coupon"]["state"]), (&json!(1_000), &json!("pending")));
        assert_eq!(order["recommendations"], default_suggestions(), "{silence:?}");
    }
    assert_eq!((degraded_total(&world, "coupon").await, degraded_total(&world, "recommendation").await), (3, 3));
    let scraped = world.app.client.get(world.app.admin_url("/metrics")).send().await.unwrap().text().await.unwrap();
    for feature in ["coupon", "recommendation"] {
        assert!(scraped.contains(&format!("stability_degrade_hit_total{{feature=\"{feature}\"}}")), "{scraped}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_coupon_switch_asks_nobody_and_leaves_the_coupon_to_be_settled() {
    let world = World::start().await;
    world.rule(|rules| rules.degrade.coupon = CouponLevel::Pending);
    let (status, order) = world.place("k", &tea_with_coupon()).await;
    assert_eq!((status, &order["coupon"]["state"]), (201, &json!("pending")));
    assert_eq!((&order["total_minor"], &order["degraded"]), (&json!(1_000), &json!(["coupon"])));
    assert!(world.coupon.seen().is_empty());
    // Without a coupon nothing is less than normal.
    assert_eq!(world.place("plain", &tea()).await.1["degraded"], json!([]));
    world.rule(|rules| rules.degrade.coupon = CouponLevel::On);
    assert_eq!(world.place("again", &tea_with_coupon()).await.1["coupon"]["state"], "applied");
    assert_eq!(degraded_total(&world, "coupon").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_coupons_off_an_order_goes_on_without_its_coupon_for_good() {
    let world = World::start().await;
    world.rule(|rules| rules.degrade.coupon = CouponLevel::Off);
    let (status, order) = world.place("k", &tea_with_coupon()).await;
    assert_eq!((status, &order["coupon"]["state"]), (201, &json!("rejected")));
    assert_eq!((&order["total_minor"], &order["degraded"]), (&json!(1_000), &json!(["coupon"])));
    assert!(world.coupon.seen().is_empty());
    assert_eq!(world.place("plain", &tea()).await.1["degraded"], json!([]));
    assert_eq!(world.events().await, ["order.confirmed"; 2], "nobody is asked to settle it");
}

#[tokio::test(flavor = "multi_thread")]
async fn suggestions_fall_from_live_over_the_last_answer_and_the_default_list_to_none() {
    let world = World::start().await;
    world.inventory.behave(|_| Reply::Json(200, level()));
    let shown = async |sku: &str| {
        let (status, product) = world.get(&format!("/v1/products/{sku}")).await;
        assert_eq!(status, 200, "{product}");
        (product["recommendations"].clone(), product["degraded"].clone())
    };
    let (mug, degraded) = (json!([{"sku": "MUG", "name": "Mug"}]), json!(["recommendation"]));
    assert_eq!(shown("TEA").await, (mug.clone(), json!([])));
    for silence in silences() {
        world.recommendation.behave(move |_| silence.clone());
        assert_eq!(shown("TEA").await, (mug.clone(), degraded.clone()), "the last answer");
    }
    assert_eq!(shown("NEW").await, (default_suggestions(), degraded.clone()), "never answered for");

    world.recommendation.behave(suggested);
    let asked = world.recommendation.seen().len();
    world.rule(|rules| rules.degrade.recommendation = RecommendationLevel::Cache);
    assert_eq!(shown("TEA").await, (mug, degraded.clone()));
    world.rule(|rules| rules.degrade.recommendation = RecommendationLevel::Default);
    assert_eq!(shown("TEA").await, (default_suggestions(), degraded.clone()));
    world.rule(|rules| rules.degrade.recommendation = RecommendationLevel::Off);
    assert_eq!(shown("TEA").await, (json!([]), degraded.clone()));
    world.inventory.behave(stock_held);
    let (status, order) = world.place("k", &tea()).await;
    assert_eq!((status, &order["recommendations"], &order["degraded"]), (201, &json!([]), &degraded));
    assert_eq!(world.recommendation.seen().len(), asked, "a switch below live asks nobody");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_listed_users_order_while_admission_is_by_list() {
    let mut world = World::start().await;
    assert_eq!(world.place("before", &tea()).await.0, 201);
    let listed = UserId::generate();
    world.rule(|rules| {
        rules.version = 7;
        rules.degrade.admission = AdmissionLevel::AllowList;
        rules.degrade.allow_list.insert(listed.as_uuid());
    });
    let refused = world.request("k", &tea()).send().await.unwrap();
    assert!(refused.headers().contains_key(header::RETRY_AFTER));
    let (status, body) = answer(refused).await;
    assert_eq!((status, &body["type"]), (503, &json!("urn:problem:overloaded")));
    assert_eq!((&body["mechanism"], &body["rule_version"]), (&json!("degrade.admission"), &json!(7)));
    assert_eq!(body["retryable"], true);
    assert_eq!(world.count("select count(*) from idempotency_keys").await, 1, "nothing is stored of it");
    // What was placed can still be looked at.
    assert_eq!(world.get("/v1/orders").await.1["items"].as_array().unwrap().len(), 1);
    assert_eq!(degraded_total(&world, "admission").await, 1);

    let unlisted = std::mem::replace(&mut world.user, listed);
    assert_eq!(world.place("k", &tea()).await.0, 201);
    world.rule(|rules| rules.degrade.admission = AdmissionLevel::All);
    let lifted = world.app.post("/v1/orders").bearer_auth(user_token(unlisted)).json(&tea());
    assert_eq!(lifted.header(headers::IDEMPOTENCY_KEY, "k").send().await.unwrap().status(), 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_composite_rule_spares_a_service_in_trouble() {
    let trouble = "[composite.suggestions]\nper = \"provider\"\nprovider = \"recommendation\"\n\
                   action = \"degrade:recommendation\"\nrecover_after_ms = 600000\n\
                   conditions = [{ metric = \"failures\", at_least = 3, window_ms = 300000 }]\n";
    let mut rules = patient();
    rules.composite = Rules::from_toml(trouble).unwrap().composite;
    let world = World::with_rules(rules).await;
    world.inventory.behave(|_| Reply::Json(200, level()));
    world.recommendation.behave(|_| Reply::Close);
    // How many it takes depends on the tries that each makes.
    let asked = eventually("the rule holds", async || {
        let before = world.recommendation.seen().len();
        let (status, product) = world.get("/v1/products/TEA").await;
        assert_eq!((status, &product["degraded"]), (200, &json!(["recommendation"])));
        (before >= 3 && world.recommendation.seen().len() == before).then_some(before)
    })
    .await;
    world.recommendation.behave(suggested);
    assert_eq!(world.get("/v1/products/TEA").await.1["recommendations"], default_suggestions());
    assert_eq!(world.recommendation.seen().len(), asked);
}
