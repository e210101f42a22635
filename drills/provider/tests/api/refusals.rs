use reqwest::Method;
use serde_json::json;

use crate::setup::{body, problem, setup};

#[tokio::test]
async fn a_charge_that_cannot_be_read_is_refused_with_a_problem() {
    let it = setup().await;
    let post = || it.api.client.post(it.api.url("/v1/charges")).header("idempotency-key", "k");
    let json = |text: &str| post().header("content-type", "application/json").body(text.to_owned());

    problem(json("{").send().await.unwrap(), 400, "invalid-request").await;
    problem(json("").send().await.unwrap(), 400, "invalid-request").await;
    let in_order = r#"[1000, "USD", "tok_approve", "order-1"]"#;
    problem(json(in_order).send().await.unwrap(), 400, "invalid-request").await;
    problem(post().body("{}").send().await.unwrap(), 415, "unsupported-media-type").await;
    let mut unknown = body("tok_approve");
    unknown["colour"] = "red".into();
    problem(post().json(&unknown).send().await.unwrap(), 400, "invalid-request").await;
    let large = json(&" ".repeat(65 * 1024)).send().await.unwrap();
    problem(large, 413, "payload-too-large").await;
}

#[tokio::test]
async fn a_value_out_of_range_is_a_422_that_names_the_field() {
    let it = setup().await;
    for (field, value) in [
        ("amount_minor", json!(0)),
        ("amount_minor", json!(-5)),
        ("payment_method", json!("tok_magic")),
        ("payment_method", json!("tok_error_200")),
        ("payment_method", json!("")),
        ("reference", json!("")),
        ("reference", json!("a\u{0}b")),
    ] {
        let mut bad = body("tok_approve");
        bad[field] = value.clone();
        let response = it.api.post_charge("k", &bad).send().await.unwrap();
        let problem = problem(response, 422, "validation-failed").await;
        assert_eq!(problem.errors[0].field, field, "{value}");
    }
    assert_eq!(it.api.ledger().await.charges, []);
}

#[tokio::test]
async fn a_charge_needs_a_key_that_can_be_read() {
    let it = setup().await;
    let post = || it.api.client.post(it.api.url("/v1/charges")).json(&body("tok_approve"));
    problem(post().send().await.unwrap(), 400, "idempotency-key-missing").await;
    let bad = post().header("idempotency-key", "two words").send().await.unwrap();
    assert_eq!(problem(bad, 400, "invalid-request").await.errors[0].field, "idempotency-key");
    let bytes = post().header("idempotency-key", &b"\xff"[..]).send().await.unwrap();
    problem(bytes, 400, "invalid-request").await;
}

#[tokio::test]
async fn unknown_paths_and_wrong_methods_are_problems_too() {
    let it = setup().await;
    problem(it.api.get("/nowhere").await, 404, "not-found").await;
    problem(it.api.get("/v1/charges/by-key/%FF").await, 404, "not-found").await;
    for (method, path, allow) in [
        (Method::GET, "/v1/charges", "POST"),
        (Method::DELETE, "/v1/charges/by-key/k", "GET"),
        (Method::GET, "/v1/charges/x/refunds", "POST"),
        (Method::POST, "/v1/ledger", "GET"),
        (Method::POST, "/admin/behaviour", "GET, PUT"),
        (Method::GET, "/admin/reset", "POST"),
        (Method::POST, "/healthz", "GET"),
    ] {
        let response = it.api.client.request(method, it.api.url(path)).send().await.unwrap();
        assert_eq!(response.headers()["allow"], allow, "{path}");
        problem(response, 405, "method-not-allowed").await;
    }
}

#[tokio::test]
async fn health_is_a_200_that_names_the_provider() {
    let it = setup().await;
    let health = it.api.get("/healthz").await;
    assert_eq!(health.status(), 200);
    assert_eq!(health.json::<serde_json::Value>().await.unwrap()["name"], "primary");
}
