use std::time::Duration;

use contracts::{Problem, ProblemType, Service, UserId, headers};
use testkit::{caller_token, user_token};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::sleep,
};

use crate::small;

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_a_problem_without_details_and_the_service_lives_on() {
    let (app, _) = small::start().await;
    for path in ["/handler-panics", "/work-panics", "/handler-panics"] {
        let response = app.get(path).header(headers::REQUEST_ID, "r-1").send().await.unwrap();
        assert_eq!(response.status(), 500);
        assert_eq!(response.headers()[headers::REQUEST_ID], "r-1");
        assert_eq!(response.headers()["content-type"], headers::PROBLEM_JSON);
        let problem: Problem = response.json().await.unwrap();
        assert_eq!(problem.kind, ProblemType::Internal);
        assert!(!problem.detail.contains("purpose"), "{problem:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn internal_routes_know_their_callers_and_refuse_users() {
    let (app, _) = small::start().await;
    let who = app.get("/internal/who").bearer_auth(caller_token(Service::Order)).send().await.unwrap();
    assert_eq!(who.text().await.unwrap(), "order");
    for token in [user_token(UserId::generate()), caller_token(Service::Order) + "x", "x".to_owned()] {
        let refused = app.get("/internal/who").bearer_auth(token).send().await.unwrap();
        assert_eq!(refused.status(), 401);
    }
    assert_eq!(app.get("/internal/who").send().await.unwrap().status(), 401);
    let basic = app.get("/internal/who").basic_auth("order", Some(caller_token(Service::Order)));
    assert_eq!(basic.send().await.unwrap().status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_outside_its_scope_lets_nobody_in() {
    let (app, _) = small::start().await;
    let refused = app.get("/unguarded").bearer_auth(user_token(UserId::generate())).send().await.unwrap();
    assert_eq!(refused.status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_id_is_echoed_when_it_is_plain_and_made_when_it_is_not() {
    let (app, _) = small::start().await;
    let id_for = async |sent: &str| {
        let response = app.get("/nothing").header(headers::REQUEST_ID, sent).send().await.unwrap();
        response.headers()[headers::REQUEST_ID].to_str().unwrap().to_owned()
    };
    assert_eq!(id_for("abc-1").await, "abc-1");
    for strange in ["", "two words", &"x".repeat(129)] {
        let made = id_for(strange).await;
        assert!(made != strange && made.parse::<uuid::Uuid>().is_ok(), "{strange:?} → {made}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_methods_do_not_become_metric_labels() {
    let (app, _) = small::start().await;
    for method in ["BREW", "STEEP"] {
        app.client.request(method.parse().unwrap(), app.url("/nothing")).send().await.unwrap();
    }
    let metrics = app.client.get(app.admin_url("/metrics")).send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("method=\"OTHER\"") && !metrics.contains("BREW"), "{metrics}");
    assert!(metrics.contains("route=\"unmatched\"") && !metrics.contains("route=\"/nothing\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_gets_its_purse_back_and_nobody_else_hears_of_it() {
    let (app, _) = small::start().await;
    let left = async |token: String, path: &str, budget: &str| {
        let request = app.get(path).bearer_auth(token).header(headers::RETRY_BUDGET, budget);
        let response = request.send().await.unwrap();
        response.headers().get(headers::RETRY_LEFT).map(|left| left.to_str().unwrap().to_owned())
    };
    let order = || caller_token(Service::Order);
    assert_eq!(left(order(), "/internal/who", "2").await.as_deref(), Some("2"));
    assert_eq!(left(order(), "/internal/who", "0").await.as_deref(), Some("0"));
    assert_eq!(left(order(), "/internal/who", "99").await.as_deref(), Some("3"), "the rule's purse and no more");
    assert_eq!(left(order(), "/handler-panics", "2").await.as_deref(), Some("2"), "it failed by itself");
    assert_eq!(left(user_token(UserId::generate()), "/nothing", "2").await, None);
}

/// Whatever the phase of the framework's clock: a client that connects and takes a moment is not cut off.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_soon_after_it_has_connected_is_never_too_late() {
    const CLIENTS: u32 = 40;
    let (app, _) = small::start().await;
    let address = app.running.admin_addr();
    // Connections at forty points of that half second, each of which waits a fifth of it.
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(async move {
            sleep(Duration::from_millis(500) * number / CLIENTS).await;
            let mut socket = TcpStream::connect(address).await.unwrap();
            sleep(Duration::from_millis(100)).await;
            let sent = socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
            let mut answer = String::new();
            let read = socket.read_to_string(&mut answer).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "client {number}: {sent:?} {read:?} {answer}");
        });
    }
    clients.join_all().await;
}
