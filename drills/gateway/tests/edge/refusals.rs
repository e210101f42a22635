//! What the gateway says for itself: problems, as the services give them, and never more than it knows.

use std::sync::atomic::{AtomicBool, Ordering};

use contracts::{ProblemType, UserId};
use reqwest::Method;
use testkit::{Reply, user_token};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::running::{Gateway, fine, order, refusal};

#[tokio::test]
async fn a_request_that_nobody_vouches_for_goes_no_further() {
    let order = order(fine).await;
    let Some(gateway) = Gateway::before(&[&order]).await else { return };
    let [valid, other] = [(); 2].map(|()| user_token(UserId::generate()));
    let (signed, signature) = valid.rsplit_once('.').unwrap();
    let (_, claims) = signed.split_once('.').unwrap();
    // {"alg":"none","typ":"JWT"}
    let unsigned = format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{claims}.");
    let of_another = format!("{}.{signature}", other.rsplit_once('.').unwrap().0);
    for token in [None, Some(unsigned), Some(of_another), Some("a.b.c".to_owned()), Some("x".to_owned())] {
        let request = gateway.anonymous(Method::GET, "/v1/orders");
        let request = token.iter().fold(request, |request, token| request.bearer_auth(token));
        let answer = request.send().await.unwrap();
        assert_eq!(answer.headers()["www-authenticate"], "Bearer");
        refusal(answer, ProblemType::Unauthenticated).await;
    }
    assert!(order.seen_at("GET", "/v1").is_empty());
    let lower_case = gateway.anonymous(Method::GET, "/v1/orders").header("authorization", format!("bearer {valid}"));
    assert_eq!(lower_case.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn what_is_too_large_or_malformed_or_leads_nowhere_is_told_as_a_problem() {
    let order = order(fine).await;
    let Some(gateway) = Gateway::before(&[&order]).await else { return };
    let whole = gateway.post("/v1/orders").body(" ".repeat(65_536));
    assert_eq!(whole.send().await.unwrap().status(), 200);
    let body = gateway.post("/v1/orders").body(" ".repeat(70_000));
    let problem = refusal(body.send().await.unwrap(), ProblemType::PayloadTooLarge).await;
    assert_eq!(problem.errors[0].field, "body");
    let header = gateway.get("/v1/orders").header("x-large", "x".repeat(20_000));
    refusal(header.send().await.unwrap(), ProblemType::PayloadTooLarge).await;
    let many = (0..80).fold(gateway.get("/v1/orders"), |request, n| request.header(format!("x-{n}"), "x"));
    refusal(many.send().await.unwrap(), ProblemType::PayloadTooLarge).await;
    let underscore = gateway.get("/v1/orders").header("x_retry_budget", "9");
    refusal(underscore.send().await.unwrap(), ProblemType::InvalidRequest).await;
    let slash = gateway.get("/v1/products/a%2Fb");
    refusal(slash.send().await.unwrap(), ProblemType::InvalidRequest).await;
    for nowhere in ["/", "/v2/orders", "/readyz", "/v1"] {
        refusal(gateway.get(nowhere).send().await.unwrap(), ProblemType::NotFound).await;
    }
    assert_eq!(order.seen().iter().filter(|seen| seen.path != "/readyz").count(), 1);
}

#[tokio::test]
async fn a_client_that_sends_its_headers_or_its_body_too_slowly_is_turned_away() {
    let order = order(fine).await;
    let Some(gateway) = Gateway::before(&[&order]).await else { return };
    let token = user_token(UserId::generate());
    let half = [
        "GET /v1/orders HTTP/1.1\r\nhost: a\r\n".to_owned(),
        format!("POST /v1/orders HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\ncontent-length: 9\r\n\r\n{{"),
    ];
    for half in half {
        let mut client = TcpStream::connect(("127.0.0.1", gateway.port)).await.unwrap();
        client.write_all(half.as_bytes()).await.unwrap();
        let mut told = String::new();
        client.read_to_string(&mut told).await.unwrap();
        assert!(told.starts_with("HTTP/1.1 400 ") && told.contains("urn:problem:invalid-request"), "{told}");
    }
    assert!(order.seen().iter().all(|seen| seen.path == "/readyz"));
}

#[tokio::test]
async fn where_nothing_was_sent_the_answer_says_so() {
    let Some(gateway) = Gateway::before_nobody().await else { return };
    for method in [Method::GET, Method::POST] {
        let answer = gateway.request(method, "/v1/orders").send().await.unwrap();
        let problem = refusal(answer, ProblemType::Overloaded).await;
        assert_eq!(problem.mechanism.as_deref(), Some("upstream.gateway"));
    }
}

#[tokio::test]
async fn an_order_that_was_sent_and_not_answered_is_unknown_and_not_sent_again() {
    let order = order(|_| Reply::Close).await;
    let Some(gateway) = Gateway::before(&[&order]).await else { return };
    let answer = gateway.post("/v1/orders").body("{}").send().await.unwrap();
    let problem = refusal(answer, ProblemType::DeadlineExceeded).await;
    assert!(problem.retryable && problem.detail.contains("not known"), "{problem:?}");
    assert_eq!(order.seen_at("POST", "/v1/orders").len(), 1);
}

#[tokio::test]
async fn a_read_that_was_not_answered_is_asked_once_more_and_no_more() {
    let asked = AtomicBool::new(false);
    let once = order(move |seen| if asked.swap(true, Ordering::Relaxed) { fine(seen) } else { Reply::Close }).await;
    let Some(gateway) = Gateway::before(&[&once]).await else { return };
    assert_eq!(gateway.get("/v1/orders").send().await.unwrap().status(), 200);
    assert_eq!(once.seen_at("GET", "/v1/orders").len(), 2);

    let never = order(|_| Reply::Close).await;
    let Some(gateway) = Gateway::before(&[&never]).await else { return };
    refusal(gateway.get("/v1/orders").send().await.unwrap(), ProblemType::DeadlineExceeded).await;
    assert_eq!(never.seen_at("GET", "/v1/orders").len(), 2);
}

/// It takes those five seconds.
#[tokio::test]
async fn a_request_that_hangs_ends_with_the_routes_timeout_and_is_not_asked_again() {
    let order = order(|_| Reply::Hang).await;
    let Some(gateway) = Gateway::before(&[&order]).await else { return };
    refusal(gateway.get("/v1/orders").send().await.unwrap(), ProblemType::DeadlineExceeded).await;
    assert_eq!(order.seen_at("GET", "/v1/orders").len(), 1);
}
