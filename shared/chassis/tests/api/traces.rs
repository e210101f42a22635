//! What a collector sees of a request, its wait in the guards, and its call.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use chassis::collector::Collector;
use contracts::{Service, headers, trace::TraceContext};
use resilience::BulkheadConfig;
use rules::Rules;
use serde_json::json;
use testkit::{Reply, SpanStub, Stub, app::wiring, eventually};
use tokio::sync::Semaphore;

use super::{outbound::MS, relay::Relay, shop::stranger};

const SERVER: u64 = 2;
const CLIENT: u64 = 3;
const INTERNAL: u64 = 1;

/// One call at a time; the second waits for the first.
fn one_at_a_time() -> Rules {
    let mut rules = Rules::default();
    rules.route.entry("GET /v1/products".into()).or_default().timeout = Duration::from_secs(20);
    rules.downstream.recommendation = rules::Downstream {
        timeout: 20_000 * MS,
        attempt_timeout: 20_000 * MS,
        bulkhead: BulkheadConfig { cap: 1, wait: Duration::from_secs(20), max_waiting: 1 },
        ..rules.downstream.recommendation
    };
    rules
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_tells_the_wait_in_a_guard_from_the_callees_time_and_holds_no_token() {
    let spans = SpanStub::start().await;
    let collector = Collector::start(&spans.url(), &wiring(Service::Order, Rules::default())).unwrap();
    let go = Arc::new(Semaphore::new(0));
    let held = go.clone();
    let callee = Stub::start(move |_| Reply::Held(held.clone(), Box::new(Reply::Json(200, json!(1))))).await;
    let relay = Relay::start(one_at_a_time(), &callee.url()).await;

    let (outside, token) = (TraceContext::root(), stranger());
    let ask = || relay.products(&token).header(headers::TRACEPARENT, outside.to_string()).send();
    let both = async { tokio::try_join!(ask(), ask()).unwrap() };
    let release = async {
        eventually("one has a permit and the other waits", async || {
            let now = relay.callee.snapshot().bulkhead;
            ((now.in_flight, now.waiting) == (1, 1)).then_some(())
        })
        .await;
        go.add_permits(2);
    };
    let ((first, second), ()) = tokio::join!(both, release);
    assert!(first.status() == 200 && second.status() == 200);

    let trace = eventually("the spans arrive", async || {
        collector.flush().await;
        let trace = spans.of_trace(&outside.trace_id());
        let has_all = [(SERVER, 2), (CLIENT, 2), (INTERNAL, 1)];
        let has = |(kind, least)| trace.iter().filter(|span| span.kind == kind).count() >= least;
        has_all.into_iter().all(has).then_some(trace)
    })
    .await;
    let of_kind = |kind: u64| trace.iter().filter(move |span| span.kind == kind);
    let requests: BTreeSet<&str> = of_kind(SERVER).map(|span| span.own.as_str()).collect();
    assert_eq!(requests.len(), 2);
    for span in of_kind(SERVER) {
        assert_eq!((span.name.as_str(), span.parent.as_str()), ("GET /v1/products", &*outside.span_id()));
        assert_eq!((span.service.as_str(), span.attribute("http.response.status_code")), ("order", Some("200")));
    }
    let seen = callee.seen();
    let sent: Vec<_> = seen.iter().map(|seen| seen.header(headers::TRACEPARENT).unwrap()).collect();
    for span in of_kind(CLIENT) {
        assert!(requests.contains(&*span.parent) && span.name == "GET recommendation");
        assert_eq!(span.attribute("outcome"), Some("answered"));
        assert!(sent.iter().any(|header| header.contains(&span.own)), "the callee was told of another span");
    }
    // The other one may have waited for a processor.
    let waited = of_kind(INTERNAL).max_by_key(|span| span.ended - span.began).unwrap();
    let call = of_kind(CLIENT).find(|span| span.parent == waited.parent).unwrap();
    assert_eq!(waited.name, "guards of recommendation");
    assert!(waited.ended <= call.began && call.attribute("guard.wait_ms") != Some("0"));
    assert!(!spans.text().contains(&token) && !spans.text().contains(token.rsplit('.').next().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_that_its_caller_does_not_record_is_not_recorded_and_travels_on_so() {
    let callee = Stub::start(|_| Reply::Json(200, json!(1))).await;
    let relay = Relay::start(Rules::default(), &callee.url()).await;
    let unsampled = format!("{}00", &TraceContext::root().to_string()[..53]);
    relay.products(&stranger()).header(headers::TRACEPARENT, &unsampled).send().await.unwrap();
    let seen = callee.seen();
    let passed_on = seen[0].header(headers::TRACEPARENT).unwrap();
    assert!(passed_on.starts_with(&unsampled[..35]) && passed_on.ends_with("-00"), "{passed_on}");
}
