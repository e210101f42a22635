//! `PUT`: one attempt, one charge.

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, channel},
    },
    time::Duration,
};

use contracts::{AttemptId, Currency, OrderId, Service, payment::Charge};
use futures_util::future::join_all;
use serde_json::json;
use sqlx::{Connection, PgConnection};
use testkit::{Reply, caller_token, eventually, stub::Seen};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::scene::{Scene, approves, charge, declines, path};

#[tokio::test]
async fn an_approved_charge_is_reported_with_its_reference_and_again_without_another_charge() {
    let scene = Scene::start(approves()).await;
    let (id, charge) = (AttemptId::generate(), charge());
    let approved = json!({"state": "approved", "channel": "primary", "provider_ref": "ch_1"});
    for _ in 0..3 {
        let answer = scene.put(id, &charge).await;
        assert_eq!((answer.status, &answer.body), (200, &approved));
    }
    assert_eq!(scene.get(id).await.body, approved);
    assert_eq!(scene.charges(), 1);
    let step = |from: Option<&str>, to: &str, event: &str| (from.map(str::to_owned), to.to_owned(), event.to_owned());
    assert_eq!(
        scene.history(id).await,
        [step(None, "dispatched", "dispatch"), step(Some("dispatched"), "approved", "approved")]
    );
}

#[tokio::test]
async fn a_declined_charge_is_reported_with_its_code() {
    let scene = Scene::start(declines()).await;
    let (id, charge) = (AttemptId::generate(), charge());
    let declined = json!({
        "state": "declined", "channel": "primary", "provider_ref": "ch_2", "decline_code": "insufficient_funds"
    });
    for _ in 0..2 {
        let answer = scene.put(id, &charge).await;
        assert_eq!((answer.status, &answer.body), (200, &declined));
    }
    assert_eq!(scene.get(id).await.body, declined);
    assert_eq!(scene.charges(), 1);
}

#[tokio::test]
async fn the_provider_is_told_the_amount_the_order_and_the_attempt_as_key() {
    let scene = Scene::start(approves()).await;
    let (id, charge) = (AttemptId::generate(), charge());
    scene.put(id, &charge).await;
    let seen = scene.provider.seen_at("POST", "/v1/charges");
    let [request] = seen.as_slice() else { panic!("one request, not {seen:?}") };
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/charges"));
    assert_eq!(request.header("idempotency-key"), Some(id.to_string().as_str()));
    assert_eq!(
        request.body,
        json!({
            "amount_minor": 4_200, "currency": "USD", "payment_method": "tok_approve",
            "reference": charge.order_id.to_string(),
        })
    );
}

#[tokio::test]
async fn other_content_under_the_same_id_is_refused_and_charges_nothing() {
    let scene = Scene::start(approves()).await;
    let (id, first) = (AttemptId::generate(), charge());
    scene.put(id, &first).await;
    for other in [
        Charge { order_id: OrderId::generate(), ..first.clone() },
        Charge { amount_minor: 4_201, ..first.clone() },
        Charge { currency: "EUR".parse::<Currency>().unwrap(), ..first.clone() },
        Charge { payment_method: "tok_decline".to_owned(), ..first.clone() },
    ] {
        scene.put(id, &other).await.is_problem(422, "content-mismatch");
    }
    assert_eq!(scene.charges(), 1);
    assert_eq!(scene.put(id, &first).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_puts_of_one_attempt_at_once_charge_once() {
    let scene = Scene::start(Reply::Late(Duration::from_millis(200), Box::new(approves()))).await;
    let (id, charge) = (AttemptId::generate(), charge());
    let answers = join_all((0..100).map(|_| scene.put(id, &charge))).await;
    assert_eq!(scene.charges(), 1);
    // One sent it; whoever asked while it was on its way was told so, whoever asked later the outcome.
    assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 202)), "{answers:?}");
    assert!(answers.iter().any(|answer| answer.status == 200 && answer.body["state"] == "approved"));
    for answer in answers.iter().filter(|answer| answer.status == 202) {
        answer.is_unknown();
    }
    assert_eq!(scene.state(id).await.as_deref(), Some("approved"));
    assert_eq!(scene.history(id).await.len(), 2);
    assert_eq!(scene.announced(id).await.len(), 1);
}

#[tokio::test]
async fn an_attempt_that_exists_is_never_sent_whatever_its_state() {
    let scene = Scene::start(approves()).await;
    for state in ["created", "dispatched", "unknown", "review", "not_dispatched", "fenced", "approved", "declined"] {
        let (id, charge) = (AttemptId::generate(), charge());
        sqlx::query(
            "insert into attempts (id, order_id, amount_minor, currency, payment_method, state, channel, dispatch_no,
                                   provider_ref, decline_code, not_dispatched_reason, created_at, updated_at,
                                   last_may_have_left_at, primary_intent_at)
             values ($1, $2, $3, 'USD', $4, $5, 'primary', 1,
                     case when $5 = 'approved' then 'ch_7' end, case when $5 = 'declined' then 'stolen' end,
                     case when $5 = 'not_dispatched' then 'breaker_open' end, now(), now(), now(), now())",
        )
        .bind(id.as_uuid())
        .bind(charge.order_id.as_uuid())
        .bind(charge.amount_minor)
        .bind(&charge.payment_method)
        .bind(state)
        .execute(&scene.pool)
        .await
        .unwrap();
        let answer = scene.put(id, &charge).await;
        match state {
            "approved" | "declined" => assert_eq!((answer.status, &answer.body["state"]), (200, &json!(state))),
            "fenced" => answer.is_problem(409, "payment-fenced"),
            "not_dispatched" => {
                answer.is_problem(503, "payment-not-dispatched");
                assert_eq!(answer.body["reason"], "breaker_open");
                assert_eq!(answer.body["mechanism"], "breaker.provider");
            }
            _ => answer.is_unknown(),
        }
        assert_eq!(scene.get(id).await.body["state"], state);
        assert_eq!(scene.state(id).await.as_deref(), Some(state));
    }
    assert_eq!(scene.charges(), 0);
}

/// Looks into the database at the moment when a request arrives at the provider, and sends what it sees.
fn look_on_arrival(url: String) -> (impl Fn(&Seen) -> Reply + Send + Sync, Receiver<String>) {
    let (sender, seen) = channel();
    let sender = Arc::new(Mutex::new(sender));
    let behaviour = move |request: &Seen| {
        let key = request.header("idempotency-key").unwrap_or_default().to_owned();
        let (url, sender) = (url.clone(), sender.clone());
        // A thread of its own, because the provider decides what to answer without awaiting anything.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let row: (String, String, i32) = runtime.block_on(async {
                let mut connection = PgConnection::connect(&url).await.unwrap();
                sqlx::query_as("select state, channel, dispatch_no from attempts where id = $1::uuid")
                    .bind(key)
                    .fetch_one(&mut connection)
                    .await
                    .unwrap()
            });
            sender.lock().unwrap().send(format!("{} {} {}", row.0, row.1, row.2)).unwrap();
        })
        .join()
        .unwrap();
        approves()
    };
    (behaviour, seen)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_intent_is_committed_before_the_provider_hears_of_it() {
    let scene = Scene::start(approves()).await;
    let (behaviour, seen) = look_on_arrival(scene.database.url());
    scene.provider.behave(behaviour);
    assert_eq!(scene.put(AttemptId::generate(), &charge()).await.status, 200);
    assert_eq!(seen.try_recv().unwrap(), "dispatched primary 1");
}

#[tokio::test]
async fn a_caller_that_hangs_up_does_not_stop_the_charge_or_its_record() {
    let scene = Scene::start(Reply::Late(Duration::from_millis(300), Box::new(approves()))).await;
    for reset in [false, true] {
        let (id, body) = (AttemptId::generate(), serde_json::to_string(&charge()).unwrap());
        let before = scene.charges();
        let mut socket = TcpStream::connect(scene.app.running.api_addr()).await.unwrap();
        let request = format!(
            "PUT {} HTTP/1.1\r\nhost: payment\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            path(id),
            caller_token(Service::Order),
            body.len()
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        eventually("the provider sees the charge", || async { (scene.charges() > before).then_some(()) }).await;
        if reset {
            socket.set_zero_linger().unwrap();
        }
        drop(socket);
        scene.becomes(id, "approved").await;
        assert_eq!(scene.charges(), before + 1);
    }
}

#[tokio::test]
async fn attempts_are_counted_by_outcome() {
    let scene = Scene::start(approves()).await;
    scene.put(AttemptId::generate(), &charge()).await;
    let metrics = scene.app.client.get(scene.app.admin_url("/metrics")).send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("payment_attempts_total{outcome=\"approved\"}"), "{metrics}");
}
