//! A hop that lets only so many through at a time.

use std::time::Duration;

use serde_json::json;
use testkit::eventually;
use tokio::time::Instant;

use crate::setup::{HTTP, world};

#[tokio::test]
async fn each_takes_its_time_and_so_many_of_them_at_once() {
    const ONE: Duration = Duration::from_millis(60);
    let it = world().await;
    it.fault(json!({"link": HTTP, "kind": "bottleneck", "at_once": 2, "latency_ms": 60})).await;
    let begun = Instant::now();
    let requests: Vec<_> = (0..5).map(|_| it.get_meanwhile()).collect();
    for request in requests {
        assert_eq!(request.await.unwrap().unwrap().status(), 200);
    }
    assert!(begun.elapsed() >= 3 * ONE, "five at two a time are three rounds");
}

#[tokio::test]
async fn who_leaves_the_line_keeps_its_place_in_it() {
    const ONE: Duration = Duration::from_millis(200);
    let it = world().await;
    let id = it.fault(json!({"link": HTTP, "kind": "bottleneck", "at_once": 1, "latency_ms": 200})).await;
    let begun = Instant::now();
    for nth in 1..=2 {
        let request = it.get_meanwhile();
        it.until_applied(id, nth).await;
        request.abort();
    }
    eventually("their callers to be gone", async || (it.link(HTTP).await["connections"] == 0).then_some(())).await;
    assert_eq!(it.get().await.unwrap().status(), 200);
    assert!(begun.elapsed() >= 3 * ONE, "the two before are served first, though nobody waits for them");
}
