//! What each end of a call to the provider leads to.

use std::time::Duration;

use contracts::AttemptId;
use resilience::{
    BulkheadConfig,
    rate_limit::{LimiterConfig, Quota},
};
use serde_json::json;
use testkit::{Reply, TestDatabase, eventually, stub::refusing_url};

use crate::scene::{Scene, any_kafka, approves, charge, patient, put, serve, state};

#[tokio::test]
async fn whatever_does_not_decide_leaves_the_attempt_unknown_and_is_not_sent_again() {
    let scene = Scene::start(approves()).await;
    let problem = json!({"type": "urn:problem:validation-failed", "title": "No", "status": 422, "detail": "no",
                         "retryable": false});
    let not_dispatched = json!({"type": "urn:problem:payment-not-dispatched", "title": "No", "status": 503,
                                "detail": "no", "retryable": true});
    for reply in [
        Reply::Close,
        Reply::Truncated,
        Reply::Raw(200, "approved".to_owned()),
        Reply::Raw(200, String::new()),
        Reply::Json(200, json!({"state": "approved"})),
        Reply::Json(200, json!({"id": "ch_1", "state": "pending"})),
        Reply::Raw(402, String::new()),
        Reply::Json(402, json!({"id": "ch_1", "state": "declined"})),
        Reply::Json(422, problem),
        Reply::Raw(404, "no such page".to_owned()),
        Reply::Raw(307, String::new()),
        Reply::Raw(500, String::new()),
        Reply::Json(500, json!({"decline_code": "stolen"})),
        // The provider does not speak our problems: this one proves nothing of it.
        Reply::Json(503, not_dispatched),
    ] {
        let (id, charge, before) = (AttemptId::generate(), charge(), scene.charges());
        let told = reply.clone();
        scene.provider.behave(move |_| told.clone());
        for _ in 0..2 {
            scene.put(id, &charge).await.is_unknown();
        }
        assert_eq!(scene.state(id).await.as_deref(), Some("unknown"), "{reply:?}");
        assert_eq!(scene.charges(), before + 1, "{reply:?}");
        assert_eq!(scene.announced(id).await, [], "{reply:?}");
    }
}

#[tokio::test]
async fn a_refusal_with_a_decline_code_is_a_decline() {
    let scene = Scene::start(approves()).await;
    for (status, body) in [
        (402, json!({"decline_code": "stolen"})),
        (422, json!({"type": "urn:elsewhere:no", "title": "No", "status": 422, "decline_code": "stolen"})),
    ] {
        let (id, reply) = (AttemptId::generate(), Reply::Json(status, body));
        scene.provider.behave(move |_| reply.clone());
        let answer = scene.put(id, &charge()).await;
        let declined = json!({"state": "declined", "channel": "primary", "decline_code": "stolen"});
        assert_eq!((answer.status, &answer.body), (200, &declined));
        assert_eq!(scene.state(id).await.as_deref(), Some("declined"));
    }
}

#[tokio::test]
async fn a_provider_that_is_slower_than_its_rule_leaves_the_attempt_unknown() {
    let mut rules = patient();
    // Time enough to get there on a busy machine.
    rules.downstream.provider.timeout = Duration::from_millis(1_500);
    let late = Reply::Late(Duration::from_secs(10), Box::new(approves()));
    let scene = Scene::with(rules, any_kafka(), late).await;
    let id = AttemptId::generate();
    scene.put(id, &charge()).await.is_unknown();
    assert_eq!(scene.state(id).await.as_deref(), Some("unknown"));
    assert_eq!(scene.charges(), 1);
}

#[tokio::test]
async fn a_refused_connection_proves_that_nothing_was_sent() {
    let database = TestDatabase::create().await;
    let app = serve(patient(), any_kafka(), &refusing_url(), &database, |url| url).await;
    let (id, charge) = (AttemptId::generate(), charge());
    for _ in 0..2 {
        let answer = put(&app, id, &charge).await;
        answer.is_problem(503, "payment-not-dispatched");
        assert_eq!(answer.body["reason"], "connect_failed");
        assert_eq!(answer.body["mechanism"], "connect.provider_backup");
        assert_eq!(answer.body["order_id"], charge.order_id.to_string());
        assert_eq!(answer.headers["retry-after"], "1");
    }
    let pool = database.connect().await.pool().clone();
    assert_eq!(state(&pool, id).await.as_deref(), Some("not_dispatched"));
    let (left,): (bool,) = sqlx::query_as("select last_may_have_left_at is not null from attempts where id = $1")
        .bind(id.as_uuid())
        .fetch_one(&pool)
        .await
        .unwrap();
    assert!(!left);
}

#[tokio::test]
async fn a_charge_that_no_time_is_left_for_is_not_sent() {
    let mut rules = patient();
    // All that any request may take is needed for the way back.
    rules.network.reserve = Duration::from_secs(60);
    let scene = Scene::with(rules, any_kafka(), approves()).await;
    let id = AttemptId::generate();
    let answer = scene.put(id, &charge()).await;
    answer.is_problem(503, "payment-not-dispatched");
    assert_eq!((&answer.body["reason"], &answer.body["mechanism"]), (&json!("deadline"), &json!("deadline")));
    assert_eq!(scene.state(id).await.as_deref(), Some("not_dispatched"));
    assert_eq!(scene.charges(), 0);
}

#[tokio::test]
async fn what_our_guards_refuse_is_not_sent_and_says_so() {
    let mut rules = patient();
    rules.downstream.provider_backup.breaker.consecutive_failures = 1;
    let scene = Scene::with_backup_alone(rules, Reply::Raw(500, String::new())).await;
    scene.put(AttemptId::generate(), &charge()).await.is_unknown();
    let id = AttemptId::generate();
    let answer = scene.put(id, &charge()).await;
    answer.is_problem(503, "payment-not-dispatched");
    assert_eq!(
        (&answer.body["reason"], &answer.body["mechanism"]),
        (&json!("breaker_open"), &json!("breaker.provider_backup"))
    );
    assert_eq!(scene.state(id).await.as_deref(), Some("not_dispatched"));
    assert_eq!(scene.charges(), 1);
    let state = scene.app.client.get(scene.app.admin_url("/internal/state")).send().await.unwrap();
    let state: serde_json::Value = state.json().await.unwrap();
    assert_eq!(state["state"]["downstream"]["provider_backup"]["breaker"]["state"], "open");
}

#[tokio::test]
async fn a_full_bulkhead_and_a_spent_limit_are_told_apart() {
    let mut rules = patient();
    rules.downstream.provider_backup.bulkhead = BulkheadConfig { cap: 1, wait: Duration::ZERO, max_waiting: 0 };
    let late = Reply::Late(Duration::from_secs(1), Box::new(approves()));
    let scene = Scene::with_backup_alone(rules, late).await;
    let first = async { scene.put(AttemptId::generate(), &charge()).await };
    let second = async {
        eventually("the first charge arrives", async || (scene.charges() == 1).then_some(())).await;
        scene.put(AttemptId::generate(), &charge()).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.status, second.status, &second.body["reason"]), (200, 503, &json!("bulkhead_full")));

    let mut rules = patient();
    rules.downstream.provider_backup.limit = LimiterConfig::TokenBucket(Quota::new(0.01, 1));
    let scene = Scene::with_backup_alone(rules, approves()).await;
    assert_eq!(scene.put(AttemptId::generate(), &charge()).await.status, 200);
    let second = scene.put(AttemptId::generate(), &charge()).await;
    assert_eq!((second.status, &second.body["reason"]), (503, &json!("rate_limited")));
    assert_eq!(scene.charges(), 1);
}
