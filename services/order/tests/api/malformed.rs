//! Whatever is sent, there is an answer, it is a problem, and it is not our fault.

use chassis::{
    auth::{Claims, Scope, mint},
    dev_secrets,
};
use contracts::{UserId, headers};
use serde_json::json;
use testkit::{
    Reply, documented,
    malformed::{Listener, raw, trickle},
    user_token,
};

use crate::{
    products::level,
    stubs::stock_held,
    world::{World, answer, tea},
};

fn orders(world: &World) -> Listener {
    let mut listener = Listener::route(world.app.running.api_addr(), "POST", "/v1/orders", &user_token(world.user));
    listener.headers.push_str("idempotency-key: k\r\n");
    listener
}

#[tokio::test(flavor = "multi_thread")]
async fn every_malformed_request_gets_a_problem() {
    let world = World::start().await;
    let orders = orders(&world);
    orders.refuses_malformed_bodies().await;
    orders.refuses_malformed_headers().await;
    let member = |items: &str, more: &str| orders.json(&format!(r#"{{"items":[{items}],"payment_method":"t"{more}}}"#));
    orders
        .refuses(vec![
            ("unknown member", member("", r#","colour":1"#), 400),
            ("out of range", member(r#"{"sku":"A","quantity":101}"#, ""), 422),
            ("NUL", member(r#"{"sku":"A\u0000","quantity":1}"#, ""), 422),
        ])
        .await;
    assert_eq!(world.count("select count(*) from idempotency_keys").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_hardly_http_gets_an_answer_as_well_on_both_ports() {
    let world = World::start().await;
    orders(&world).answers_what_is_hardly_http().await;
    let stranger = Listener { headers: String::new(), ..orders(&world) };
    stranger.answers_what_is_hardly_http().await;
    for path in ["/healthz", "/readyz", "/metrics", "/internal/state", "/openapi.json", "/nothing"] {
        let admin = Listener { addr: world.app.running.admin_addr(), path: path.to_owned(), ..orders(&world) };
        admin.answers_what_is_hardly_http().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_or_comes_too_slowly_is_waited_for_only_so_long() {
    let world = World::start().await;
    let orders = orders(&world);
    // At the pace of a trickle, all of it would take twenty seconds.
    let request = orders.request("content-type: application/json\r\ncontent-length: 1000", "{");
    let (short, slow) = tokio::join!(raw(orders.addr, &request), trickle(orders.addr, &request));
    for (status, body) in [short, slow] {
        assert_eq!(status, 400, "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_methods_and_unknown_paths_are_problems() {
    let world = World::start().await;
    let token = user_token(world.user);
    for (method, path, status) in [
        ("DELETE", "/v1/orders", 405),
        ("PUT", "/v1/orders", 405),
        ("POST", "/v1/products", 405),
        ("GET", "/v1/nothing", 404),
        ("GET", "/", 404),
        ("GET", "/v1/orders/not-an-id", 404),
    ] {
        let method = method.parse().unwrap();
        let response = world.app.client.request(method, world.app.url(path)).bearer_auth(&token).send().await.unwrap();
        assert_eq!(response.headers().contains_key("allow"), status == 405, "{path}");
        assert_eq!(response.headers()["content-type"], headers::PROBLEM_JSON, "{path}");
        assert!(response.headers().contains_key(headers::REQUEST_ID), "{path}");
        let (got, body) = answer(response).await;
        assert_eq!((got, &body["status"]), (status, &json!(status)), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_users_with_a_valid_token_get_in() {
    let world = World::start().await;
    let valid = user_token(world.user);
    let payload = valid.split('.').nth(1).unwrap();
    let unsigned = format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{payload}.");
    let forged = format!("{}x", valid.trim_end_matches(|c: char| c.is_ascii_alphanumeric()));
    let internal = testkit::caller_token(contracts::Service::Payment);
    let now = chrono::Utc::now().timestamp().unsigned_abs();
    let claims = |exp| Claims { sub: world.user, name: None, tenant: None, tier: None, scope: Scope::User, exp };
    let expired = mint(dev_secrets::AUTH_JWT_SECRET, &claims(now - 1)).unwrap();
    let foreign = mint("the-secret-of-somebody-else-0123456789", &claims(now + 3_600)).unwrap();
    for token in ["", "x", unsigned.as_str(), &forged, &internal, &expired, &foreign] {
        let request =
            world.app.post("/v1/orders").header(headers::IDEMPOTENCY_KEY, "k").bearer_auth(token).json(&tea());
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        let (status, body) = answer(response).await;
        assert_eq!((status, &body["type"]), (401, &json!("urn:problem:unauthenticated")), "{token}");
    }
    let none = world.app.get("/v1/orders").send().await.unwrap();
    assert_eq!(none.status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers_as_its_document_says_whatever_is_sent() {
    let world = World::start().await;
    // Inventory as order and its product pages know it.
    world.inventory.behave(|seen| match (seen.method.as_str(), seen.path.split('?').next()) {
        ("GET", Some("/v1/stock")) => Reply::Json(200, json!({"items": [level()], "next_cursor": null})),
        ("GET", _) => Reply::Json(200, level()),
        _ => stock_held(seen),
    });
    let known = ["TEA", "WELCOME10", "tok_approve"];
    // Another user each time, since a user's limit is no subject of this.
    let credentials = |operation: &str, _: &str| {
        let console = || dev_secrets::internal_token("console");
        let token = if operation.contains("/operator/") { console() } else { user_token(UserId::generate()) };
        vec![("authorization", format!("Bearer {token}"))]
    };
    documented::check_as(&world.app, &known, credentials).await;
}
