//! Whatever is sent, there is an answer, it is a problem, and it is not our fault.

use std::time::Duration;

use contracts::headers;
use serde_json::{Value, json};
use testkit::user_token;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::world::{World, answer, tea};

/// Sends raw bytes and returns the status and the body of what comes back.
async fn raw(world: &World, request: &[u8]) -> (u16, String) {
    let mut socket = TcpStream::connect(world.app.running.api_addr()).await.unwrap();
    // The server may answer and close before all of a large request is written.
    drop(socket.write_all(request).await);
    let mut bytes = Vec::new();
    let mut buffer = [0; 4_096];
    loop {
        match tokio::time::timeout(Duration::from_secs(10), socket.read(&mut buffer)).await.unwrap() {
            Ok(0) | Err(_) => break,
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break;
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

fn post(world: &World, extra: &str, body: &str) -> Vec<u8> {
    let token = user_token(world.user);
    format!(
        "POST /v1/orders HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nidempotency-key: k\r\n{extra}\r\n\r\n{body}"
    )
    .into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_malformed_request_gets_a_problem() {
    let world = World::start().await;
    let json_of =
        |body: &str| post(&world, &format!("content-type: application/json\r\ncontent-length: {}", body.len()), body);
    let deep = "[".repeat(60_000);
    let large = "x".repeat(70_000);
    let cases: Vec<(&str, Vec<u8>, u16)> = vec![
        ("no JSON", json_of("{"), 400),
        ("empty", json_of(""), 400),
        ("deep", json_of(&deep), 400),
        ("null", json_of("null"), 400),
        ("array", json_of(r#"[[],null,"t"]"#), 400),
        ("unknown member", json_of(r#"{"items":[],"payment_method":"t","colour":1}"#), 400),
        ("out of range", json_of(r#"{"items":[{"sku":"A","quantity":101}],"payment_method":"t"}"#), 422),
        ("NUL", json_of(r#"{"items":[{"sku":"A\u0000","quantity":1}],"payment_method":"t"}"#), 422),
        ("too large", json_of(&large), 413),
        ("no content type", post(&world, "content-length: 2", "{}"), 415),
        ("form", post(&world, "content-type: application/x-www-form-urlencoded\r\ncontent-length: 3", "a=b"), 415),
        (
            "gzip",
            post(&world, "content-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: 2", "{}"),
            415,
        ),
        (
            "bad chunk",
            post(&world, "content-type: application/json\r\ntransfer-encoding: chunked", "zz\r\n{}\r\n0\r\n\r\n"),
            400,
        ),
        (
            "large chunk",
            post(
                &world,
                "content-type: application/json\r\ntransfer-encoding: chunked",
                &format!("11170\r\n{large}\r\n0\r\n\r\n"),
            ),
            413,
        ),
        (
            "bad deadline",
            post(
                &world,
                "content-type: application/json\r\nx-envoy-expected-rq-timeout-ms: soon\r\ncontent-length: 2",
                "{}",
            ),
            400,
        ),
        (
            "negative deadline",
            post(
                &world,
                "content-type: application/json\r\nx-envoy-expected-rq-timeout-ms: -1\r\ncontent-length: 2",
                "{}",
            ),
            400,
        ),
        (
            "no time left",
            post(
                &world,
                "content-type: application/json\r\nx-envoy-expected-rq-timeout-ms: 0\r\ncontent-length: 2",
                "{}",
            ),
            504,
        ),
        (
            "bad retry budget",
            post(&world, "content-type: application/json\r\nx-retry-budget: many\r\ncontent-length: 2", "{}"),
            400,
        ),
    ];
    for (name, request, expected) in cases {
        let (status, body) = raw(&world, &request).await;
        assert_eq!(status, expected, "{name}: {body}");
        let problem: Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{name}: {e}: {body}"));
        assert_eq!(problem["status"], expected, "{name}");
        assert!(problem["type"].as_str().unwrap().starts_with("urn:problem:"), "{name}");
    }
    assert_eq!(world.count("select count(*) from idempotency_keys").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_hardly_http_gets_an_answer_as_well() {
    let world = World::start().await;
    let token = user_token(world.user);
    let long_header = format!("GET /v1/orders HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "h".repeat(60_000));
    let many_headers: String = (0..90).map(|i| format!("x-{i}: 1\r\n")).collect();
    for (name, request) in [
        ("no token", "GET /v1/orders HTTP/1.1\r\nhost: x\r\n\r\n".to_owned()),
        ("odd method", "BREW /v1/orders HTTP/1.1\r\nhost: x\r\n\r\n".to_owned()),
        (
            "odd path",
            format!("GET /v1/orders/%ff%00..%2f HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"),
        ),
        (
            "odd query",
            format!("GET /v1/orders?%ff=%zz&&== HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"),
        ),
        (
            "binary header",
            format!(
                "GET /v1/orders HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nx-request-id: \u{fe}\r\n\r\n"
            ),
        ),
        ("long header", long_header),
        ("many headers", format!("GET /v1/orders HTTP/1.1\r\nhost: x\r\n{many_headers}\r\n")),
        ("broken request line", "GET\r\n\r\n".to_owned()),
        ("no version", "GET /v1/orders\r\n\r\n".to_owned()),
        (
            "two lengths",
            "POST /v1/orders HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab".to_owned(),
        ),
    ] {
        let (status, body) = raw(&world, request.as_bytes()).await;
        let harmless = name == "binary header";
        assert!((if harmless { 200 } else { 400 }..500).contains(&status), "{name}: {status} {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_is_waited_for_only_so_long() {
    let world = World::start().await;
    let request = post(&world, "content-type: application/json\r\ncontent-length: 100", "{");
    let (status, body) = raw(&world, &request).await;
    assert_eq!(status, 400, "{body}");
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
    for token in ["", "x", unsigned.as_str(), &forged, &internal] {
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
