//! What a system tells of itself is whole, and none of it is a secret.

use std::collections::BTreeSet;

use contracts::{Service, trace::TraceContext};
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use testkit::{SpanStub, eventually, spans::SeenSpan};

use super::{
    shop::order_of,
    system::{dev, turn},
    watched::{ALERT_PATH, DATABASE_PASSWORD, JWT_SECRET, OPERATOR_PASSWORD, Watched},
};

/// As it stands in the wrong places of a request.
const CARD: &str = "4111111111111111";
const SIGNATURE: &str = "feedfacefeedfacefeedfacefeedfacefeedfacefeedfacefeedfacefeedface";
const STRANGERS_TOKEN: &str = "planted-token-of-a-stranger";
/// As somebody guesses an operator's.
const GUESS: &str = "planted-guess-at-a-password";
/// What every payment method of the simulator begins with.
const PAYMENT_METHOD: &str = "tok_";
/// The secrets of a local system, which its processes get like any others.
const WELL_KNOWN: [&str; 2] = ["dev-only-internal-token-of-", "dev-only-webhook-secret"];

/// Orders that end in every way, and requests that are refused in every way that has to do with a secret. The bodies of
/// the answers.
async fn drive(watched: &Watched) -> Vec<String> {
    let mut with_coupon = order_of("TEA-EARLGREY-100", 1, "tok_approve");
    with_coupon["coupon_code"] = json!("WELCOME10");
    let misplaced = json!({"items": CARD, "payment_method": CARD.parse::<u64>().unwrap()});
    let stranger = |request: RequestBuilder| request.bearer_auth(STRANGERS_TOKEN);
    let webhook = watched.client.post(watched.url(Service::Payment, "/v1/webhooks/provider?channel=primary"));
    let client = &watched.client;
    let requests = [
        (201, watched.place(&with_coupon)),
        (402, watched.place(&order_of("TEA-EARLGREY-100", 1, "tok_decline"))),
        (409, watched.place(&order_of("POSTER-SOLD-OUT", 1, "tok_approve"))),
        (400, watched.place(&misplaced)),
        (401, stranger(client.get(watched.url(Service::Order, "/v1/orders")))),
        (401, stranger(client.get(watched.url(Service::Inventory, "/v1/stock")))),
        (401, client.get(watched.url(Service::Order, "/v1/orders")).bearer_auth(format!("{}x", watched.token))),
        (
            401,
            webhook
                .header("provider-signature", format!("t=1,v1={SIGNATURE}"))
                .body(format!("{{\"card\":\"{CARD}\"}}")),
        ),
    ];
    let mut bodies = Vec::new();
    for (expected, request) in requests {
        let (status, body) = watched.told(request).await;
        assert_eq!(status, expected, "{body}");
        bodies.push(body);
    }
    // Whatever the provider makes of a method that it does not know.
    bodies.push(watched.told(watched.place(&order_of("TEA-EARLGREY-100", 1, CARD))).await.1);
    bodies
}

/// An order whose reply is lost, until reconciliation has found out about it. Its id.
async fn lose_a_reply(watched: &Watched, outside: &TraceContext) -> String {
    watched.provider_sends_webhooks("off").await;
    let order = watched.places_within(outside, "tok_lost_reply").await;
    watched.says(&order, "\"confirmed\"").await;
    watched.provider_sends_webhooks("on").await;
    order
}

/// An order whose charge is let wait, is sent by a job, and is given back by another, since the order is cancelled.
async fn defer_and_cancel(watched: &Watched, outside: &TraceContext) {
    watched.rule(2, "[degrade]\npayment = \"defer\"\n").await;
    let order = watched.places_within(outside, "tok_approve").await;
    watched.says(&order, "\"deferred\"").await;
    watched.rule(3, "").await;
    watched.says(&order, "\"confirmed\"").await;
    let cancel = watched.client.post(watched.url(Service::Order, &format!("/v1/orders/{order}/cancel")));
    let (status, body) = watched.told(cancel.bearer_auth(&watched.token)).await;
    assert_eq!(status, 200, "{body}");
    watched.says(&order, "\"refunded\"").await;
}

/// An operator comes in, looks, places an order and goes, and somebody else does not get in. The secrets of the session:
/// the cookie's value and the page's token.
async fn operate(watched: &Watched) -> [String; 2] {
    let url = |path: &str| watched.url(Service::Console, path);
    let login =
        |password: &str| watched.client.post(url("/v1/session")).json(&json!({"name": "ada", "password": password}));
    assert_eq!(login(GUESS).send().await.unwrap().status(), 401);
    let answer = login(OPERATOR_PASSWORD).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let csrf = answer.json::<Value>().await.unwrap()["csrf"].as_str().unwrap().to_owned();
    let by_session = |request: RequestBuilder| request.header("cookie", &cookie).header("x-csrf-token", &csrf);
    let mut order = order_of("TEA-EARLGREY-100", 1, "tok_approve");
    order["user"] = json!("ada");
    for (expected, request) in [
        (200, watched.client.get(url("/v1/orders"))),
        (200, watched.client.get(url("/v1/live"))),
        (200, watched.client.post(url("/v1/orders")).json(&order)),
        (204, watched.client.delete(url("/v1/session"))),
    ] {
        let (status, body) = watched.told(by_session(request)).await;
        assert_eq!(status, expected, "{body}");
    }
    [cookie.split_once('=').unwrap().1.to_owned(), csrf]
}

type Stations = &'static [(&'static str, &'static str)];

/// What the trace of an order has to show whose reply was lost, by service and name.
const LOST: Stations = &[
    ("order", "POST /v1/orders"),
    ("order", "PUT inventory"),
    ("inventory", "PUT /v1/reservations/{order_id}"),
    ("order", "PUT payment"),
    ("payment", "PUT /v1/payments/{attempt_id}"),
    ("payment", "POST provider"),
    ("order", "publish orders"),
    ("payment", "process orders"),
    ("payment", "publish payments.reconcile"),
    ("payment", "process payments.reconcile"),
    ("payment", "reconcile"),
    ("payment", "GET provider_status"),
    ("payment", "publish payments"),
    ("order", "process payments"),
    ("inventory", "process orders"),
];

/// And of one that waited for its charge and was cancelled.
const DEFERRED: Stations = &[
    ("order", "POST /v1/orders"),
    ("order", "publish orders"),
    ("payment", "deferred"),
    ("payment", "POST provider"),
    ("payment", "publish payments"),
    ("order", "process payments"),
    ("payment", "refund"),
    ("payment", "POST provider_status"),
];

/// The stations that a trace lacks; a tier of a queue stands for the queue.
fn missing(trace: &[SeenSpan], stations: Stations) -> Vec<&'static str> {
    let is_there = |(service, name): &&(&str, &str)| {
        trace
            .iter()
            .any(|span| span.service == *service && (span.name == *name || span.name.starts_with(&format!("{name}."))))
    };
    stations.iter().filter(|station| !is_there(station)).map(|(_, name)| *name).collect()
}

/// The trace, once it has all stations and every span's parent is one of them, or the caller's.
async fn whole(collector: &SpanStub, outside: &TraceContext, stations: Stations) -> Vec<SeenSpan> {
    let orphans = |trace: &[SeenSpan]| -> Vec<String> {
        let mut known: BTreeSet<String> = trace.iter().map(|span| span.own.clone()).collect();
        known.insert(outside.span_id());
        trace.iter().filter(|span| !known.contains(&span.parent)).map(|span| span.name.clone()).collect()
    };
    let mut said = None;
    eventually("the trace is whole", async || {
        let trace = collector.of_trace(&outside.trace_id());
        let lacks = (missing(&trace, stations), orphans(&trace));
        let is_whole = lacks.0.is_empty() && lacks.1.is_empty();
        if said.as_ref() != Some(&lacks) {
            eprintln!("of {} spans; missing, and without a parent: {lacks:?}", trace.len());
            said = Some(lacks);
        }
        is_whole.then_some(trace)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_follows_an_order_through_payment_kafka_and_reconciliation_and_no_secret_leaves() {
    let system = turn().await;
    let collector = SpanStub::start().await;
    let watched = Watched::start(&system, &collector.url());
    let mut bodies = drive(&watched).await;
    let outside = TraceContext::root();
    let order = lose_a_reply(&watched, &outside).await;
    let later = TraceContext::root();
    defer_and_cancel(&watched, &later).await;
    let [cookie, csrf] = operate(&watched).await;

    whole(&collector, &later, DEFERRED).await;
    let trace = whole(&collector, &outside, LOST).await;
    let calls = trace.iter().filter(|span| span.attribute("peer.service").is_some());
    assert!(calls.clone().count() >= 4 && calls.clone().all(|call| call.attribute("guard.wait_ms").is_some()));

    let mut texts = watched.logs();
    texts.extend(watched.shown().await);
    texts.push(("spans".to_owned(), collector.text()));
    bodies.extend([
        String::from_utf8(dev(&["status", "--json", "--port-base", &watched.base.to_string()]).stdout).unwrap()
    ]);
    texts.extend(bodies.into_iter().map(|body| ("an answer".to_owned(), body)));
    // The search finds what there is to find.
    for (told_by, what) in [
        ("/order-0.log", order.as_str()),
        ("spans", order.as_str()),
        ("/payment-0.log", "TRACE"),
        ("/console-0.log", "an operator is in"),
    ] {
        assert!(texts.iter().any(|(name, text)| name.ends_with(told_by) && text.contains(what)), "{what} in {told_by}");
    }
    let parts: Vec<&str> = watched.token.split('.').collect();
    let planted = [
        JWT_SECRET,
        DATABASE_PASSWORD,
        ALERT_PATH,
        OPERATOR_PASSWORD,
        GUESS,
        &cookie,
        &csrf,
        CARD,
        SIGNATURE,
        STRANGERS_TOKEN,
        PAYMENT_METHOD,
        parts[1],
        parts[2],
    ];
    let mut found = Vec::new();
    for secret in planted.into_iter().chain(WELL_KNOWN) {
        for (name, text) in &texts {
            if let Some(at) = text.find(secret) {
                let begin = text[..at].rfind('\n').map_or(0, |line| line + 1);
                let line: String = text[begin..].lines().next().unwrap_or_default().chars().take(600).collect();
                found.push(format!("{secret} in {name}: {line}"));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
