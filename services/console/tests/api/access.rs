//! Who gets in, and what every answer tells a browser.

use contracts::Service;
use serde_json::json;
use testkit::{caller_token, documented};

use crate::desk::{Desk, body, user};

#[tokio::test]
async fn an_operator_gets_in_and_nobody_else() {
    let desk = Desk::open().await;
    for path in ["/v1/rules", "/v1/audit", "/v1/rules/instances", "/v1/switches", "/v1/rules/1"] {
        let without = desk.app.get(path).send().await.unwrap();
        assert_eq!(body(without, 401).await["type"], "urn:problem:unauthenticated");
        let as_user = desk.app.get(path).bearer_auth(user()).send().await.unwrap();
        assert_eq!(body(as_user, 403).await["type"], "urn:problem:forbidden");
        let as_service = desk.app.get(path).bearer_auth(caller_token(Service::Order)).send().await.unwrap();
        body(as_service, 401).await;
    }
    assert_eq!(desk.seen("/v1/audit").await, json!({"items": [], "next_cursor": null}));
}

#[tokio::test]
async fn a_service_asks_and_reports_for_itself_alone() {
    let desk = Desk::open().await;
    let asked = "/v1/rules/current?service=order&instance=order-0";
    body(desk.app.get(asked).send().await.unwrap(), 401).await;
    body(desk.get(asked).send().await.unwrap(), 401).await;
    let as_other = desk.app.get(asked).bearer_auth(caller_token(Service::Coupon)).send().await.unwrap();
    body(as_other, 403).await;
    let report = json!({"service": "order", "instance": "order-0", "version": 0, "origin": "default"});
    let as_other = desk.app.post("/v1/rules/applied").bearer_auth(caller_token(Service::Coupon)).json(&report);
    body(as_other.send().await.unwrap(), 403).await;
    for query in
        ["instance=order-0", "service=order", "service=mail&instance=x", "service=order&instance=x&wait_ms=30001"]
    {
        let asked = desk.app.get(&format!("/v1/rules/current?{query}")).bearer_auth(caller_token(Service::Order));
        body(asked.send().await.unwrap(), 400).await;
    }
}

#[tokio::test]
async fn every_answer_tells_browsers_to_trust_nothing_else_and_to_keep_nothing() {
    let desk = Desk::open().await;
    for answer in [desk.get("/v1/rules"), desk.get("/v1/nothing"), desk.app.get("/v1/rules")] {
        let answer = answer.send().await.unwrap();
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert!(header("content-security-policy").starts_with("default-src 'self';"), "{answer:?}");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!((header("referrer-policy"), header("cache-control")), ("no-referrer".into(), "no-store".into()));
    }
}

#[tokio::test]
async fn a_page_that_cannot_be_is_refused_by_name() {
    let desk = Desk::open().await;
    for (query, field) in [("limit=0", "limit"), ("limit=many", "limit"), ("cursor=x", "cursor"), ("page=1", "query")] {
        let problem = body(desk.get(&format!("/v1/audit?{query}")).send().await.unwrap(), 400).await;
        assert_eq!(problem["errors"][0]["field"], field, "{query}");
    }
}

#[tokio::test]
async fn whatever_is_sent_the_answer_is_one_that_the_document_lists() {
    let (desk, _around) = Desk::surrounded().await;
    for _ in 0..8 {
        desk.draft("").await;
    }
    let token = testkit::operator_token("ada");
    let known = ["", "version = 1", "order-0", "payment", "defer", "order", "console"];
    documented::check(&desk.app, &known, |_| vec![("authorization", format!("Bearer {token}"))]).await;
}
