//! The live view: from what instances say to what a browser is told.

use std::time::Duration;

use console::domain::target::{Group, Target};
use futures_util::StreamExt;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use testkit::{Reply, Stub, eventually, stub::refusing_url};

use crate::desk::{Desk, body as answered};

fn target(instance: &str, url: String) -> Target {
    let service = instance.rsplit_once('-').unwrap().0.to_owned();
    Target { service, instance: instance.to_owned(), url }
}

/// An instance that has answered more requests every time that it is asked.
async fn busy() -> Stub {
    let asked = std::sync::atomic::AtomicU32::new(0);
    Stub::start(move |seen| match seen.path.as_str() {
        "/readyz" => Reply::Json(200, json!({"status": "ready"})),
        "/internal/state" => Reply::Json(200, json!({"build": "9", "rules": {"version": 3, "origin": "console"}})),
        _ => {
            let n = 100 * asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Reply::Raw(200, format!("http_requests_total{{status=\"200\"}} {n}\nhttp_inflight_requests 1\n"))
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_picture_is_made_of_what_every_instance_says_and_one_that_hangs_delays_no_other() {
    let (up, hung) = (busy().await, Stub::start(|_| Reply::Hang).await);
    let unready = Stub::start(|seen| match seen.path.as_str() {
        "/readyz" => Reply::Json(503, json!({"status": "not ready", "reason": "the database is gone"})),
        _ => Reply::Json(200, json!({})),
    })
    .await;
    let targets = vec![
        target("order-0", up.url()),
        target("payment-0", hung.url()),
        target("coupon-0", unready.url()),
        target("inventory-0", refusing_url()),
    ];
    let desk = Desk::with(|config| config.targets.fixed = targets).await;
    let shown = eventually("rates are known", || async {
        let shown = desk.seen("/v1/live").await;
        let hung = shown["services"][1]["reason"] == "gives no answer in time";
        (shown["services"][0]["rate"].as_f64().is_some_and(|rate| rate > 0.0) && hung).then_some(shown)
    })
    .await;
    let states: Vec<_> = shown["services"].as_array().unwrap().iter().map(|s| s["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["up", "unreachable", "not_ready", "unreachable"]);
    assert_eq!(shown["services"][0]["rules"], json!({"version": 3, "origin": "console"}));
    assert_eq!(shown["services"][2]["reason"], "the database is gone");
    assert_eq!(shown["services"][3]["reason"], "cannot be connected to");
    assert!(up.seen().len() > 2 * hung.seen().len() / 3, "nobody waited for the one that hangs");
    assert_eq!(shown["warming_up"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_found_where_the_name_of_their_service_leads_and_called_what_they_say() {
    let stub = Stub::start(|seen| match seen.path.as_str() {
        "/readyz" => Reply::Json(200, json!({"status": "ready"})),
        "/internal/state" => Reply::Json(200, json!({"instance": "order-7d9f-x2", "build": "9"})),
        _ => Reply::Raw(200, "http_inflight_requests 1\n".to_owned()),
    })
    .await;
    let port = stub.url().rsplit_once(':').unwrap().1.to_owned();
    let groups = vec![
        Group { service: "order".to_owned(), host: format!("localhost:{port}") },
        Group { service: "coupon".to_owned(), host: "nobody.invalid:1".to_owned() },
    ];
    let desk = Desk::with(|config| config.targets.groups = groups).await;
    let shown = eventually("it has said its name", || async {
        let shown = desk.seen("/v1/live").await;
        let named = |service: &Value| service["instance"] == "order-7d9f-x2" && service["state"] == "up";
        shown["services"].as_array().unwrap().iter().any(named).then_some(shown)
    })
    .await;
    // localhost may have a second address, at which nobody listens.
    assert!(shown["services"].as_array().unwrap().iter().all(|found| found["service"] == "order"), "{shown}");
}

/// The next event of a stream: its number and its data.
async fn next(stream: &mut (impl StreamExt<Item = reqwest::Result<bytes::Bytes>> + Unpin)) -> (u64, Value) {
    let mut text = String::new();
    loop {
        let chunk = tokio::time::timeout(Duration::from_secs(20), stream.next()).await.expect("an event");
        text.push_str(std::str::from_utf8(&chunk.expect("more").unwrap()).unwrap());
        if !text.ends_with("\n\n") {
            continue;
        }
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        assert_eq!(field("event: ").as_deref(), Some("snapshot"), "{text}");
        assert_eq!(field("retry: ").as_deref(), Some("2000"));
        return (field("id: ").unwrap().parse().unwrap(), serde_json::from_str(&field("data: ").unwrap()).unwrap());
    }
}

/// Chunks of a body as they come.
fn chunks(answer: Response) -> impl StreamExt<Item = reqwest::Result<bytes::Bytes>> + Unpin {
    Box::pin(futures_util::stream::unfold(answer, |mut answer| async move {
        answer.chunk().await.transpose().map(|chunk| (chunk, answer))
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_told_as_they_come_numbered_and_never_cached() {
    let desk = Desk::open().await;
    let answer = desk.get("/v1/events").send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let mut stream = chunks(answer);
    let (first, snapshot) = next(&mut stream).await;
    assert!(snapshot["services"].is_array() && snapshot["hops"].is_array(), "{snapshot}");
    let (second, _) = next(&mut stream).await;
    let (third, _) = next(&mut stream).await;
    assert_eq!((second, third), (first + 1, first + 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_session() {
    let desk = Desk::open().await;
    let session = desk.session().await;
    let mut stream = chunks(desk.by(&session, Method::GET, "/v1/events").send().await.unwrap());
    next(&mut stream).await;
    assert_eq!(desk.by(&session, Method::DELETE, "/v1/session").send().await.unwrap().status(), 204);
    while let Some(chunk) = tokio::time::timeout(Duration::from_secs(20), stream.next()).await.expect("it ends") {
        chunk.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_listen_at_once() {
    let desk = Desk::open().await;
    let mut open = Vec::new();
    for _ in 0..console::workflow::listeners::MOST {
        let answer = desk.get("/v1/events").send().await.unwrap();
        assert_eq!(answer.status(), 200);
        open.push(answer);
    }
    let one_more = desk.get("/v1/events").send().await.unwrap();
    assert!(one_more.headers().contains_key("retry-after"));
    let problem = answered(one_more, 503).await;
    assert_eq!((&problem["type"], &problem["mechanism"]), (&json!("urn:problem:overloaded"), &json!("listeners")));
    drop(open);
    eventually("who goes makes room", || async {
        (desk.get("/v1/events").send().await.unwrap().status() == 200).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_waits_for_no_stream_and_ends_each() {
    let desk = Desk::open().await;
    let mut stream = chunks(desk.get("/v1/events").send().await.unwrap());
    next(&mut stream).await;
    let stopping = tokio::time::timeout(Duration::from_secs(20), desk.app.running.stop());
    let reading = async { while let Some(Ok(_)) = stream.next().await {} };
    let (stopped, ()) = tokio::join!(stopping, reading);
    stopped.expect("it stops while somebody listens");
}
