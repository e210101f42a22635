//! `POST …/fence`: granted only where nothing can have been sent.

use std::time::Duration;

use contracts::AttemptId;
use futures_util::future::join_all;
use serde_json::json;
use testkit::{Reply, TestDatabase, eventually, stub::refusing_url};

use crate::scene::{Scene, any_kafka, approves, charge, declines, path, patient, put, send, serve};

#[tokio::test]
async fn an_attempt_never_seen_is_fenced_and_a_late_put_is_refused() {
    let scene = Scene::start(approves()).await;
    let id = AttemptId::generate();
    for _ in 0..2 {
        let answer = scene.fence(id).await;
        assert_eq!((answer.status, &answer.body), (200, &json!({"state": "fenced"})));
    }
    scene.put(id, &charge()).await.is_problem(409, "payment-fenced");
    scene.put(id, &charge()).await.is_problem(409, "payment-fenced");
    assert_eq!(scene.get(id).await.body, json!({"state": "fenced"}));
    assert_eq!(scene.charges(), 0);
    // It names no order, so there is nobody to tell but the caller.
    assert_eq!(scene.announced(id).await, []);
    assert_eq!(scene.history(id).await.len(), 1);
}

#[tokio::test]
async fn an_attempt_that_was_not_sent_is_fenced_and_announced_once() {
    let scene = Scene::start(approves()).await;
    let unreachable = serve(patient(), any_kafka(), &refusing_url(), &scene.database, |url| url).await;
    let (id, charge) = (AttemptId::generate(), charge());
    put(&unreachable, id, &charge).await.is_problem(503, "payment-not-dispatched");
    for _ in 0..2 {
        let answer = scene.fence(id).await;
        assert_eq!((answer.status, &answer.body["state"]), (200, &json!("fenced")));
    }
    scene.put(id, &charge).await.is_problem(409, "payment-fenced");
    assert_eq!(scene.charges(), 0);
    let data = json!({"order_id": charge.order_id, "attempt_id": id});
    assert_eq!(scene.announced(id).await, [("payment.fenced".to_owned(), data)]);
}

#[tokio::test]
async fn a_created_attempt_is_fenced() {
    let scene = Scene::start(approves()).await;
    let (id, charge) = (AttemptId::generate(), charge());
    sqlx::query(
        "insert into attempts (id, order_id, amount_minor, currency, payment_method, state, created_at, updated_at)
         values ($1, $2, 1, 'USD', 'tok_approve', 'created', now(), now())",
    )
    .bind(id.as_uuid())
    .bind(charge.order_id.as_uuid())
    .execute(&scene.pool)
    .await
    .unwrap();
    assert_eq!(scene.fence(id).await.body, json!({"state": "fenced"}));
    assert_eq!(scene.announced(id).await.len(), 1);
}

#[tokio::test]
async fn a_settled_attempt_is_reported_unchanged() {
    let scene = Scene::start(approves()).await;
    for (reply, expected) in [(approves(), "approved"), (declines(), "declined")] {
        let id = AttemptId::generate();
        scene.provider.behave(move |_| reply.clone());
        let put = scene.put(id, &charge()).await;
        let fenced = scene.fence(id).await;
        assert_eq!((fenced.status, &fenced.body["state"]), (200, &json!(expected)));
        assert_eq!(fenced.body, put.body);
        assert_eq!(scene.history(id).await.len(), 2);
        assert_eq!(scene.announced(id).await.len(), 1);
    }
}

#[tokio::test]
async fn a_fence_changes_nothing_while_a_charge_is_under_way_or_unknown() {
    let scene = Scene::start(Reply::Late(Duration::from_millis(500), Box::new(Reply::Close))).await;
    let (id, charge) = (AttemptId::generate(), charge());
    let fence_meanwhile = async {
        eventually("the provider sees the charge", || async { (scene.charges() == 1).then_some(()) }).await;
        scene.fence(id).await
    };
    let (put, fenced) = tokio::join!(scene.put(id, &charge), fence_meanwhile);
    assert_eq!((fenced.status, &fenced.body["state"]), (200, &json!("dispatched")));
    put.is_unknown();
    let fenced = scene.fence(id).await;
    assert_eq!((fenced.status, &fenced.body["state"]), (200, &json!("unknown")));
    assert_eq!(scene.state(id).await.as_deref(), Some("unknown"));
    assert_eq!(scene.announced(id).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_put_and_a_fence_at_once_exactly_one_wins() {
    let scene = Scene::start(approves()).await;
    let rounds = join_all((0..20).map(async |_| {
        let (id, charge) = (AttemptId::generate(), charge());
        let (put, fence) = tokio::join!(scene.put(id, &charge), scene.fence(id));
        (id, put, fence)
    }))
    .await;
    for (id, put, fence) in rounds {
        let sent =
            scene.provider.seen().iter().filter(|s| s.header("idempotency-key") == Some(&id.to_string())).count();
        if fence.body["state"] == "fenced" {
            put.is_problem(409, "payment-fenced");
            assert_eq!(sent, 0);
        } else {
            assert_eq!((put.status, sent), (200, 1), "{put:?}");
        }
    }
}

#[tokio::test]
async fn a_fence_needs_no_provider_and_an_unknown_attempt_is_found_nowhere() {
    let database = TestDatabase::create().await;
    let app = serve(patient(), any_kafka(), &refusing_url(), &database, |url| url).await;
    let id = AttemptId::generate();
    send(app.get(&path(id))).await.is_problem(404, "not-found");
    let answer = send(app.post(&format!("{}/fence", path(id)))).await;
    assert_eq!((answer.status, &answer.body), (200, &json!({"state": "fenced"})));
}
