//! Each fault on an HTTP hop.

use std::{io::ErrorKind, sync::Arc, time::Duration};

use serde_json::{Value, json};
use testkit::{Reply, eventually};
use tokio::{io::AsyncWriteExt, net::TcpStream, sync::Semaphore, time::Instant};

use crate::setup::{FOR_EVER_MS, HTTP, QUIET, client, read_all, world};

#[tokio::test]
async fn a_late_answer_is_late_news_of_work_that_was_done() {
    let it = world().await;
    let id = it.fault(json!({"link": HTTP, "kind": "latency", "latency_ms": FOR_EVER_MS})).await;
    let request = it.get_meanwhile();
    it.until_applied(id, 1).await;
    assert_eq!(it.stub.seen().len(), 1);
    assert!(!request.is_finished());
    // Switched off, it is off for the request that is in it.
    it.off(id).await;
    assert_eq!(request.await.unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn a_late_request_is_work_that_has_not_begun() {
    let it = world().await;
    let id = it.fault(json!({"link": HTTP, "kind": "latency", "latency_ms": FOR_EVER_MS, "on": "request"})).await;
    let request = it.get_meanwhile();
    it.until_applied(id, 1).await;
    assert!(it.stub.seen().is_empty());
    it.off(id).await;
    assert_eq!(request.await.unwrap().unwrap().status(), 200);
    assert_eq!(it.stub.seen().len(), 1);
}

#[tokio::test]
async fn latency_lasts_at_least_what_was_asked_for_less_the_jitter() {
    let it = world().await;
    it.fault(json!({"link": HTTP, "kind": "latency", "latency_ms": 60, "jitter_ms": 20})).await;
    for _ in 0..3 {
        let begun = Instant::now();
        it.get().await.unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(40));
    }
}

#[tokio::test]
async fn refused_means_that_no_connection_comes_about_and_the_link_listens_again_at_once() {
    let it = world().await;
    // One idle connection, which would lead past the refusal.
    it.get().await.unwrap();
    let id = it.fault(json!({"link": HTTP, "kind": "refuse"})).await;
    assert_eq!(TcpStream::connect(it.address(HTTP)).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    it.until_applied(id, 1).await;
    let refused = eventually("the idle connection to be gone", async || it.get().await.err()).await;
    assert!(refused.is_connect(), "{refused:?}");
    assert_eq!(it.link(HTTP).await["gate"], "refusing");
    it.off(id).await;
    assert_eq!(it.get().await.unwrap().status(), 200);
    assert_eq!(it.link(HTTP).await["gate"], "open");
}

#[tokio::test]
async fn what_is_in_hand_when_a_refusal_begins_gets_its_answer() {
    let it = world().await;
    let go = Arc::new(Semaphore::new(0));
    let held = go.clone();
    it.stub.behave(move |_| Reply::Held(held.clone(), Box::new(Reply::Json(200, json!({})))));
    let request = it.get_meanwhile();
    eventually("the request", async || (it.stub.seen().len() == 1).then_some(())).await;
    it.fault(json!({"link": HTTP, "kind": "refuse"})).await;
    go.add_permits(1);
    assert_eq!(request.await.unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn a_reset_is_an_rst_and_nothing_is_forwarded() {
    let it = world().await;
    let id = it.fault(json!({"link": HTTP, "kind": "reset"})).await;
    let mut stream = it.connect(HTTP).await;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert_eq!(read_all(&mut stream).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(it.applied(id).await, 1);
    assert!(it.stub.seen().is_empty());
}

#[tokio::test]
async fn what_hangs_or_stands_in_line_is_forwarded_once_it_need_not_any_more() {
    for fault in [
        json!({"link": HTTP, "kind": "hang"}),
        json!({"link": HTTP, "kind": "bottleneck", "at_once": 1, "latency_ms": FOR_EVER_MS}),
    ] {
        let it = world().await;
        let id = it.fault(fault).await;
        let requests = [it.get_meanwhile(), it.get_meanwhile(), it.get_meanwhile()];
        it.until_applied(id, 3).await;
        assert!(it.stub.seen().is_empty());
        it.off(id).await;
        for request in requests {
            assert_eq!(request.await.unwrap().unwrap().status(), 200);
        }
        assert_eq!(it.stub.seen().len(), 3);
    }
}

#[tokio::test]
async fn a_status_is_answered_to_the_share_that_the_ratio_says_and_the_same_seed_brings_the_same_luck() {
    let it = world().await;
    let mut runs = Vec::new();
    for seed in [3, 3, 4] {
        let before = it.stub.seen().len() as u64;
        let fault = json!({"link": HTTP, "kind": "http_status", "status": 503, "ratio": 0.5, "seed": seed});
        let id = it.fault(fault).await;
        let mut statuses = Vec::new();
        for _ in 0..40 {
            let answer = it.get().await.unwrap();
            statuses.push(answer.status().as_u16());
            if answer.status() == 503 {
                assert!(answer.headers().contains_key("retry-after"));
                assert_eq!(answer.json::<Value>().await.unwrap()["mechanism"], "simulated");
            }
        }
        let struck = statuses.iter().filter(|status| **status == 503).count() as u64;
        assert!((8..=32).contains(&struck), "{struck} of 40");
        assert_eq!(it.off(id).await["applied"], struck);
        assert_eq!(it.stub.seen().len() as u64 - before, 40 - struck);
        runs.push(statuses);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[tokio::test]
async fn a_lost_reply_was_carried_out_and_its_caller_hears_nothing() {
    let it = world().await;
    let id = it.fault(json!({"link": HTTP, "kind": "lose_reply"})).await;
    let request = it.get_meanwhile();
    it.until_applied(id, 1).await;
    assert_eq!(it.stub.seen().len(), 1);
    assert!(!request.is_finished());
    it.off(id).await;
    let error = request.await.unwrap().unwrap_err();
    assert!(!error.is_connect() && !error.is_timeout(), "{error:?}");
    assert_eq!(it.get().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_lost_reply_is_carried_out_even_if_its_caller_leaves() {
    let it = world().await;
    let go = Arc::new(Semaphore::new(0));
    let held = go.clone();
    it.stub.behave(move |_| Reply::Held(held.clone(), Box::new(Reply::Json(200, json!({})))));
    let id = it.fault(json!({"link": HTTP, "kind": "lose_reply"})).await;
    let request = it.get_meanwhile();
    eventually("the request", async || (it.stub.seen().len() == 1).then_some(())).await;
    request.abort();
    eventually("its caller to be gone", async || (it.link(HTTP).await["connections"] == 0).then_some(())).await;
    assert_eq!(it.applied(id).await, 0, "there is no reply yet to lose");
    go.add_permits(1);
    it.until_applied(id, 1).await;
}

#[tokio::test]
async fn a_duplicate_arrives_twice_and_is_answered_once() {
    let it = world().await;
    let id = it.fault(json!({"link": HTTP, "kind": "duplicate"})).await;
    let request = it.client.put(it.url("/v1/payments/1")).header("idempotency-key", "k").json(&json!({"amount": 5}));
    assert_eq!(request.send().await.unwrap().status(), 200);
    it.until_applied(id, 1).await;
    let seen = it.stub.seen();
    assert_eq!(seen.len(), 2);
    for copy in &seen {
        assert_eq!((copy.method.as_str(), copy.path.as_str()), ("PUT", "/v1/payments/1"));
        assert_eq!((copy.header("idempotency-key"), &copy.body), (Some("k"), &json!({"amount": 5})));
    }
}

#[tokio::test]
async fn a_copy_that_was_not_sent_when_the_fault_ends_is_never_sent() {
    let it = world().await;
    let id = it.fault(json!({"link": HTTP, "kind": "duplicate", "delay_ms": FOR_EVER_MS})).await;
    assert_eq!(it.get().await.unwrap().status(), 200);
    assert_eq!(it.off(id).await["applied"], 0);
    assert_eq!(it.stub.seen().len(), 1);
}

#[tokio::test]
async fn a_narrow_hop_takes_its_time_and_loses_nothing() {
    let it = world().await;
    let text = "x".repeat(2_000);
    let sent = text.clone();
    it.stub.behave(move |_| Reply::Raw(200, sent.clone()));
    it.fault(json!({"link": HTTP, "kind": "bandwidth", "bytes_per_second": 20_000})).await;
    let begun = Instant::now();
    let answer = it.get().await.unwrap();
    assert_eq!(answer.headers()["content-length"], "2000");
    assert_eq!(answer.text().await.unwrap(), text);
    assert!(begun.elapsed() >= Duration::from_millis(95));
}

#[tokio::test]
async fn a_hop_that_is_widened_again_lets_the_rest_through_at_once() {
    let it = world().await;
    let text = "x".repeat(50_000);
    let sent = text.clone();
    it.stub.behave(move |_| Reply::Raw(200, sent.clone()));
    let id = it.fault(json!({"link": HTTP, "kind": "bandwidth", "bytes_per_second": 1})).await;
    let url = it.url("/");
    let body = tokio::spawn(async move { client().get(url).send().await.unwrap().text().await.unwrap() });
    it.until_applied(id, 1).await;
    it.off(id).await;
    assert_eq!(body.await.unwrap(), text);
}

#[tokio::test]
async fn a_fault_that_nothing_meets_counts_nothing() {
    let it = world().await;
    let quiet = it.fault(json!({"link": QUIET, "kind": "reset"})).await;
    for _ in 0..3 {
        assert_eq!(it.get().await.unwrap().status(), 200);
    }
    assert_eq!(it.off(quiet).await["applied"], 0);
    assert_eq!(it.link(QUIET).await["requests"], 0);
    assert_eq!(it.link(HTTP).await["requests"], 3);
}

#[tokio::test]
async fn faults_of_one_link_add_up() {
    let it = world().await;
    let slow = it.fault(json!({"link": HTTP, "kind": "latency", "latency_ms": 1, "on": "request"})).await;
    let status = it.fault(json!({"link": HTTP, "kind": "http_status", "status": 500})).await;
    assert_eq!(it.get().await.unwrap().status(), 500);
    assert_eq!((it.applied(slow).await, it.applied(status).await), (1, 1));
    let applied = &it.link(HTTP).await["applied"];
    assert_eq!(applied, &json!({"latency": 1, "http_status": 1}));
}
