use std::sync::atomic::Ordering;

use testkit::eventually;

use crate::small::{self, PATIENCE};

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_finishes_what_is_in_flight_and_then_closes() {
    let (app, strings) = small::start().await;
    let (client, slow, admin) = (app.client.clone(), app.url("/slow"), app.admin_url("/readyz"));
    let elsewhere = app.url("/nothing");
    let lifecycle = app.running.lifecycle.clone();
    let in_flight = tokio::spawn(client.get(&slow).send());
    eventually("the request is in flight", async || (lifecycle.in_flight() == 1).then_some(())).await;

    let stopping = tokio::spawn(app.running.stop());
    eventually("it says that it is not ready", async || {
        let ready = client.get(&admin).send().await.ok()?;
        (ready.status() == 503 && ready.text().await.ok()?.contains("stopping")).then_some(())
    })
    .await;
    eventually("the listener is closed", async || {
        // Not `/slow`, which would take the permit of the request that is waited for.
        let refused = client.get(&elsewhere).send().await.err()?;
        refused.is_connect().then_some(())
    })
    .await;
    assert!(!strings.closed.load(Ordering::Relaxed), "the pools were closed under a request");
    strings.go.add_permits(1);
    let answer = tokio::time::timeout(PATIENCE, in_flight).await.unwrap().unwrap().unwrap();
    assert_eq!(answer.headers()["connection"], "close");
    assert_eq!((answer.status().as_u16(), answer.text().await.unwrap()), (200, "true".to_owned()));
    tokio::time::timeout(PATIENCE, stopping).await.unwrap().unwrap();
    assert!(strings.closed.load(Ordering::Relaxed));
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_follows_the_database_and_liveness_does_not() {
    let (app, strings) = small::start().await;
    let get = async |path: &str| app.client.get(app.admin_url(path)).send().await.unwrap().status().as_u16();
    assert_eq!((get("/healthz").await, get("/readyz").await), (200, 200));
    strings.database_answers.store(false, Ordering::Relaxed);
    assert_eq!((get("/healthz").await, get("/readyz").await), (200, 503));
    strings.database_answers.store(true, Ordering::Relaxed);
    assert_eq!(get("/readyz").await, 200);
}
