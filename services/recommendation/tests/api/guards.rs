//! What is refused before anything is looked up.

use contracts::{ProblemType, Service as Name, UserId};
use serde_json::Value;
use testkit::{caller_token, documented, malformed::Listener, user_token};

use crate::service::{Service, refused};

#[tokio::test]
async fn the_token_of_a_service_is_asked_for() {
    let service = Service::start().await;
    let request = || service.app.get("/v1/recommendations");
    refused(request().send().await.unwrap(), ProblemType::Unauthenticated).await;
    for token in ["x", &user_token(UserId::generate())] {
        refused(request().bearer_auth(token).send().await.unwrap(), ProblemType::Unauthenticated).await;
    }
}

#[tokio::test]
async fn another_method_and_another_path_are_refused() {
    let service = Service::start().await;
    let token = caller_token(Name::Order);
    let posted = service.app.post("/v1/recommendations").bearer_auth(&token).send().await.unwrap();
    assert_eq!(posted.headers()["allow"], "GET");
    refused(posted, ProblemType::MethodNotAllowed).await;
    for path in ["/", "/v1", "/v1/nothing", "/v1/recommendations/7"] {
        refused(service.app.get(path).bearer_auth(&token).send().await.unwrap(), ProblemType::NotFound).await;
    }
}

#[tokio::test]
async fn a_query_that_cannot_be_meant_is_refused_by_name() {
    let service = Service::start().await;
    let long = format!("?sku={}", "X".repeat(65));
    let cases = [
        ("?limit=0", "limit"),
        ("?limit=51", "limit"),
        ("?limit=-1", "limit"),
        ("?limit=", "limit"),
        ("?limit=five", "limit"),
        ("?limit=99999999999999999999999", "limit"),
        ("?sku=", "sku"),
        ("?sku=A%20B", "sku"),
        ("?sku=A%00", "sku"),
        ("?sku=T%C3%A9", "sku"),
        ("?sku=%FF", "sku"),
        (long.as_str(), "sku"),
        ("?user_id=7", "user_id"),
        ("?user_id=", "user_id"),
        ("?colour=red", "query"),
        ("?limit=1&limit=2", "query"),
    ];
    for (query, field) in cases {
        let problem = refused(service.ask(query).await, ProblemType::InvalidRequest).await;
        assert_eq!(problem.errors.iter().map(|error| error.field.as_str()).collect::<Vec<_>>(), [field], "{query}");
    }
}

#[tokio::test]
async fn whatever_is_sent_there_is_an_answer_on_both_ports() {
    let service = Service::start().await;
    let token = caller_token(Name::Order);
    let route = Listener::route(service.app.running.api_addr(), "GET", "/v1/recommendations", &token);
    route.refuses_malformed_headers().await;
    route.answers_what_is_hardly_http().await;
    Listener::route(service.app.running.admin_addr(), "GET", "/metrics", &token).answers_what_is_hardly_http().await;
}

#[tokio::test]
async fn a_request_that_its_caller_no_longer_waits_for_is_refused() {
    let service = Service::start().await;
    let request = service.app.get("/v1/recommendations").bearer_auth(caller_token(Name::Order));
    let response = request.header("x-envoy-expected-rq-timeout-ms", "1").send().await.unwrap();
    refused(response, ProblemType::DeadlineExceeded).await;
}

#[tokio::test]
async fn the_document_lists_the_route_with_its_parameters_and_refusals() {
    let service = Service::start().await;
    let document: Value = service.admin("/openapi.json").await.json().await.unwrap();
    let get = &document["paths"]["/v1/recommendations"]["get"];
    for status in ["200", "400", "401", "500", "504"] {
        assert!(get["responses"][status].is_object(), "{status}: {document}");
    }
    let parameters: Vec<_> =
        get["parameters"].as_array().unwrap().iter().map(|parameter| parameter["name"].as_str().unwrap()).collect();
    assert_eq!(parameters, ["user_id", "sku", "limit"]);
    assert!(get["responses"]["400"]["content"]["application/problem+json"].is_object());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers_as_its_document_says_whatever_is_sent() {
    let service = Service::start().await;
    let credentials = |_: &str| vec![("authorization", format!("Bearer {}", caller_token(Name::Order)))];
    documented::check(&service.app, &["TEA", "MUG"], credentials).await;
}
