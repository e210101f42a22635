//! What every route refuses before its handler is reached.

use contracts::{OrderId, ProblemType, Service, UserId};
use reqwest::Method;
use serde_json::Value;
use testkit::{caller_token, documented, malformed::Listener, user_token};

use crate::shop::{Shop, refused};

fn routes() -> Vec<(Method, String)> {
    let order = OrderId::generate();
    vec![
        (Method::PUT, format!("/v1/reservations/{order}")),
        (Method::GET, format!("/v1/reservations/{order}")),
        (Method::POST, format!("/v1/reservations/{order}/commit")),
        (Method::POST, format!("/v1/reservations/{order}/release")),
        (Method::GET, "/v1/stock".to_owned()),
        (Method::GET, "/v1/stock/CUP-MUG-BLUE".to_owned()),
        (Method::POST, "/v1/stock/CUP-MUG-BLUE/restock".to_owned()),
    ]
}

#[tokio::test]
async fn every_route_asks_for_the_token_of_a_service() {
    let shop = Shop::open().await;
    for (method, path) in routes() {
        let request = || shop.app.client.request(method.clone(), shop.app.url(&path));
        refused(request().send().await.unwrap(), ProblemType::Unauthenticated).await;
        for token in ["x", &user_token(UserId::generate())] {
            refused(request().bearer_auth(token).send().await.unwrap(), ProblemType::Unauthenticated).await;
        }
    }
}

#[tokio::test]
async fn a_wrong_method_is_told_which_ones_there_are() {
    let shop = Shop::open().await;
    for (_, path) in routes() {
        let request = shop.app.client.delete(shop.app.url(&path)).bearer_auth(caller_token(Service::Order));
        let response = request.send().await.unwrap();
        assert!(response.headers().contains_key("allow"), "{path}");
        refused(response, ProblemType::MethodNotAllowed).await;
    }
}

#[tokio::test]
async fn an_unknown_path_and_a_path_without_an_order_id_are_not_found() {
    let shop = Shop::open().await;
    for path in ["/", "/v1", "/v1/nothing", "/v1/reservations", "/v1/reservations/7", "/v1/reservations/x/commit"] {
        refused(
            shop.get(path).send().await.unwrap(),
            if path.ends_with("commit") { ProblemType::MethodNotAllowed } else { ProblemType::NotFound },
        )
        .await;
    }
    for path in ["/v1/reservations/x/commit", "/v1/reservations/x/release"] {
        refused(shop.post(path).send().await.unwrap(), ProblemType::NotFound).await;
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_refused() {
    let shop = Shop::open().await;
    let path = format!("/v1/reservations/{}", OrderId::generate());
    let put = |body: &str| shop.put(&path).header("content-type", "application/json").body(body.to_owned()).send();
    refused(put("{").await.unwrap(), ProblemType::InvalidRequest).await;
    refused(put("").await.unwrap(), ProblemType::InvalidRequest).await;
    refused(put(&" ".repeat(70_000)).await.unwrap(), ProblemType::PayloadTooLarge).await;
    let response = shop.put(&path).body("{}").send().await.unwrap();
    refused(response, ProblemType::UnsupportedMediaType).await;
}

#[tokio::test]
async fn whatever_is_sent_there_is_an_answer_on_both_ports() {
    let shop = Shop::open().await;
    let path = format!("/v1/reservations/{}", OrderId::generate());
    let token = caller_token(Service::Order);
    let route = Listener::route(shop.app.running.api_addr(), "PUT", &path, &token);
    route.refuses_malformed_bodies().await;
    route.refuses_malformed_headers().await;
    route.answers_what_is_hardly_http().await;
    Listener::route(shop.app.running.admin_addr(), "GET", "/readyz", &token).answers_what_is_hardly_http().await;
}

#[tokio::test]
async fn a_request_that_its_caller_no_longer_waits_for_does_nothing() {
    let shop = Shop::open().await;
    let path = format!("/v1/reservations/{}/release", OrderId::generate());
    let response = shop.post(&path).header("x-envoy-expected-rq-timeout-ms", "1").send().await.unwrap();
    refused(response, ProblemType::DeadlineExceeded).await;
    let rows: i64 =
        sqlx::query_scalar("select count(*) from reservations").fetch_one(shop.database.pool()).await.unwrap();
    assert_eq!(rows, 0);
}

#[tokio::test]
async fn the_document_lists_every_route_with_the_refusals_around_it() {
    let shop = Shop::open().await;
    let document: Value =
        shop.app.client.get(shop.app.admin_url("/openapi.json")).send().await.unwrap().json().await.unwrap();
    for (method, path) in routes() {
        let template = path.split('/').map(|part| match part {
            "CUP-MUG-BLUE" => "{sku}",
            part if part.parse::<OrderId>().is_ok() => "{order_id}",
            part => part,
        });
        let template = template.collect::<Vec<_>>().join("/");
        let responses = &document["paths"][&template][method.as_str().to_lowercase()]["responses"];
        for status in ["200", "401", "500", "503", "504"] {
            assert!(responses[status].is_object(), "{method} {template} {status}: {document}");
        }
        assert!(responses["401"]["content"]["application/problem+json"].is_object());
    }
}

#[tokio::test]
async fn the_service_is_ready_and_says_how_old_its_oldest_hold_is() {
    let shop = Shop::open().await;
    let ready = shop.app.client.get(shop.app.admin_url("/readyz")).send().await.unwrap();
    assert_eq!(ready.status(), 200);
    testkit::eventually("the gauges are set", async || {
        let text = shop.app.client.get(shop.app.admin_url("/metrics")).send().await.unwrap().text().await.unwrap();
        let has = |name: &str| text.lines().any(|line| line.starts_with(name));
        (has("inventory_oldest_hold_age_seconds") && has("db_pool_connections{state=\"idle\"}")).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers_as_its_document_says_whatever_is_sent() {
    let shop = Shop::open().await;
    let known = ["CUP-MUG-BLUE", "TEA-EARLGREY-100"];
    let credentials = |_: &str| vec![("authorization", format!("Bearer {}", caller_token(Service::Order)))];
    documented::check(&shop.app, &known, credentials).await;
}
