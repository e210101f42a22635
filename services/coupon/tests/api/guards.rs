//! What every route refuses before its handler is reached.

use chassis::dev_secrets;
use contracts::{OrderId, ProblemType, Service, UserId};
use reqwest::Method;
use serde_json::Value;
use testkit::{caller_token, documented, malformed::Listener, user_token};

use crate::till::{Till, refused};

fn routes() -> Vec<(Method, String)> {
    let order = OrderId::generate();
    vec![
        (Method::PUT, format!("/v1/redemptions/{order}")),
        (Method::GET, format!("/v1/redemptions/{order}")),
        (Method::POST, format!("/v1/redemptions/{order}/commit")),
        (Method::POST, format!("/v1/redemptions/{order}/release")),
        (Method::GET, "/v1/coupons/WELCOME10".to_owned()),
    ]
}

#[tokio::test]
async fn every_route_asks_for_the_token_of_a_service() {
    let till = Till::open().await;
    for (method, path) in routes() {
        let request = || till.app.client.request(method.clone(), till.app.url(&path));
        refused(request().send().await.unwrap(), ProblemType::Unauthenticated).await;
        for token in ["x", &user_token(UserId::generate())] {
            refused(request().bearer_auth(token).send().await.unwrap(), ProblemType::Unauthenticated).await;
        }
    }
}

#[tokio::test]
async fn a_wrong_method_is_told_which_ones_there_are() {
    let till = Till::open().await;
    for (_, path) in routes() {
        let request = till.app.client.delete(till.app.url(&path)).bearer_auth(caller_token(Service::Order));
        let response = request.send().await.unwrap();
        assert!(response.headers().contains_key("allow"), "{path}");
        refused(response, ProblemType::MethodNotAllowed).await;
    }
}

#[tokio::test]
async fn an_unknown_path_and_a_path_without_an_order_id_are_not_found() {
    let till = Till::open().await;
    for path in ["/", "/v1", "/v1/coupons", "/v1/redemptions", "/v1/redemptions/7"] {
        refused(till.get(path).send().await.unwrap(), ProblemType::NotFound).await;
    }
    for path in ["/v1/redemptions/x/commit", "/v1/redemptions/x/release"] {
        refused(till.post(path).send().await.unwrap(), ProblemType::NotFound).await;
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_refused() {
    let till = Till::open().await;
    let path = format!("/v1/redemptions/{}", OrderId::generate());
    let put = |body: &str| till.put(&path).header("content-type", "application/json").body(body.to_owned()).send();
    refused(put("{").await.unwrap(), ProblemType::InvalidRequest).await;
    refused(put("").await.unwrap(), ProblemType::InvalidRequest).await;
    refused(put(&" ".repeat(70_000)).await.unwrap(), ProblemType::PayloadTooLarge).await;
    refused(till.put(&path).body("{}").send().await.unwrap(), ProblemType::UnsupportedMediaType).await;
}

#[tokio::test]
async fn whatever_is_sent_there_is_an_answer_on_both_ports() {
    let till = Till::open().await;
    let path = format!("/v1/redemptions/{}", OrderId::generate());
    let token = caller_token(Service::Order);
    let route = Listener::route(till.app.running.api_addr(), "PUT", &path, &token);
    route.refuses_malformed_bodies().await;
    route.refuses_malformed_headers().await;
    route.answers_what_is_hardly_http().await;
    Listener::route(till.app.running.admin_addr(), "GET", "/readyz", &token).answers_what_is_hardly_http().await;
}

#[tokio::test]
async fn a_request_that_its_caller_no_longer_waits_for_does_nothing() {
    let till = Till::open().await;
    let path = format!("/v1/redemptions/{}/release", OrderId::generate());
    let response = till.post(&path).header("x-envoy-expected-rq-timeout-ms", "1").send().await.unwrap();
    refused(response, ProblemType::DeadlineExceeded).await;
    let rows = sqlx::query_scalar::<_, i64>("select count(*) from redemptions").fetch_one(till.database.pool());
    assert_eq!(rows.await.unwrap(), 0);
}

#[tokio::test]
async fn the_document_lists_every_route_with_the_refusals_around_it() {
    let till = Till::open().await;
    let request = till.app.client.get(till.app.admin_url("/openapi.json"));
    let document: Value = request.send().await.unwrap().json().await.unwrap();
    for (method, path) in routes() {
        let template = path.split('/').map(|part| match part {
            "WELCOME10" => "{code}",
            part if part.parse::<OrderId>().is_ok() => "{order_id}",
            part => part,
        });
        let template = template.collect::<Vec<_>>().join("/");
        let responses = &document["paths"][&template][method.as_str().to_lowercase()]["responses"];
        for status in ["200", "401", "500", "503", "504"] {
            assert!(responses[status].is_object(), "{method} {template} {status}: {document}");
        }
    }
}

#[tokio::test]
async fn the_service_is_ready() {
    let till = Till::open().await;
    let ready = till.app.client.get(till.app.admin_url("/readyz")).send().await.unwrap();
    assert_eq!(ready.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers_as_its_document_says_whatever_is_sent() {
    let till = Till::open().await;
    let known = ["WELCOME10", "USD"];
    let credentials = |operation: &str, _: &str| {
        let caller = if operation.contains("/operator/") { "console" } else { "order" };
        vec![("authorization", format!("Bearer {}", dev_secrets::internal_token(caller)))]
    };
    documented::check_as(&till.app, &known, credentials).await;
}
