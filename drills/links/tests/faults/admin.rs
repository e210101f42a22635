//! The admin API: what it shows, what it refuses.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::eventually;

use crate::setup::{HTTP, QUIET, TCP, World, world};

async fn problem(answer: reqwest::Response, status: u16, slug: &str) -> Value {
    assert_eq!(answer.status(), status);
    assert_eq!(answer.headers()["content-type"], "application/problem+json");
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["type"], format!("urn:problem:{slug}"));
    body
}

async fn post(it: &World, body: &Value) -> reqwest::Response {
    it.client.post(it.admin("/v1/faults")).json(body).send().await.unwrap()
}

#[tokio::test]
async fn links_are_listed_in_their_order_with_their_faults() {
    let it = world().await;
    let wanted = json!({"link": TCP, "kind": "latency", "latency_ms": 9, "jitter_ms": 2, "ratio": 0.5, "seed": 11});
    let fault: Value = post(&it, &wanted).await.json().await.unwrap();
    let expected = json!({"id": fault["id"], "link": TCP, "kind": "latency", "latency_ms": 9, "jitter_ms": 2,
                          "on": "reply", "ratio": 0.5, "seed": 11, "applied": 0, "active": true});
    assert_eq!(fault, expected);
    let list: Value = it.client.get(it.admin("/v1/links")).send().await.unwrap().json().await.unwrap();
    let names: Vec<&Value> = list["items"].as_array().unwrap().iter().map(|link| &link["name"]).collect();
    assert_eq!(names, [HTTP, QUIET, TCP]);
    assert_eq!(list["items"][2]["faults"], json!([expected]));
    assert_eq!(list["items"][2]["protocol"], "tcp");
    let faults: Value = it.client.get(it.admin("/v1/faults")).send().await.unwrap().json().await.unwrap();
    assert_eq!(faults["items"], json!([expected]));
}

#[tokio::test]
async fn what_a_fault_has_done_can_be_read_when_it_is_over_and_a_reset_forgets_it() {
    let it = world().await;
    let id = it.fault(json!({"link": HTTP, "kind": "http_status", "status": 500})).await;
    it.get().await.unwrap();
    let off = it.off(id).await;
    assert_eq!((&off["active"], &off["applied"]), (&json!(false), &json!(1)));
    assert_eq!(it.applied(id).await, 1);
    let again = it.client.delete(it.admin(&format!("/v1/faults/{id}"))).send().await.unwrap();
    problem(again, 404, "not-found").await;

    let other = it.fault(json!({"link": HTTP, "kind": "http_status", "status": 500})).await;
    assert_ne!(id, other);
    let reset = it.client.post(it.admin("/v1/reset")).send().await.unwrap();
    assert_eq!(reset.status(), 200);
    assert_eq!(it.get().await.unwrap().status(), 200);
    let link = it.link(HTTP).await;
    assert_eq!((&link["applied"], &link["requests"], &link["faults"]), (&json!({}), &json!(1), &json!([])));
    let gone = it.client.get(it.admin(&format!("/v1/faults/{id}"))).send().await.unwrap();
    problem(gone, 404, "not-found").await;
}

#[tokio::test]
async fn after_a_reset_the_same_faults_get_the_same_seeds() {
    let it = world().await;
    let mut seeds = Vec::new();
    for _ in 0..2 {
        let wanted = json!({"link": HTTP, "kind": "hang", "ratio": 0.5});
        for _ in 0..2 {
            let fault: Value = post(&it, &wanted).await.json().await.unwrap();
            seeds.push(fault["seed"].as_u64().unwrap());
        }
        it.client.post(it.admin("/v1/reset")).send().await.unwrap();
    }
    assert_eq!(seeds, [7, 8, 7, 8]);
}

#[tokio::test]
async fn a_fault_with_a_time_removes_itself() {
    let it = world().await;
    let id = it.fault(json!({"link": HTTP, "kind": "hang", "for_ms": 50})).await;
    let request = it.get_meanwhile();
    assert_eq!(request.await.unwrap().unwrap().status(), 200);
    let over = async || {
        let answer = it.client.get(it.admin(&format!("/v1/faults/{id}"))).send().await.unwrap();
        (answer.json::<Value>().await.unwrap()["active"] == false).then_some(())
    };
    eventually("the fault to be over", over).await;
}

#[tokio::test]
async fn every_wrong_field_is_named() {
    let it = world().await;
    for (body, fields) in [
        (json!({"link": "order->nowhere", "kind": "hang"}), vec!["link"]),
        (json!({"link": HTTP, "kind": "explode"}), vec!["kind"]),
        (json!({"link": HTTP, "kind": "latency"}), vec!["latency_ms"]),
        (json!({"link": HTTP, "kind": "latency", "latency_ms": 5, "jitter_ms": 6}), vec!["jitter_ms"]),
        (json!({"link": HTTP, "kind": "http_status", "status": 99, "ratio": 1.5}), vec!["status", "ratio"]),
        (json!({"link": HTTP, "kind": "hang", "status": 503}), vec!["status"]),
        (json!({"link": HTTP, "kind": "bandwidth", "bytes_per_second": 0}), vec!["bytes_per_second"]),
        (json!({"link": HTTP, "kind": "hang", "for_ms": 0}), vec!["for_ms"]),
        (json!({"link": TCP, "kind": "http_status", "status": 503}), vec!["kind"]),
        (json!({"link": HTTP, "kind": "refuse", "ratio": 0.5}), vec!["ratio"]),
    ] {
        let said = problem(post(&it, &body).await, 422, "validation-failed").await;
        let named: Vec<&str> =
            said["errors"].as_array().unwrap().iter().map(|e| e["field"].as_str().unwrap()).collect();
        assert_eq!(named, fields, "{body}");
    }
    assert_eq!(it.link(HTTP).await["faults"], json!([]));
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_with_a_problem() {
    let it = world().await;
    let post = || it.client.post(it.admin("/v1/faults"));
    let text = |text: &str| post().header("content-type", "application/json").body(text.to_owned());
    for bad in ["", "{", "[]", "7", r#"{"link":1}"#, r#"{"kind":"hang"}"#, r#"{"link":"x","kind":"hang","wait":1}"#] {
        problem(text(bad).send().await.unwrap(), 400, "invalid-request").await;
    }
    problem(text(&" ".repeat(65 * 1024)).send().await.unwrap(), 413, "payload-too-large").await;
    problem(post().body("{}").send().await.unwrap(), 415, "unsupported-media-type").await;
    problem(it.client.get(it.admin("/v1/links/order-%3Enowhere")).send().await.unwrap(), 404, "not-found").await;
    problem(it.client.get(it.admin("/v1/faults/x")).send().await.unwrap(), 404, "not-found").await;
    problem(it.client.get(it.admin("/nowhere")).send().await.unwrap(), 404, "not-found").await;
    for (method, path, allow) in [
        (Method::PUT, "/v1/faults", "GET, POST"),
        (Method::POST, "/v1/links", "GET"),
        (Method::POST, "/v1/faults/1", "GET, DELETE"),
        (Method::GET, "/v1/reset", "POST"),
    ] {
        let answer = it.client.request(method, it.admin(path)).send().await.unwrap();
        assert_eq!(answer.headers()["allow"], allow, "{path}");
        problem(answer, 405, "method-not-allowed").await;
    }
}

#[tokio::test]
async fn a_link_takes_a_bounded_number_of_faults() {
    let it = world().await;
    for _ in 0..16 {
        it.fault(json!({"link": QUIET, "kind": "hang"})).await;
    }
    let said = problem(post(&it, &json!({"link": QUIET, "kind": "hang"})).await, 422, "validation-failed").await;
    assert_eq!(said["errors"][0]["field"], "link");
}
