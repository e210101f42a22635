//! The database is away: nothing is sent that is not written down, and nothing is guessed.

use std::time::Duration;

use contracts::{AttemptId, headers};
use testkit::{Link, Reply, Stub, TestDatabase, eventually};

use crate::scene::{any_kafka, approves, charge, path, patient, put, send, serve, state};

#[tokio::test]
async fn an_outcome_that_cannot_be_recorded_is_answered_as_unknown_and_recorded_when_the_database_is_back() {
    let provider = Stub::start(|_| Reply::Late(Duration::from_millis(300), Box::new(approves()))).await;
    let database = TestDatabase::create().await;
    let link = Link::to(&database).await;
    let through = |_| link.url.clone();
    let app = serve(patient(), any_kafka(), &provider.url(), &database, through).await;
    let id = AttemptId::generate();
    let cut_meanwhile = async {
        eventually("the provider sees the charge", || async {
            (!provider.seen_at("POST", "/v1/charges").is_empty()).then_some(())
        })
        .await;
        link.cut();
    };
    let request = app.put(&path(id)).json(&charge()).header(headers::EXPECTED_TIMEOUT_MS, "1200");
    let (answer, ()) = tokio::join!(send(request), cut_meanwhile);
    answer.is_unknown();
    let pool = database.connect().await.pool().clone();
    assert_eq!(state(&pool, id).await.as_deref(), Some("dispatched"));
    link.mend();
    eventually("the outcome is recorded", || async {
        (state(&pool, id).await.as_deref() == Some("approved")).then_some(())
    })
    .await;
    assert_eq!(provider.seen_at("POST", "/v1/charges").len(), 1);
}

#[tokio::test]
async fn without_a_database_nothing_is_sent() {
    let provider = Stub::start(|_| approves()).await;
    let database = TestDatabase::create().await;
    let link = Link::to(&database).await;
    let mut rules = patient();
    rules.database.acquire_timeout = Duration::from_millis(300);
    let through = |_| link.url.clone();
    let app = serve(rules, any_kafka(), &provider.url(), &database, through).await;
    link.cut();
    let (id, charge) = (AttemptId::generate(), charge());
    let answer = put(&app, id, &charge).await;
    answer.is_problem(503, "storage-unavailable");
    assert_eq!(answer.headers["retry-after"], "1");
    send(app.get(&path(id))).await.is_problem(503, "storage-unavailable");
    send(app.post(&format!("{}/fence", path(id)))).await.is_problem(503, "storage-unavailable");
    assert_eq!(provider.seen_at("POST", "/v1/charges").len(), 0);
    link.mend();
    assert_eq!(put(&app, id, &charge).await.status, 200);
}
