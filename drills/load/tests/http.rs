//! The generator over real sockets, against a service that does as it is told.

#![expect(clippy::unwrap_used, reason = "what the tests share may fail them as they may themselves")]

use std::{
    num::NonZeroU32,
    path::Path,
    process::{Command, Output},
    sync::Arc,
    time::Duration,
};

use chassis::dev_secrets::AUTH_JWT_SECRET;
use contracts::OrderId;
use load::{Answer, Crowd, Http, Kind, Limits, Outcome, Plan, Process, Profile, Recording, Retry, Shop, Users, run};
use serde_json::{Value, json};
use testkit::{
    Stub,
    stub::{Reply, Seen, refusing_url},
};
use tokio_util::sync::CancellationToken;

const USERS: NonZeroU32 = NonZeroU32::MIN.saturating_add(4);
/// What users wait.
const PATIENT: Duration = Duration::from_secs(5);
/// For a test that waits for its end.
const IMPATIENT: Duration = Duration::from_millis(400);

fn plan(mix: &str) -> Plan {
    Plan {
        profile: Profile::steady(60.0, Duration::from_secs(1)).unwrap(),
        process: Process::Uniform,
        mix: mix.parse().unwrap(),
        users: USERS,
        seed: 1,
    }
}

async fn drive(url: &str, mix: &str, timeout: Duration) -> (Recording, Vec<Answer>) {
    let http = Http::new(&url.parse().unwrap(), timeout).unwrap();
    let exchange = move |request: Arc<load::Request>| {
        let http = http.clone();
        async move { http.exchange(&request).await }
    };
    run_to_the_end(&plan(mix), Crowd::default(), Limits { timeout, ..Limits::default() }, exchange).await
}

async fn run_to_the_end<E, F>(plan: &Plan, crowd: Crowd, limits: Limits, exchange: E) -> (Recording, Vec<Answer>)
where
    E: Fn(Arc<load::Request>) -> F,
    F: Future<Output = Result<load::Reply, load::Failure>> + Send + 'static,
{
    let users = Users::mint(USERS, 1, AUTH_JWT_SECRET, Duration::from_secs(60)).unwrap();
    let mut shop = Shop::new(users, vec!["TEA-1".into()], "tok_approve", "t").unwrap().with_crowd(crowd);
    let mut answers = Vec::new();
    let sink = |answer: &Answer| answers.push(answer.clone());
    let recording = run(plan, &mut shop, limits, exchange, sink, &CancellationToken::new()).await;
    (recording, answers)
}

fn shop_window(_: &Seen) -> Reply {
    let product = json!({
        "sku": "TEA-1", "name": "Tea", "unit_price_minor": 500, "currency": "USD", "recommendations": [],
        "degraded": [], "availability": { "available": 1000, "as_of": "2026-01-01T00:00:00Z", "stale": false },
    });
    Reply::Json(200, json!({ "items": [product], "next_cursor": null }))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_arrival_reaches_the_service_once_and_as_a_client_sends_it() {
    let order = OrderId::generate();
    let stub = Stub::start(move |seen| match seen.method.as_str() {
        "POST" => Reply::Json(201, json!({ "id": order, "status": "confirmed" })),
        _ => Reply::Json(200, json!({ "items": [], "next_cursor": null })),
    })
    .await;
    let (recording, answers) = drive(&stub.url(), "place_order=1,read_order=1", PATIENT).await;
    assert_eq!((recording.arrivals(), recording.saturated(), answers.len()), (60, 0, 60));

    let seen = stub.seen();
    assert_eq!(seen.len(), 60);
    let posts = stub.seen_at("POST", "/v1/orders");
    assert!(!posts.is_empty());
    for post in &posts {
        assert!(post.header("idempotency-key").unwrap().starts_with("load-t-"));
        assert_eq!(post.header("x-envoy-expected-rq-timeout-ms"), Some("5000"));
        assert!(post.header("authorization").unwrap().starts_with("Bearer ey"));
        assert_eq!(post.body["items"][0]["sku"], "TEA-1");
    }
    // Orders that were placed are read.
    assert!(!stub.seen_at("GET", &format!("/v1/orders/{order}")).is_empty());
    let writes = answers.iter().filter(|answer| answer.request.kind == Kind::PlaceOrder);
    for answer in writes {
        assert_eq!((answer.outcome, answer.order_id), (Outcome::Status(201), Some(order)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_answer_a_broken_one_and_a_refused_connection_are_told_apart() {
    let hanging = Stub::start(|_| Reply::Hang).await;
    let (_, answers) = drive(&hanging.url(), "list_products=1", IMPATIENT).await;
    assert!(
        answers.iter().all(|a| a.outcome == Outcome::TimedOut && a.latency() >= IMPATIENT),
        "{:?}",
        outcomes(&answers)
    );

    let closing = Stub::start(|_| Reply::Truncated).await;
    let (_, answers) = drive(&closing.url(), "list_products=1", PATIENT).await;
    assert!(answers.iter().all(|a| a.outcome == Outcome::Broken), "{:?}", outcomes(&answers));

    let (_, answers) = drive(&refusing_url(), "list_products=1", PATIENT).await;
    assert!(answers.iter().all(|a| a.outcome == Outcome::NotSent), "{:?}", outcomes(&answers));
    assert_eq!(answers.len(), 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_take_turns_among_replicas_and_whoever_meets_a_dead_one_asks_the_next() {
    let stub = Stub::start(shop_window).await;
    let targets = [stub.url(), refusing_url()].map(|url| url.parse().unwrap());
    let http = Http::across(&targets, PATIENT).unwrap();
    let retry = Retry { times: 1, pause: Duration::from_millis(10), on: vec!["not_sent".into()], new_key: false };
    let crowd = Crowd { retry: Some(retry), ..Crowd::default() };
    let exchange = move |request: Arc<load::Request>| {
        let http = http.clone();
        async move { http.exchange(&request).await }
    };
    let (recording, answers) = run_to_the_end(&plan("list_products=1"), crowd, Limits::default(), exchange).await;
    assert_eq!((recording.arrivals(), recording.retries(), stub.seen().len()), (60, 30, 60));
    assert!(answers.iter().filter(|answer| answer.last).all(|answer| answer.outcome == Outcome::Status(200)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_announce_less_than_it_waits() {
    let stub = Stub::start(shop_window).await;
    let http = Http::new(&stub.url().parse().unwrap(), PATIENT).unwrap().announcing(IMPATIENT);
    let exchange = move |request: Arc<load::Request>| {
        let http = http.clone();
        async move { http.exchange(&request).await }
    };
    run_to_the_end(&plan("list_products=1"), Crowd::default(), Limits::default(), exchange).await;
    assert!(stub.seen().iter().all(|seen| seen.header("x-envoy-expected-rq-timeout-ms") == Some("400")));
}

fn outcomes(answers: &[Answer]) -> Vec<Outcome> {
    answers.iter().map(|answer| answer.outcome).collect()
}

async fn program(args: Vec<String>) -> Output {
    let run = move || Command::new(env!("CARGO_BIN_EXE_load")).args(args).output().unwrap();
    tokio::task::spawn_blocking(run).await.unwrap()
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_prints_a_table_and_writes_its_report() {
    let stub = Stub::start(shop_window).await;
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.json");
    let mut args = words(&format!("--url {} --rate 40 --duration 1s --mix reads --arrivals uniform", stub.url()));
    args.extend(["--json".to_owned(), file.display().to_string()]);
    let output = program(args).await;
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{table}{}", String::from_utf8_lossy(&output.stderr));
    assert!(table.contains("40 requests were due, 40 succeeded"), "{table}");

    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((&report["arrivals"], &report["seconds"][0]["outcomes"]["200"]), (&json!(40), &json!(40)));
    assert_eq!(report["generator"]["doubt"], Value::Null);
    // One more for the list of what can be ordered.
    assert_eq!(stub.seen().len(), 41);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_calls_nobody_but_this_machine() {
    let output = program(words("--url http://203.0.113.7:8080 --rate 1 --duration 1s")).await;
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(error.contains("203.0.113.7 is not on this machine: this is a drill tool"), "{error}");
}
