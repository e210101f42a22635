//! Everybody's orders, and one placed for somebody.

use contracts::UserId;
use serde_json::{Value, json};
use testkit::{Reply, Stub, stub::refusing_url};
use uuid::Uuid;

use crate::desk::{Desk, body as answered, order};

fn tea() -> Value {
    json!({"user": "ada", "items": [{"sku": "TEA", "quantity": 1}], "payment_method": "tok_approve"})
}

async fn desk(stub: &Stub) -> Desk {
    let url = stub.url();
    Desk::with(|config| config.callees.order_url = url).await
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_are_those_that_order_shows_the_console() {
    let id = Uuid::now_v7();
    let at = "2026-11-30T10:00:00Z";
    let stub = Stub::start(move |seen| match seen.path.split('?').next().unwrap() {
        "/v1/operator/orders" => Reply::Json(200, json!({"items": [order(id)], "next_cursor": "c"})),
        path if path.ends_with("/history") => {
            Reply::Json(200, json!([{"at": at, "from": null, "to": "created", "event": "submitted", "detail": null}]))
        }
        _ => Reply::Json(200, order(id)),
    })
    .await;
    let desk = desk(&stub).await;
    let page = desk.seen("/v1/orders?status=confirmed&limit=7").await;
    assert_eq!(page, json!({"items": [order(id)], "next_cursor": "c"}));
    assert_eq!(desk.seen(&format!("/v1/orders/{id}")).await, order(id));
    assert_eq!(desk.seen(&format!("/v1/orders/{id}/history")).await[0]["event"], "submitted");
    let seen = stub.seen();
    assert_eq!(seen[0].path, "/v1/operator/orders?status=confirmed&limit=7");
    let token = format!("Bearer {}", chassis::dev_secrets::internal_token("console"));
    for request in &seen {
        let shown = request.headers.iter().find(|(name, _)| name == "authorization").map(|(_, value)| value);
        assert_eq!(shown, Some(&token), "by the console's own token");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_order_refuses_is_passed_on_and_one_that_is_away_is_named() {
    let refusal = json!({
        "type": "urn:problem:invalid-request", "title": "x", "status": 400, "detail": "limit must be 1 to 100",
        "retryable": false, "errors": [{"field": "limit", "detail": "must be 1 to 100"}]
    });
    let told = refusal.clone();
    let stub = Stub::start(move |_| Reply::Json(400, told.clone())).await;
    let bad = desk(&stub).await;
    assert_eq!(answered(bad.get("/v1/orders?limit=0").send().await.unwrap(), 400).await["errors"], refusal["errors"]);
    answered(bad.get("/v1/orders/seven").send().await.unwrap(), 404).await;

    let distrusting = Stub::start(|_| {
        Reply::Json(
            403,
            json!({
                "type": "urn:problem:forbidden", "title": "x", "status": 403, "detail": "no", "retryable": false
            }),
        )
    })
    .await;
    let distrusted = desk(&distrusting).await;
    answered(distrusted.get("/v1/orders").send().await.unwrap(), 500).await;

    let away = Desk::with(|config| config.callees.order_url = refusing_url()).await;
    let problem = answered(away.get("/v1/orders").send().await.unwrap(), 503).await;
    assert_eq!((&problem["type"], &problem["mechanism"]), (&json!("urn:problem:overloaded"), &json!("connect.order")));
    answered(away.posting("/v1/orders", &tea()).send().await.unwrap(), 503).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_placed_as_its_user_would_and_whatever_order_says_is_passed_on() {
    let stub = Stub::start(|_| Reply::Json(201, json!({"id": "o", "status": "confirmed"}))).await;
    let desk = desk(&stub).await;
    let placed = desk.posting("/v1/orders", &tea()).send().await.unwrap();
    assert_eq!(placed.headers()["x-order-status"], "201");
    assert_eq!(answered(placed, 200).await, json!({"id": "o", "status": "confirmed"}));
    stub.behave(|_| Reply::Json(402, json!({"type": "urn:problem:payment-declined", "status": 402})));
    let declined = desk.posting("/v1/orders", &tea()).header("idempotency-key", "\"mine\"").send().await.unwrap();
    assert_eq!(declined.headers()["x-order-status"], "402");
    assert_eq!(answered(declined, 200).await["type"], "urn:problem:payment-declined");

    let seen = stub.seen_at("POST", "/v1/orders");
    assert_eq!(seen[0].body, json!({"items": [{"sku": "TEA", "quantity": 1}], "payment_method": "tok_approve"}));
    let header = |n: usize, name: &str| {
        seen[n].headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()).unwrap()
    };
    assert_eq!(header(1, "idempotency-key"), "mine");
    let payload = header(0, "authorization").split('.').nth(1).unwrap().to_owned();
    let claims = decoded(&payload);
    let ada = UserId::from_uuid(Uuid::new_v5(&Uuid::NAMESPACE_OID, b"ada"));
    assert_eq!((&claims["sub"], &claims["scope"]), (&json!(ada), &json!("user")));
    let lasts = claims["exp"].as_i64().unwrap() - chrono::Utc::now().timestamp();
    assert!((1..=60).contains(&lasts), "{lasts}");
    let did = desk.audit().await;
    assert_eq!(did.len(), 2);
    assert_eq!((did[0].0.as_str(), did[0].1.as_str(), did[0].2.as_str()), ("ada", "place_order", "user ada"));
}

/// The middle of a token: base64url, which needs no library to be read.
fn decoded(payload: &str) -> Value {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (mut bits, mut held, mut bytes) = (0_u32, 0, Vec::new());
    for byte in payload.bytes() {
        let value = ALPHABET.iter().position(|known| *known == byte).unwrap();
        bits = (bits << 6) | u32::try_from(value).unwrap();
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from((bits >> held) & 0xff).unwrap());
        }
    }
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_cannot_be_is_refused_before_it_is_placed() {
    let stub = Stub::start(|_| Reply::Json(201, json!({}))).await;
    let desk = desk(&stub).await;
    let with = |member: &str, value: Value| {
        let mut body = tea();
        body[member] = value;
        body
    };
    for (body, status, field) in [
        (with("user", json!("")), 422, "user"),
        (with("items", json!([])), 422, "items"),
        (with("items", json!([{"sku": "TEA", "quantity": 0}])), 422, "items[0].quantity"),
        (with("payment_method", json!("a b")), 422, "payment_method"),
        (with("more", json!(1)), 400, "more"),
    ] {
        let problem = answered(desk.posting("/v1/orders", &body).send().await.unwrap(), status).await;
        assert_eq!(problem["errors"][0]["field"], field, "{body}");
    }
    answered(desk.posting("/v1/orders", &tea()).header("idempotency-key", "a b").send().await.unwrap(), 400).await;
    assert_eq!((stub.seen().len(), desk.audit().await.len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_form_is_shown_what_the_shop_has() {
    let stub = Stub::start(|_| Reply::Json(200, json!({"items": [{"sku": "TEA"}], "next_cursor": null}))).await;
    let desk = desk(&stub).await;
    assert_eq!(desk.seen("/v1/products?limit=100").await["items"][0]["sku"], "TEA");
    assert_eq!(stub.seen()[0].path, "/v1/products?limit=100");
    stub.behave(|_| {
        Reply::Json(
            400,
            json!({
                "type": "urn:problem:invalid-request", "title": "x", "status": 400, "detail": "x", "retryable": false
            }),
        )
    });
    answered(desk.get("/v1/products?limit=0").send().await.unwrap(), 400).await;
}
