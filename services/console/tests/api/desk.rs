//! A running console, and short ways to ask it.

use chassis::dev_secrets;
use console::{
    Config, app,
    domain::{operators::Operators, target::Targets},
    downstream::{Addresses, Secret},
};
use contracts::{Service, UserId, topic};
use durable::Database;
use events::KafkaConfig;
use reqwest::{Method, RequestBuilder, Response};
use rules::Rules;
use serde_json::{Value, json};
use testkit::{
    Reply, Stub, TestApp, TestDatabase, caller_token,
    kafka::{self, TestBroker},
    operator_token,
    stub::{Seen, refusing_url},
};
use uuid::Uuid;

pub const PASSWORD: &str = "the password of ada";

pub struct Desk {
    pub app: TestApp,
    pub stores: Database,
    // Dropped last: with it goes the database.
    pub database: TestDatabase,
}

/// Nothing here is about being fast, and a test machine is slow without being broken.
fn patient() -> Rules {
    // Of the way in, the limit is what is tested.
    let slow = rules::ROUTES.iter().filter(|route| **route != "POST /v1/session");
    let slow = slow.filter(|route| rules::service_of(route) == Some("console"));
    let slow: String = slow.map(|route| format!("[route.\"{route}\"]\ntimeout_ms = 31000\n")).collect();
    Rules::from_toml(&format!("{slow}[database]\nacquire_timeout_ms = 5000\nlock_timeout_ms = 5000\n")).unwrap()
}

/// A session as a browser holds it.
pub struct Session {
    pub cookie: String,
    pub csrf: String,
}

/// With nobody to watch and nobody to ask.
fn config(database_url: String) -> Config {
    Config {
        database_url,
        operators: Operators::parse(&format!("ada:{PASSWORD},bob:the password of bob"), true).unwrap(),
        targets: Targets::default(),
        callees: Addresses {
            order_url: refusing_url(),
            payment_url: refusing_url(),
            coupon_url: refusing_url(),
            links_admin_url: None,
            users_secret: Secret::new(dev_secrets::AUTH_JWT_SECRET),
        },
        kafka: KafkaConfig::new("127.0.0.1:1", "console"),
        is_dev: true,
    }
}

impl Desk {
    pub async fn open() -> Self {
        Self::with(|_| {}).await
    }

    /// In surroundings of the test's own.
    pub async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let database = TestDatabase::create().await;
        let mut config = config(database.url());
        change(&mut config);
        let app =
            TestApp::start(Service::Console, patient(), |wiring, lifecycle| app::build(config, wiring, lifecycle));
        Self { app: app.await, stores: database.connect().await, database }
    }

    /// Whoever the console asks is there, and says what fits.
    pub async fn surrounded() -> (Self, Surroundings) {
        let callee = Stub::start(answer).await;
        let broker = kafka::broker(&topic::all()).await.unwrap();
        let (url, kafka) = (callee.url(), broker.config.clone());
        let desk = Self::with(|config| {
            let callees = &mut config.callees;
            (callees.order_url, callees.payment_url, callees.coupon_url) = (url.clone(), url.clone(), url);
            config.kafka = kafka;
        });
        (desk.await, Surroundings { _callee: callee, _broker: broker })
    }

    pub fn get(&self, path: &str) -> RequestBuilder {
        self.app.get(path).bearer_auth(operator_token("ada"))
    }

    pub fn posting(&self, path: &str, said: &Value) -> RequestBuilder {
        self.app.post(path).bearer_auth(operator_token("ada")).json(said)
    }

    pub fn delete(&self, path: &str) -> RequestBuilder {
        self.app.client.delete(self.app.url(path)).bearer_auth(operator_token("ada"))
    }

    pub async fn seen(&self, path: &str) -> Value {
        body(self.get(path).send().await.unwrap(), 200).await
    }

    pub async fn post(&self, path: &str, said: &Value) -> Response {
        self.posting(path, said).send().await.unwrap()
    }

    pub async fn publish(&self, document: &str, based_on: Option<i64>) -> Response {
        let said = json!({"document": document, "owner": "checkout", "reason": "a test", "based_on": based_on});
        self.post("/v1/rules", &said).await
    }

    /// A draft of this document, based on the newest version.
    pub async fn draft(&self, document: &str) -> i64 {
        let newest = self.seen("/v1/rules?limit=1").await["items"][0]["version"].as_i64();
        body(self.publish(document, newest).await, 201).await["version"].as_i64().unwrap()
    }

    /// `canary`, `promote`, `rollback`.
    pub async fn act(&self, version: i64, act: &str) -> Response {
        let mut said = json!({"reason": "a test"});
        if act == "canary" {
            said["instances"] = json!(["order-0"]);
        }
        self.post(&format!("/v1/rules/{version}/{act}"), &said).await
    }

    pub async fn done(&self, version: i64, act: &str) -> Value {
        body(self.act(version, act).await, 200).await
    }

    /// The states of all versions, newest first.
    pub async fn states(&self) -> Vec<String> {
        let list = self.seen("/v1/rules").await;
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["state"].as_str().unwrap().to_owned()).collect()
    }

    /// What an instance of order hears that has seen `tag`.
    pub fn asking(&self, instance: &str, tag: Option<i64>, wait_ms: u64) -> RequestBuilder {
        let request = self.app.get(&format!("/v1/rules/current?service=order&instance={instance}&wait_ms={wait_ms}"));
        let request = request.bearer_auth(caller_token(Service::Order));
        match tag {
            Some(tag) => request.header("if-none-match", format!("\"{tag}\"")),
            None => request,
        }
    }

    /// The status, and the version where there is one.
    pub async fn heard(&self, instance: &str, tag: Option<i64>) -> (u16, Option<i64>) {
        told(self.asking(instance, tag, 0).send().await.unwrap()).await
    }

    pub async fn log_in(&self, name: &str, password: &str) -> Response {
        self.app.post("/v1/session").json(&json!({"name": name, "password": password})).send().await.unwrap()
    }

    /// Ada's, begun now.
    pub async fn session(&self) -> Session {
        let answer = self.log_in("ada", PASSWORD).await;
        let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let begun = body(answer, 200).await;
        Session { cookie, csrf: begun["csrf"].as_str().unwrap().to_owned() }
    }

    /// As the page of a session sends it.
    pub fn by(&self, session: &Session, method: Method, path: &str) -> RequestBuilder {
        let request = self.app.client.request(method, self.app.url(path));
        request.header("cookie", &session.cookie).header("x-csrf-token", &session.csrf)
    }

    /// What operators did: who, what and to what, oldest first.
    pub async fn audit(&self) -> Vec<(String, String, String, String)> {
        sqlx::query_as("select operator, action, target, reason from operator_actions order by id")
            .fetch_all(self.stores.pool())
            .await
            .unwrap()
    }
}

/// Gone when they are dropped.
pub struct Surroundings {
    _callee: Stub,
    _broker: TestBroker,
}

/// As order, payment and coupon would.
fn answer(seen: &Seen) -> Reply {
    let path = seen.path.split('?').next().unwrap_or_default();
    let empty = json!({"items": [], "next_cursor": null});
    match (seen.method.as_str(), path) {
        ("POST", "/v1/orders") => Reply::Json(201, json!({"id": Uuid::now_v7()})),
        ("POST", _) => Reply::Json(202, json!({"state": "review"})),
        (_, path) if path.ends_with("/history") => Reply::Json(200, json!([])),
        (_, path) if path.starts_with("/v1/operator/orders/") => Reply::Json(200, order(Uuid::now_v7())),
        _ => Reply::Json(200, empty),
    }
}

/// An order as order shows it to the console.
pub fn order(id: Uuid) -> Value {
    let at = "2026-11-30T10:00:00Z";
    json!({
        "id": id, "user_id": Uuid::nil(), "tenant": null, "status": "confirmed", "status_reason": null, "items": [],
        "currency": "USD", "subtotal_minor": 1, "discount_minor": 0, "total_minor": 1,
        "coupon": {"code": null, "state": "none"},
        "payment": {"attempt_id": null, "state": "approved", "channel": "primary", "refunded_minor": 0},
        "degraded": [], "recommendations": [], "created_at": at, "updated_at": at
    })
}

/// Status and version of an answer to a question for news.
pub async fn told(answer: Response) -> (u16, Option<i64>) {
    let status = answer.status().as_u16();
    let tag = answer.headers().get("etag").map(|tag| tag.to_str().unwrap().trim_matches('"').parse::<i64>().unwrap());
    if status == 200 {
        let rules = body(answer, 200).await;
        assert_eq!(rules["version"].as_i64(), tag);
    }
    (status, tag)
}

/// The body of an answer with this status.
pub async fn body(answer: Response, status: u16) -> Value {
    let (got, text) = (answer.status().as_u16(), answer.text().await.unwrap());
    assert_eq!(got, status, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// A token of nobody who may act here.
pub fn user() -> String {
    testkit::user_token(UserId::generate())
}
