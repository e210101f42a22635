use std::{collections::HashSet, time::Duration};

use contracts::provider::ChargeState;
use testkit::eventually;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::setup::{body, problem, setup, setup_with};

#[tokio::test]
async fn an_approved_and_a_declined_charge_are_both_answered_with_200_and_stand_in_the_ledger() {
    let it = setup().await;
    let approved = it.api.charge("k-1", "tok_approve").await;
    assert_eq!((approved.state, approved.decline_code), (ChargeState::Approved, None));
    let declined = it.api.charge("k-2", "tok_decline").await;
    assert_eq!(declined.state, ChargeState::Declined);
    assert_eq!(declined.decline_code.as_deref(), Some("card_declined"));

    let ledger = it.api.ledger().await;
    let lines: Vec<_> = ledger.charges.iter().map(|c| (c.id.as_str(), c.key.as_str(), c.state)).collect();
    assert_eq!(
        lines,
        [(approved.id.as_str(), "k-1", ChargeState::Approved), (declined.id.as_str(), "k-2", ChargeState::Declined)]
    );
    assert_eq!(ledger.charges[0].amount_minor, 1_000);
    it.provider.stop().await;
}

#[tokio::test]
async fn the_same_key_gets_the_same_answer_and_another_body_is_refused() {
    let it = setup().await;
    let first = it.api.charge("k", "tok_approve").await;
    let again = it.api.try_charge("k", "tok_approve").await.unwrap();
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!(again.json::<contracts::provider::ChargeReply>().await.unwrap(), first);

    let mut other = body("tok_approve");
    other["amount_minor"] = 999.into();
    problem(it.api.post_charge("k", &other).send().await.unwrap(), 422, "idempotency-key-reused").await;
    problem(it.api.try_charge("k", "tok_decline").await.unwrap(), 422, "idempotency-key-reused").await;
    assert_eq!(it.api.ledger().await.charges.len(), 1);
}

#[tokio::test]
async fn a_hundred_posts_at_once_with_one_key_make_one_charge() {
    let it = setup_with(|config| {
        config.behaviour.latency_ms = 20;
        config.behaviour.jitter_ms = 30;
        config.behaviour.decline_ratio = 0.5;
    })
    .await;
    let posts: Vec<_> = (0..100)
        .map(|_| {
            let api = it.api.clone();
            tokio::spawn(async move { api.charge("one", "tok_approve").await })
        })
        .collect();
    let mut answers = HashSet::new();
    for post in posts {
        let reply = post.await.unwrap();
        answers.insert((reply.id, reply.state));
    }
    assert_eq!(answers.len(), 1);
    assert_eq!(it.api.ledger().await.charges.len(), 1);
}

#[tokio::test]
async fn a_lost_reply_charges_and_closes_the_connection_without_a_byte() {
    let it = setup().await;
    for round in 1..=2 {
        let mut socket = TcpStream::connect(it.provider.addr).await.unwrap();
        let json = body("tok_lost_reply").to_string();
        let request = format!(
            "POST /v1/charges HTTP/1.1\r\nhost: p\r\nidempotency-key: lost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{json}",
            json.len()
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A reset is as good as an end: what counts is that no byte came.
        let _ = socket.read_to_end(&mut answer).await;
        assert_eq!(answer, b"", "round {round}");
        assert_eq!(it.api.by_key("lost").await.unwrap().state, ChargeState::Approved);
        assert_eq!(it.api.ledger().await.charges.len(), 1, "the repeat did not charge again");
    }
}

#[tokio::test]
async fn a_lost_request_neither_charges_nor_answers() {
    let it = setup().await;
    for _ in 0..2 {
        assert!(it.api.try_charge("gone", "tok_lost_request").await.is_err());
    }
    assert_eq!(it.api.by_key("gone").await, None);
    assert_eq!(it.api.ledger().await.charges, []);
}

#[tokio::test]
async fn a_lost_reply_is_held_until_then_and_a_stop_does_not_wait_for_it() {
    let it = setup_with(|config| config.hold_for = Duration::from_secs(600)).await;
    let waiting = tokio::spawn({
        let api = it.api.clone();
        async move { api.try_charge("held", "tok_lost_reply").await }
    });
    eventually("the charge", async || it.api.by_key("held").await).await;
    assert!(!waiting.is_finished());
    it.provider.stop().await;
    assert!(waiting.await.unwrap().is_err());
}

#[tokio::test]
async fn a_slow_charge_becomes_visible_when_it_is_decided_even_if_its_caller_has_left() {
    let it = setup().await;
    let impatient = it.api.post_charge("slow", &body("tok_slow_700")).timeout(Duration::from_millis(150));
    assert!(impatient.send().await.unwrap_err().is_timeout());
    let absent = it.api.get("/v1/charges/by-key/slow").await;
    let absent = problem(absent, 404, "not-found").await;
    assert_eq!(absent.extra["settle_ms"], 2_000);
    let reply = eventually("the late charge", async || it.api.by_key("slow").await).await;
    assert_eq!(reply.state, ChargeState::Approved);
}

#[tokio::test]
async fn an_error_method_answers_its_status_with_a_problem_and_charges_nothing() {
    let it = setup().await;
    for (status, slug) in [
        (400, "invalid-request"),
        (402, "invalid-request"),
        (404, "not-found"),
        (429, "rate-limited"),
        (500, "internal"),
        (502, "internal"),
        (503, "overloaded"),
        (504, "deadline-exceeded"),
        (599, "internal"),
    ] {
        let response = it.api.try_charge("e", &format!("tok_error_{status}")).await.unwrap();
        let retry_after = response.headers().contains_key("retry-after");
        assert_eq!(retry_after, matches!(status, 429 | 503), "{status}");
        problem(response, status, slug).await;
    }
    assert_eq!(it.api.ledger().await.charges, []);
    assert_eq!(it.api.charge("e", "tok_approve").await.state, ChargeState::Approved, "the key is still free");
}

#[tokio::test]
async fn a_key_with_characters_that_need_escaping_is_found_again() {
    let it = setup().await;
    let charged = it.api.charge("a/b?c%25", "tok_approve").await;
    assert_eq!(it.api.by_key("a%2Fb%3Fc%2525").await.unwrap().id, charged.id);
}
