//! A system that is watched as closely as it can be: the finest log, a collector of traces, and secrets of its own in the
//! environment of every process. What it tells is whole, and none of it is a secret.

use std::{collections::BTreeSet, fs, time::Duration};

use contracts::{Service, UserId, headers, trace::TraceContext};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use testkit::{SpanStub, eventually, spans::SeenSpan};

use super::{
    shop::{fresh_key, order_of},
    system::{HURRIED, System, checkout, command, dev, turn},
};

const JWT_SECRET: &str = "planted-jwt-secret-0123456789abcdef";
const DATABASE_PASSWORD: &str = "planted-database-password";
const ALERT_PATH: &str = "planted-alert-address";
/// As it stands in the wrong places of a request.
const CARD: &str = "4111111111111111";
const SIGNATURE: &str = "feedfacefeedfacefeedfacefeedfacefeedfacefeedfacefeedfacefeedface";
const STRANGERS_TOKEN: &str = "planted-token-of-a-stranger";
/// What every payment method of the simulator begins with.
const PAYMENT_METHOD: &str = "tok_";
/// The secrets of a local system, which its processes get like any others.
const WELL_KNOWN: [&str; 2] = ["dev-only-internal-token-of-", "dev-only-webhook-secret"];

/// A second system, beside the one that tests share.
struct Watched {
    base: u16,
    token: String,
    client: Client,
}

impl Watched {
    fn start(beside: &System, collector: &str) -> Self {
        let base = beside.base + 2_000;
        let rules = beside.folder().join("watched-rules.toml");
        fs::write(&rules, HURRIED).unwrap();
        // Before anything can fail, so that whatever does is cleared away.
        let client = Client::builder().no_proxy().timeout(Duration::from_secs(10)).build().unwrap();
        let mut watched = Self { base, token: String::new(), client };
        let started = command(&["up", "--detach", "--port-base", &base.to_string()])
            .env("RULES_FILE", &rules)
            .env("LOG_LEVEL", "trace")
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
            .env("AUTH_JWT_SECRET", JWT_SECRET)
            .env("PGPASSWORD", DATABASE_PASSWORD)
            .env("ALERT_WEBHOOK_URL", format!("http://127.0.0.1:9/{ALERT_PATH}"))
            .output()
            .unwrap();
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        let user = UserId::generate().to_string();
        let minted = command(&["token", "--user", &user]).env("AUTH_JWT_SECRET", JWT_SECRET).output().unwrap();
        watched.token = String::from_utf8(minted.stdout).unwrap().trim().to_owned();
        watched
    }

    fn url(&self, service: Service, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", service.api_port(self.base, 0))
    }

    fn place(&self, order: &Value) -> RequestBuilder {
        let request = self.client.post(self.url(Service::Order, "/v1/orders")).bearer_auth(&self.token);
        request.header(headers::IDEMPOTENCY_KEY, fresh_key()).json(order)
    }

    /// The status and the body.
    async fn told(&self, request: RequestBuilder) -> (u16, String) {
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    async fn provider_sends_webhooks(&self, mode: &str) {
        let url = format!("http://127.0.0.1:{}/admin/behaviour", self.base + 6);
        self.client.put(url).json(&json!({"webhook": mode})).send().await.unwrap().error_for_status().unwrap();
    }

    /// Everything that the processes wrote, by file.
    fn logs(&self) -> Vec<(String, String)> {
        let folder = checkout().join(format!("target/dev/{}/logs", self.base));
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files
            .map(|path| (path.display().to_string(), String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()))
            .collect()
    }

    /// What the admin listeners show, by address.
    async fn shown(&self) -> Vec<(String, String)> {
        let mut shown = Vec::new();
        for service in Service::ALL {
            for path in ["/internal/state", "/metrics", "/readyz"] {
                let url = format!("http://127.0.0.1:{}{path}", service.admin_port(self.base, 0));
                let (status, text) = self.told(self.client.get(&url)).await;
                assert_eq!(status, 200, "{url}: {text}");
                shown.push((url, text));
            }
        }
        shown
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        dev(&["down", "--wipe", "--port-base", &self.base.to_string()]);
    }
}

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
    let lost = watched.place(&order_of("TEA-EARLGREY-100", 1, "tok_lost_reply"));
    let (status, body) = watched.told(lost.header(headers::TRACEPARENT, outside.to_string())).await;
    assert_eq!(status, 202, "{body}");
    let id = serde_json::from_str::<Value>(&body).unwrap()["id"].as_str().unwrap().to_owned();
    eventually("the order is confirmed", async || {
        let look = watched.client.get(watched.url(Service::Order, &format!("/v1/orders/{id}")));
        let (_, body) = watched.told(look.bearer_auth(&watched.token)).await;
        body.contains("\"confirmed\"").then_some(())
    })
    .await;
    watched.provider_sends_webhooks("on").await;
    id
}

/// What one order's trace has to show, by service and name.
const STATIONS: [(&str, &str); 15] = [
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

/// The stations that a trace lacks; a tier of a queue stands for the queue.
fn missing(trace: &[SeenSpan]) -> Vec<&'static str> {
    let is_there = |(service, name): &&(&str, &str)| {
        trace
            .iter()
            .any(|span| span.service == *service && (span.name == *name || span.name.starts_with(&format!("{name}."))))
    };
    STATIONS.iter().filter(|station| !is_there(station)).map(|(_, name)| *name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_follows_an_order_through_payment_kafka_and_reconciliation_and_no_secret_leaves() {
    let system = turn().await;
    let collector = SpanStub::start().await;
    let watched = Watched::start(&system, &collector.url());
    let mut bodies = drive(&watched).await;
    let outside = TraceContext::root();
    let order = lose_a_reply(&watched, &outside).await;

    // The tree is whole: every span's parent is one of them, or the caller's.
    let of_the_order = || collector.of_trace(&outside.trace_id());
    let orphans = |trace: &[SeenSpan]| -> Vec<String> {
        let mut known: BTreeSet<String> = trace.iter().map(|span| span.own.clone()).collect();
        known.insert(outside.span_id());
        trace.iter().filter(|span| !known.contains(&span.parent)).map(|span| span.name.clone()).collect()
    };
    let mut said = None;
    let trace = eventually("the trace is whole", async || {
        let trace = of_the_order();
        let lacks = (missing(&trace), orphans(&trace));
        let is_whole = lacks.0.is_empty() && lacks.1.is_empty();
        if said.as_ref() != Some(&lacks) {
            println!("of {} spans; missing, and without a parent: {lacks:?}", trace.len());
            said = Some(lacks);
        }
        is_whole.then_some(trace)
    })
    .await;
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
    for (told_by, what) in [("/order-0.log", order.as_str()), ("spans", order.as_str()), ("/payment-0.log", "TRACE")] {
        assert!(texts.iter().any(|(name, text)| name.ends_with(told_by) && text.contains(what)), "{what} in {told_by}");
    }
    let parts: Vec<&str> = watched.token.split('.').collect();
    let planted = [
        JWT_SECRET,
        DATABASE_PASSWORD,
        ALERT_PATH,
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
