//! The caller's time, and the record's own.

use std::time::Duration;

use contracts::{AttemptId, headers};
use testkit::{Reply, eventually};
use tokio::time::Instant;

use crate::scene::{Scene, any_kafka, approves, charge, path, patient, send};

#[tokio::test]
async fn a_request_that_comes_too_late_is_refused_without_a_trace() {
    let scene = Scene::start(approves()).await;
    let id = AttemptId::generate();
    let request = scene.app.put(&path(id)).json(&charge()).header(headers::EXPECTED_TIMEOUT_MS, "5");
    send(request).await.is_problem(504, "deadline-exceeded");
    assert_eq!(scene.state(id).await, None);
    assert_eq!(scene.charges(), 0);
}

#[tokio::test]
async fn a_hanging_provider_is_answered_for_as_unknown_within_the_callers_time() {
    let scene = Scene::start(Reply::Hang).await;
    let id = AttemptId::generate();
    let started = Instant::now();
    let request = scene.app.put(&path(id)).json(&charge()).header(headers::EXPECTED_TIMEOUT_MS, "700");
    send(request).await.is_unknown();
    // Far below the provider's own limit of 15 s, with room for a machine that is busy.
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    scene.becomes(id, "unknown").await;
    assert_eq!(scene.charges(), 1);
    // Of all the services that run in this process; this one sets its own again every two seconds.
    let at_least = |text: &str, name: &str, least: f64| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        value.is_some_and(|value| value >= least)
    };
    eventually("it is counted, and how old the oldest is", async || {
        let answer = scene.app.client.get(scene.app.admin_url("/metrics")).send().await.unwrap();
        let text = answer.text().await.unwrap();
        let pending = at_least(&text, "payment_pending ", 1.0);
        (pending && at_least(&text, "payment_pending_oldest_age_seconds ", 0.001)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_provider_is_given_less_time_than_the_caller_has() {
    let scene = Scene::start(approves()).await;
    let request = scene.app.put(&path(AttemptId::generate())).json(&charge());
    send(request.header(headers::EXPECTED_TIMEOUT_MS, "4000")).await;
    let seen = scene.provider.seen();
    let given: u64 = seen[0].header(headers::EXPECTED_TIMEOUT_MS).unwrap().parse().unwrap();
    assert!((1..=3_980).contains(&given), "{given}");
}

#[tokio::test]
async fn a_record_outlives_the_deadline_of_the_request_that_it_belongs_to() {
    let mut rules = patient();
    rules.database.lock_timeout = Duration::from_millis(100);
    let scene = Scene::with(rules, any_kafka(), Reply::Late(Duration::from_millis(200), Box::new(approves()))).await;
    let id = AttemptId::generate();
    let block = async {
        eventually("the provider sees the charge", || async { (scene.charges() == 1).then_some(()) }).await;
        let mut tx = scene.pool.begin().await.unwrap();
        sqlx::query("select 1 from attempts where id = $1 for update")
            .bind(id.as_uuid())
            .execute(&mut *tx)
            .await
            .unwrap();
        tx
    };
    let request = scene.app.put(&path(id)).json(&charge()).header(headers::EXPECTED_TIMEOUT_MS, "1500");
    let (answer, blocking) = tokio::join!(send(request), block);
    answer.is_unknown();
    assert_eq!(scene.get(id).await.body["state"], "dispatched");
    blocking.rollback().await.unwrap();
    scene.becomes(id, "approved").await;
    assert_eq!(scene.announced(id).await.len(), 1);
}
