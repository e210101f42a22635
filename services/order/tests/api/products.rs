use serde_json::json;
use testkit::Reply;

use crate::world::{World, problem};

fn level() -> serde_json::Value {
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
