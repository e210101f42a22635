//! The real binary: how it stops, and what it writes to its log meanwhile.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
};

use chassis::auth::{Claims, Scope, mint};
use contracts::{UserId, headers};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use testkit::{Reply, Stub, TestDatabase, eventually, kafka::TestBroker, stub::refusing_url};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::{
    stubs::{approved, discounted, stock_held, suggested},
    world::answer,
};

// Secrets that are in nothing else, so that they can be looked for.
const JWT_SECRET: &str = "planted-user-token-secret-0123456789";
const OWN_TOKEN: &str = "planted-internal-token-of-order-01234";
const CALLER_TOKEN: &str = "planted-internal-token-of-payment-012";
const DATABASE_PASSWORD: &str = "planted-database-password";
const CARD: &str = "tok_planted_4242424242424242";
/// Long enough for any machine: what is in flight here ends when the test lets it.
const PATIENT: &str = r#"
    gateway.timeout_ms = 120000
    idempotency.lease_ms = 120000
    database.acquire_timeout_ms = 10000
    database.lock_timeout_ms = 5000
    [downstream.inventory]
    timeout_ms = 9000
    attempt_timeout_ms = 9000
    [downstream.payment]
    timeout_ms = 60000
    attempt_timeout_ms = 60000
    breaker.probe_lease_ms = 120000
    [route."POST /v1/orders"]
    timeout_ms = 90000
    [route."GET /v1/orders"]
    timeout_ms = 20000
"#;

/// What the processes of one test have around them.
struct Scene {
    database: TestDatabase,
    broker: TestBroker,
    inventory: Stub,
    payment: Stub,
    /// A charge is answered once it gets a permit.
    go: Arc<Semaphore>,
    coupon: Stub,
    recommendation: Stub,
    token: String,
    folder: PathBuf,
}

impl Scene {
    async fn open() -> Self {
        let go = Arc::new(Semaphore::new(0));
        let held = go.clone();
        let payment = Stub::start(move |seen| Reply::Held(held.clone(), Box::new(approved(seen)))).await;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("rules.toml"), PATIENT).unwrap();
        let exp = chrono::Utc::now().timestamp().unsigned_abs() + 3_600;
        let claims = Claims { sub: UserId::generate(), name: None, tenant: None, tier: None, scope: Scope::User, exp };
        Self {
            database: TestDatabase::create().await,
            broker: testkit::kafka::broker(&contracts::topic::all()).await.unwrap(),
            inventory: Stub::start(stock_held).await,
            payment,
            go,
            coupon: Stub::start(discounted).await,
            recommendation: Stub::start(suggested).await,
            token: mint(JWT_SECRET, &claims).unwrap(),
            folder,
        }
    }

    /// A process that is ready.
    async fn launch(&self, more: &[(&str, &str)]) -> Process {
        // Free a moment ago; the binary has no way to tell which ports it got.
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let (api, admin) = (free(), free());
        let log = self.folder.join(format!("{api}.log"));
        let (user, rest) = self.database.url().split_once('@').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_order"));
        command
            .env("APP_ENV", "dev")
            .env("API_ADDR", &api)
            .env("ADMIN_ADDR", &admin)
            .env("AUTH_JWT_SECRET", JWT_SECRET)
            .env("INTERNAL_TOKEN", OWN_TOKEN)
            .env("INTERNAL_TOKENS", format!("payment:{CALLER_TOKEN}"))
            .env("DATABASE_URL", format!("{user}:{DATABASE_PASSWORD}@{rest}"))
            .env("KAFKA_BOOTSTRAP", &self.broker.config.bootstrap)
            .env("KAFKA_TOPIC_PREFIX", &self.broker.config.topic_prefix)
            .env("REDIS_URL", refusing_url().replace("http", "redis"))
            .env("RULES_FILE", self.folder.join("rules.toml"))
            .env("LOG_FORMAT", "json")
            .env("LOG_LEVEL", "trace")
            .env("INVENTORY_URL", self.inventory.url())
            .env("PAYMENT_URL", self.payment.url())
            .env("COUPON_URL", self.coupon.url())
            .env("RECOMMENDATION_URL", self.recommendation.url())
            .envs(more.iter().copied())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap());
        let child = command.spawn().unwrap();
        let client = Client::builder().no_proxy().build().unwrap();
        let process = Process { child, client, api, admin, log };
        eventually("it is ready", async || (process.readiness().await?.0 == 200).then_some(())).await;
        process
    }

    /// A request that is in flight until [`Self::go`] lets it.
    async fn order(&self, process: &Process) -> tokio::task::JoinHandle<reqwest::Result<reqwest::Response>> {
        let body = json!({"items": [{"sku": "TEA", "quantity": 1}], "payment_method": CARD});
        let request = process.request("/v1/orders", &self.token).header(headers::IDEMPOTENCY_KEY, "k").json(&body);
        let request = request.header(headers::REQUEST_ID, REQUEST).header(headers::TRACEPARENT, TRACEPARENT);
        let running = tokio::spawn(request.send());
        eventually("the charge is under way", async || self.payment.seen().first().map(drop)).await;
        running
    }
}

const REQUEST: &str = "request-of-this-test";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Killed when it goes out of scope, so that a test that fails leaves no process behind.
struct Process {
    child: Child,
    client: Client,
    api: String,
    admin: String,
    log: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn request(&self, path: &str, token: &str) -> RequestBuilder {
        self.client.post(format!("http://{}{path}", self.api)).bearer_auth(token)
    }

    async fn readiness(&self) -> Option<(u16, Value)> {
        Some(answer(self.client.get(format!("http://{}/readyz", self.admin)).send().await.ok()?).await)
    }

    fn terminate(&self) {
        assert!(Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap().success());
    }

    async fn draining(&self) {
        eventually("it is not ready any more", async || {
            let (status, body) = self.readiness().await?;
            (status == 503 && body["reason"] == "stopping").then_some(())
        })
        .await;
    }

    async fn end(&mut self) -> ExitStatus {
        eventually("the process has ended", async || self.child.try_wait().unwrap()).await
    }

    /// The lines of its log, each of them JSON and none with a secret in it.
    fn log(&self, secrets: &[&str]) -> Vec<Value> {
        let text = fs::read_to_string(&self.log).unwrap();
        let known = [JWT_SECRET, OWN_TOKEN, CALLER_TOKEN, DATABASE_PASSWORD, CARD];
        for line in text.lines() {
            let told = known.iter().chain(secrets).find(|secret| line.contains(**secret));
            assert_eq!(told, None, "{line}");
        }
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_answers_what_is_in_flight_and_ends_with_0_and_the_log_tells_requests_and_no_secret() {
    let scene = Scene::open().await;
    let mut process = scene.launch(&[]).await;
    // What is wrong with a request is told to its sender; what was in it, to nobody.
    let forged = format!("{}x", scene.token);
    assert_eq!(process.request("/v1/orders", &forged).send().await.unwrap().status(), 401);
    let garbled = process.request("/v1/orders", &scene.token).header(headers::IDEMPOTENCY_KEY, "g");
    let garbled = garbled.header("content-type", "application/json").body(format!("{{\"payment_method\": {CARD}"));
    assert_eq!(garbled.send().await.unwrap().status(), 400);

    let running = scene.order(&process).await;
    process.terminate();
    process.draining().await;
    scene.go.add_permits(1);
    let answered = running.await.unwrap().unwrap();
    assert_eq!(answered.headers()["connection"], "close");
    let (status, order) = answer(answered).await;
    assert_eq!((status, &order["status"]), (201, &json!("confirmed")));
    assert_eq!(process.end().await.code(), Some(0));

    let lines = process.log(&[&scene.token, scene.token.rsplit_once('.').unwrap().1]);
    let of_the_request = |line: &&Value| line["span"]["request_id"] == REQUEST && line["span"]["trace_id"] == TRACE;
    let told: Vec<_> = lines.iter().filter(of_the_request).filter(|line| line["order_id"] == order["id"]).collect();
    assert!(told.iter().any(|line| line["status"] == "confirmed"), "{told:#?}");
    let says = |message| lines.iter().any(|line| line["message"] == message && line["level"] == "INFO");
    assert!(says("ready") && says("stopping") && says("stopped"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_notice_still_lets_requests_in_and_a_second_signal_or_the_timeout_cuts_the_shutdown_short() {
    let scene = Scene::open().await;
    let never = ("SHUTDOWN_TIMEOUT_MS", "600000");
    let mut process = scene.launch(&[("DRAIN_NOTICE_MS", "600000"), never]).await;
    process.terminate();
    process.draining().await;
    let orders = process.client.get(format!("http://{}/v1/orders", process.api)).bearer_auth(&scene.token);
    let listed = orders.send().await.unwrap();
    assert_eq!((listed.status().as_u16(), &listed.headers()["connection"]), (200, &"close".parse().unwrap()));
    process.terminate();
    assert_eq!(process.end().await.code(), Some(1), "told twice, it does not wait");

    let mut process = scene.launch(&[("SHUTDOWN_TIMEOUT_MS", "100")]).await;
    let running = scene.order(&process).await;
    process.terminate();
    assert_eq!(process.end().await.code(), Some(1), "the payment never answers");
    // The client may hear that its request failed, or nothing; never how it ended, which nobody knows.
    if let Ok(told) = running.await.unwrap() {
        assert!(told.status().is_server_error(), "{told:?}");
    }
    // Nothing is lost by that: what a request had begun stands where the recoverer finds it.
    let db = scene.database.connect().await;
    let standing: Vec<(String, bool)> =
        sqlx::query_as("select status, attempt_id is not null from orders").fetch_all(db.pool()).await.unwrap();
    assert_eq!(standing, [("payment_in_flight".to_owned(), true)]);
    process.log(&[&scene.token]);
}
