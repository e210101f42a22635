//! What gets through, and what does not.

use contracts::headers;
use reqwest::Method;
use serde_json::json;
use testkit::Reply;

use crate::running::{Gateway, checkout, fine, order};

#[tokio::test]
async fn a_client_is_heard_but_where_it_speaks_for_others() {
    let answering = |_: &_| {
        let own = vec![(headers::RETRY_LEFT, "3".to_owned()), ("retry-after", "2".to_owned())];
        Reply::With(own, Box::new(Reply::Json(202, json!({}))))
    };
    let order = order(answering).await;
    let Some(gateway) = Gateway::before(&[&order]).await else { return };
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let passed = [
        (headers::REQUEST_ID, "4bf92f35-mine"),
        (headers::TRACEPARENT, trace),
        (headers::IDEMPOTENCY_KEY, "\"key-1\""),
        // Order lets a stranger lower these, and not raise them.
        (headers::RETRY_BUDGET, "1"),
        (headers::CRITICALITY, "sheddable"),
    ];
    let dropped = [
        ("x-envoy-upstream-rq-timeout-ms", "10"),
        ("x-envoy-retry-on", "5xx"),
        ("x-envoy-max-retries", "9"),
        ("x-envoy-original-path", "/admin"),
        ("x-envoy-internal", "true"),
        ("x-real-ip", "203.0.113.9"),
        ("x-forwarded-host", "elsewhere"),
        ("forwarded", "for=203.0.113.9"),
        (headers::RETRY_LEFT, "7"),
    ];
    let mut request = gateway.post("/v1/orders").json(&json!({"items": []}));
    for (name, value) in passed.iter().chain(&dropped) {
        request = request.header(*name, *value);
    }
    // Set anew, whatever the client says.
    let request = request.header(headers::EXPECTED_TIMEOUT_MS, "10").header("x-forwarded-for", "203.0.113.9");
    let answer = request.send().await.unwrap();

    let seen = order.seen_at("POST", "/v1/orders").remove(0);
    for (name, value) in passed {
        assert_eq!(seen.header(name), Some(value), "{name}");
    }
    for (name, _) in dropped {
        assert_eq!(seen.header(name), None, "{name}");
    }
    assert!(seen.header("authorization").is_some_and(|token| token.starts_with("Bearer ")));
    assert!(seen.header("x-forwarded-for").is_some_and(|address| !address.contains("203.0.113.9")));
    assert_eq!(seen.header(headers::EXPECTED_TIMEOUT_MS), Some("5000"));
    assert_eq!(seen.body, json!({"items": []}));

    assert_eq!(answer.status(), 202);
    let told = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap());
    assert_eq!((told(headers::REQUEST_ID), told("retry-after")), (Some("4bf92f35-mine"), Some("2")));
    for ours in [headers::RETRY_LEFT, "x-envoy-upstream-service-time", "server"] {
        assert_eq!(told(ours), None, "{ours}");
    }
}

#[tokio::test]
async fn a_request_without_an_id_gets_one_that_order_and_the_client_both_know() {
    let order = order(fine).await;
    let Some(gateway) = Gateway::before(&[&order]).await else { return };
    let answer = gateway.get("/v1/products").send().await.unwrap();
    let made = answer.headers()[headers::REQUEST_ID].to_str().unwrap();
    assert_eq!(order.seen_at("GET", "/v1/products")[0].header(headers::REQUEST_ID), Some(made));
}

#[tokio::test]
async fn what_order_refuses_is_passed_on_as_it_is_and_not_asked_again() {
    let order = order(|_| Reply::Json(503, json!({"mechanism": "in_flight"}))).await;
    let Some(gateway) = Gateway::before(&[&order]).await else { return };
    for method in [Method::GET, Method::POST, Method::DELETE] {
        let answer = gateway.request(method.clone(), "/v1/orders").send().await.unwrap();
        assert_eq!(answer.status(), 503);
        assert_eq!(answer.text().await.unwrap(), r#"{"mechanism":"in_flight"}"#);
        assert_eq!(order.seen_at(method.as_str(), "/v1/orders").len(), 1, "{method}");
    }
}

#[tokio::test]
async fn whoever_watches_sees_health_and_metrics_and_nothing_of_envoys_administration() {
    let order = order(fine).await;
    let Some(gateway) = Gateway::before(&[&order]).await else { return };
    for (method, path, status) in [
        (Method::GET, "/healthz", 200),
        (Method::GET, "/readyz", 200),
        (Method::GET, "/metrics", 200),
        (Method::POST, "/quitquitquit", 404),
        (Method::POST, "/metrics", 404),
        (Method::GET, "/config_dump", 404),
        (Method::GET, "/", 404),
    ] {
        let answer = gateway.watched(method, path).send().await.unwrap();
        assert_eq!(answer.status(), status, "{path}");
    }
    // And clients do not even see those.
    for path in ["/healthz", "/readyz", "/metrics", "/stats"] {
        assert_eq!(gateway.get(path).send().await.unwrap().status(), 404, "{path}");
    }
    assert!(order.seen().iter().all(|seen| seen.path == "/readyz"));
}

#[tokio::test]
async fn what_prometheus_keeps_of_the_gateway_is_there() {
    let order = order(fine).await;
    let Some(gateway) = Gateway::before(&[&order]).await else { return };
    let file = std::fs::read_to_string(checkout().join("deploy/prometheus/prometheus.yml")).unwrap();
    let words = file.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let kept: Vec<&str> = words.filter(|word| word.starts_with("envoy_")).collect();
    assert!(kept.len() > 10, "{kept:?}");
    let text = gateway.watched(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    for name in kept {
        let is_there =
            text.lines().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
        assert!(is_there, "{name} is not there");
    }
    // By these, alerts and dashboard tell clients from those who watch, and order from Envoy's own administration.
    for labelled in [
        "envoy_http_conn_manager_prefix=\"edge\"",
        "envoy_local_http_ratelimit_prefix=\"edge\"",
        "envoy_cluster_name=\"order\"",
    ] {
        assert!(text.contains(labelled), "{labelled}");
    }
}
