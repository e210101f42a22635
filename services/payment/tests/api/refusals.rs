//! What is refused before anything is looked at.

use chassis::dev_secrets;
use chrono::Utc;
use contracts::{AttemptId, RefundId, Service, UserId, headers};
use serde_json::{Value, json};
use testkit::{caller_token, documented, malformed::Listener, user_token};

use crate::scene::{Scene, WEBHOOK_SECRET, approves, charge, path, send, send_anonymously};

#[tokio::test]
async fn only_services_are_let_in() {
    let scene = Scene::start(approves()).await;
    let id = AttemptId::generate();
    let refund = json!({"refund_id": RefundId::generate(), "amount_minor": 1, "reason": "cancelled"});
    let requests = || {
        [
            scene.app.put(&path(id)).json(&charge()),
            scene.app.get(&path(id)),
            scene.app.post(&format!("{}/fence", path(id))),
            scene.app.post(&format!("{}/refunds", path(id))).json(&refund),
        ]
    };
    for request in requests() {
        send_anonymously(request).await.is_problem(401, "unauthenticated");
    }
    for request in requests() {
        send_anonymously(request.bearer_auth(user_token(UserId::generate()))).await.is_problem(401, "unauthenticated");
    }
    for request in requests() {
        send_anonymously(request.bearer_auth("guess")).await.is_problem(401, "unauthenticated");
    }
    assert_eq!(scene.state(id).await, None);
    assert_eq!(scene.charges(), 0);
}

#[tokio::test]
async fn a_body_that_is_wrong_is_refused_by_field_and_charges_nothing() {
    let scene = Scene::start(approves()).await;
    let id = AttemptId::generate();
    let with = |member: &str, value: Value| {
        let mut body = serde_json::to_value(charge()).unwrap();
        body[member] = value;
        body
    };
    for (body, status, slug, field) in [
        (with("amount_minor", json!(0)), 422, "validation-failed", "amount_minor"),
        (with("amount_minor", json!(-5)), 422, "validation-failed", "amount_minor"),
        (with("amount_minor", json!(1.5)), 400, "invalid-request", "amount_minor"),
        (with("amount_minor", json!("1")), 400, "invalid-request", "amount_minor"),
        (with("currency", json!("usd")), 400, "invalid-request", "currency"),
        (with("payment_method", json!("")), 422, "validation-failed", "payment_method"),
        (with("payment_method", json!("a\u{0}b")), 422, "validation-failed", "payment_method"),
        (with("payment_method", json!("x".repeat(65))), 422, "validation-failed", "payment_method"),
        (with("order_id", json!("7")), 400, "invalid-request", "order_id"),
        (with("tip_minor", json!(1)), 400, "invalid-request", "tip_minor"),
        (json!([]), 400, "invalid-request", "body"),
    ] {
        let answer = send(scene.app.put(&path(id)).json(&body)).await;
        answer.is_problem(status, slug);
        assert_eq!(answer.body["errors"][0]["field"], field, "{body}");
    }
    let raw = |kind: &str, body: String| scene.app.put(&path(id)).header("content-type", kind).body(body);
    send(raw("application/json", "{".into())).await.is_problem(400, "invalid-request");
    send(raw("text/plain", "{}".into())).await.is_problem(415, "unsupported-media-type");
    send(raw("application/json", " ".repeat(70_000))).await.is_problem(413, "payload-too-large");
    let bad_header = scene.app.put(&path(id)).json(&charge()).header(headers::EXPECTED_TIMEOUT_MS, "soon");
    send(bad_header).await.is_problem(400, "invalid-request");
    assert_eq!(scene.state(id).await, None);
    assert_eq!(scene.charges(), 0);
}

#[tokio::test]
async fn whatever_is_sent_there_is_an_answer_on_every_port() {
    let scene = Scene::start(approves()).await;
    let (api, token) = (scene.app.running.api_addr(), caller_token(Service::Order));
    let route = Listener::route(api, "PUT", &path(AttemptId::generate()), &token);
    route.refuses_malformed_bodies().await;
    route.refuses_malformed_headers().await;
    route.answers_what_is_hardly_http().await;
    // What a stranger may send to: not signed, so that it is all one.
    let webhook = Listener::route(api, "POST", "/v1/webhooks/provider", "");
    webhook.answers_what_is_hardly_http().await;
    let unsigned = ["", "{", &"[".repeat(60_000)].map(|body| ("unsigned", webhook.json(body), 401));
    webhook.refuses(unsigned.into()).await;
    webhook.refuses(vec![("too large", webhook.json(&" ".repeat(70_000)), 413)]).await;
    Listener::route(scene.app.running.admin_addr(), "GET", "/healthz", &token).answers_what_is_hardly_http().await;
    assert_eq!(scene.charges(), 0);
}

#[tokio::test]
async fn what_is_not_there_is_404_and_a_wrong_method_405() {
    let scene = Scene::start(approves()).await;
    let id = AttemptId::generate();
    scene.get(id).await.is_problem(404, "not-found");
    send(scene.app.put("/v1/payments/7").json(&charge())).await.is_problem(404, "not-found");
    send(scene.app.get("/v1/payments/x")).await.is_problem(404, "not-found");
    send(scene.app.post("/v1/payments/x/fence")).await.is_problem(404, "not-found");
    send(scene.app.get("/v1/payments")).await.is_problem(404, "not-found");
    send(scene.app.get("/elsewhere")).await.is_problem(404, "not-found");
    let answer = send(scene.app.post(&path(id))).await;
    answer.is_problem(405, "method-not-allowed");
    assert_eq!(answer.headers["allow"], "GET, PUT");
    let answer = send(scene.app.put(&format!("{}/fence", path(id)))).await;
    answer.is_problem(405, "method-not-allowed");
    assert_eq!(answer.headers["allow"], "POST");
}

#[tokio::test]
async fn the_document_names_every_route_and_how_to_get_in() {
    let scene = Scene::start(approves()).await;
    let answer = send_anonymously(scene.app.client.get(scene.app.admin_url("/openapi.json"))).await;
    let paths = &answer.body["paths"];
    for (path, method) in [
        ("/v1/payments/{attempt_id}", "put"),
        ("/v1/payments/{attempt_id}", "get"),
        ("/v1/payments/{attempt_id}/fence", "post"),
        ("/v1/payments/{attempt_id}/refunds", "post"),
    ] {
        assert_eq!(paths[path][method]["security"], json!([{"internal": []}]), "{method} {path}");
    }
    assert!(paths["/v1/webhooks/provider"]["post"].is_object());
    assert_eq!(answer.body["components"]["securitySchemes"]["internal"]["scheme"], "bearer");
    assert!(answer.body["components"]["schemas"]["PaymentStatus"].is_object());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers_as_its_document_says_whatever_is_sent() {
    let scene = Scene::start(approves()).await;
    // As a service, and signed as the provider signs: each route reads what it goes by.
    let credentials = |operation: &str, body: &str| {
        let signature = provider::sign(WEBHOOK_SECRET, Utc::now().timestamp(), body.as_bytes());
        let caller = if operation.contains("/operator/") { "console" } else { "order" };
        let token = format!("Bearer {}", dev_secrets::internal_token(caller));
        vec![("authorization", token), (headers::PROVIDER_SIGNATURE, signature)]
    };
    documented::check_as(&scene.app, &["USD", "USD", "tok_approve"], credentials).await;
}
