//! Buckets for APIs and tenants, and how much may be on its way.

use std::sync::Arc;

use contracts::ProblemType;
use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder, Response};
use testkit::{Reply, eventually};
use tokio::{sync::Semaphore, time::Instant};

use crate::running::{Gateway, fine, order, refusal};

/// So many at once: fewer than may wait for a connection that is still being made.
const AT_ONCE: usize = 40;

/// Sends until the bucket is empty: how many were let in, in how many seconds, and a refusal.
async fn drain(request: impl Fn() -> RequestBuilder) -> (f64, f64, Response) {
    let (start, mut let_in) = (Instant::now(), 0_u32);
    loop {
        for answer in join_all((0..AT_ONCE).map(|_| request().send())).await {
            let answer = answer.unwrap();
            match answer.status().as_u16() {
                429 => return (f64::from(let_in), start.elapsed().as_secs_f64(), answer),
                status => assert_eq!(status, 200),
            }
            let_in += 1;
        }
    }
}

/// Between the bucket's content, and that with what flowed in meanwhile.
fn fits(bucket: f64, let_in: f64, seconds: f64) {
    assert!(let_in <= bucket * (1.0 + seconds) + 1.0, "{let_in} were let in within {seconds} s, of {bucket} a second");
    assert!(let_in + AT_ONCE as f64 >= bucket, "only {let_in} were let in, of {bucket}");
}

#[tokio::test]
async fn each_api_has_a_bucket_that_another_one_does_not_empty() {
    let order = order(fine).await;
    let Some(gateway) = Gateway::before(&[&order]).await else { return };
    let (let_in, seconds, refused) = drain(|| gateway.post("/v1/orders/1/cancel")).await;
    fits(30.0, let_in, seconds);
    let problem = refusal(refused, ProblemType::RateLimited).await;
    assert_eq!(problem.mechanism.as_deref(), Some("rate_limit.gateway"));
    for (method, path) in
        [(Method::POST, "/v1/orders"), (Method::GET, "/v1/orders/1"), (Method::GET, "/v1/products/TEA")]
    {
        assert_eq!(gateway.request(method, path).send().await.unwrap().status(), 200, "{path}");
    }
}

#[tokio::test]
async fn each_tenant_has_a_bucket_over_all_apis_and_a_forged_one_has_none() {
    let order = order(fine).await;
    let Some(gateway) = Gateway::before(&[&order]).await else { return };
    // A word that nobody has signed takes nothing from whose name it is.
    let other = gateway.of_tenant("tea-house", "/v1/orders").build().unwrap();
    let forged = other.headers()["authorization"].to_str().unwrap().replace("Bearer ", "") + "x";
    for _ in 0..5 {
        let flood = (0..AT_ONCE).map(|_| gateway.anonymous(Method::GET, "/v1/orders").bearer_auth(&forged).send());
        assert!(join_all(flood).await.into_iter().all(|answer| answer.unwrap().status() == 401));
    }
    let path = |n: u64| if n.is_multiple_of(2) { "/v1/orders" } else { "/v1/products" };
    let sent = std::cell::Cell::new(0);
    let of_a_tenant = || {
        sent.set(sent.get() + 1);
        gateway.of_tenant("tea-house", path(sent.get()))
    };
    let (let_in, seconds, refused) = drain(of_a_tenant).await;
    fits(150.0, let_in, seconds);
    refusal(refused, ProblemType::RateLimited).await;
    assert_eq!(gateway.of_tenant("coffee-house", "/v1/orders").send().await.unwrap().status(), 200);
    assert_eq!(gateway.get("/v1/orders").send().await.unwrap().status(), 200, "a user without a tenant");
}

#[tokio::test]
async fn a_hundred_connections_and_fifty_who_wait_for_one_are_all_that_goes_to_order() {
    let go = Arc::new(Semaphore::new(0));
    let held = go.clone();
    let order = order(move |seen| Reply::Held(held.clone(), Box::new(fine(seen)))).await;
    let Some(gateway) = Gateway::before(&[&order]).await else { return };
    let send = |count: usize| join_all((0..count).map(|_| tokio::spawn(gateway.get("/v1/products").send())));
    let mut held = Vec::new();
    for arrived in [25, 50, 75, 100] {
        held.push(tokio::spawn(send(25)));
        eventually("order has them", async || (order.seen_at("GET", "/v1").len() == arrived).then_some(())).await;
    }
    held.push(tokio::spawn(send(50)));
    gateway.counts("upstream_rq_pending_active", 50.0).await;
    for refused in send(10).await {
        let problem = refusal(refused.unwrap().unwrap(), ProblemType::Overloaded).await;
        assert_eq!(problem.mechanism.as_deref(), Some("bulkhead.gateway"));
    }
    assert_eq!(order.seen_at("GET", "/v1").len(), 100);
    go.add_permits(150);
    for answer in join_all(held).await.into_iter().flat_map(Result::unwrap) {
        assert_eq!(answer.unwrap().unwrap().status(), 200);
    }
}
