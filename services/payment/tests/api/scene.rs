//! A running payment service, its provider, and a look into its database.

use std::time::Duration;

use contracts::{AttemptId, Currency, OrderId, Service, headers, payment::Charge, topic};
use events::KafkaConfig;
use payment::{app, config::Config, http::signature::Secrets};
use rules::{PaymentLevel, Route, Rules};
use serde_json::{Value, json};
use sqlx::PgPool;
use testkit::{Reply, Stub, TestApp, TestDatabase, caller_token, eventually, stub::refusing_url};

pub struct Scene {
    pub app: TestApp,
    pub provider: Stub,
    pub pool: PgPool,
    pub database: TestDatabase,
}

pub const WEBHOOK_SECRET: &str = "test-only-webhook-secret";

/// An answer of the service.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
}

impl Answer {
    #[track_caller]
    pub fn is_problem(&self, status: u16, slug: &str) {
        assert_eq!((self.status, &self.body["type"]), (status, &json!(format!("urn:problem:{slug}"))), "{self:?}");
        assert_eq!(self.headers["content-type"], headers::PROBLEM_JSON);
    }

    #[track_caller]
    pub fn is_unknown(&self) {
        assert_eq!((self.status, &self.body), (202, &json!({"state": "unknown"})), "{self:?}");
    }
}

/// The rules with limits that only a broken service reaches on a slow machine.
pub fn patient() -> Rules {
    let mut rules = Rules::default();
    let seconds = Duration::from_secs;
    rules.route.insert(Rules::CHARGE.to_owned(), Route { timeout: seconds(20), ..Route::default() });
    rules.downstream.provider.timeout = seconds(15);
    rules.downstream.provider.attempt_timeout = seconds(15);
    rules.downstream.provider.connect_timeout = seconds(5);
    rules.downstream.provider_backup = rules.downstream.provider.clone();
    rules.reconcile.lease = seconds(60);
    rules.database.acquire_timeout = seconds(10);
    rules.database.lock_timeout = seconds(5);
    rules.database.statement_timeout = seconds(5);
    rules
}

/// None: for tests whose subject is not what it carries. Messages are given to the handlers by hand.
pub fn any_kafka() -> KafkaConfig {
    KafkaConfig::new("127.0.0.1:1", "payment")
}

pub fn approves() -> Reply {
    Reply::Json(200, json!({"id": "ch_1", "state": "approved"}))
}

pub fn declines() -> Reply {
    Reply::Json(200, json!({"id": "ch_2", "state": "declined", "decline_code": "insufficient_funds"}))
}

pub fn charge() -> Charge {
    Charge {
        order_id: OrderId::generate(),
        amount_minor: 4_200,
        currency: Currency::USD,
        payment_method: "tok_approve".to_owned(),
    }
}

/// Serves with a database of its own, whose address `through` may change.
pub async fn serve(
    rules: Rules,
    kafka: KafkaConfig,
    provider_url: &str,
    database: &TestDatabase,
    through: impl FnOnce(String) -> String,
) -> TestApp {
    serve_both(rules, kafka, provider_url, &refusing_url(), database, through).await
}

/// [`serve`] with a backup channel.
pub async fn serve_both(
    rules: Rules,
    kafka: KafkaConfig,
    primary_url: &str,
    backup_url: &str,
    database: &TestDatabase,
    through: impl FnOnce(String) -> String,
) -> TestApp {
    let config = config(through(database.url()), kafka, primary_url, backup_url);
    TestApp::start(Service::Payment, rules, |wiring, lifecycle| app::build(config, wiring, lifecycle)).await
}

pub fn config(database_url: String, kafka: KafkaConfig, primary_url: &str, backup_url: &str) -> Config {
    Config {
        database_url,
        kafka,
        provider_primary_url: primary_url.to_owned(),
        provider_backup_url: backup_url.to_owned(),
        webhook_secrets: Secrets::new(vec![WEBHOOK_SECRET.to_owned()]),
    }
}

impl Scene {
    /// The provider answers every charge with `reply`.
    pub async fn start(reply: Reply) -> Self {
        Self::with(patient(), any_kafka(), reply).await
    }

    pub async fn with(rules: Rules, kafka: KafkaConfig, reply: Reply) -> Self {
        let provider = Stub::start(move |_| reply.clone()).await;
        let database = TestDatabase::create().await;
        let app = serve(rules, kafka, &provider.url(), &database, |url| url).await;
        let pool = database.connect().await.pool().clone();
        Self { app, provider, pool, database }
    }

    /// One channel alone, the backup, so that what its guards refuse goes nowhere else.
    pub async fn with_backup_alone(mut rules: Rules, reply: Reply) -> Self {
        rules.degrade.payment = PaymentLevel::BackupOnly;
        let provider = Stub::start(move |_| reply.clone()).await;
        let database = TestDatabase::create().await;
        let app = serve_both(rules, any_kafka(), &refusing_url(), &provider.url(), &database, |url| url).await;
        let pool = database.connect().await.pool().clone();
        Self { app, provider, pool, database }
    }

    pub async fn put(&self, id: AttemptId, charge: &Charge) -> Answer {
        put(&self.app, id, charge).await
    }

    pub async fn get(&self, id: AttemptId) -> Answer {
        send(self.app.get(&path(id))).await
    }

    pub async fn fence(&self, id: AttemptId) -> Answer {
        send(self.app.post(&format!("{}/fence", path(id)))).await
    }

    /// How often the provider was told to charge.
    pub fn charges(&self) -> usize {
        self.provider.seen_at("POST", "/v1/charges").iter().filter(|seen| seen.path == "/v1/charges").count()
    }

    pub async fn state(&self, id: AttemptId) -> Option<String> {
        state(&self.pool, id).await
    }

    pub async fn becomes(&self, id: AttemptId, expected: &str) {
        eventually(&format!("the attempt is {expected}"), || async {
            (self.state(id).await.as_deref() == Some(expected)).then_some(())
        })
        .await;
    }

    /// What order is told, published or not: type and data.
    pub async fn announced(&self, id: AttemptId) -> Vec<(String, Value)> {
        let rows: Vec<(String,)> =
            sqlx::query_as("select payload from outbox where payload like $1 and topic = $2 order by id")
                .bind(format!("%{id}%"))
                .bind(topic::PAYMENTS.name)
                .fetch_all(&self.pool)
                .await
                .unwrap();
        let parsed = rows.iter().map(|(payload,)| serde_json::from_str::<Value>(payload).unwrap());
        parsed.map(|event| (event["type"].as_str().unwrap().to_owned(), event["data"].clone())).collect()
    }

    /// From, to and event of every transition.
    pub async fn history(&self, id: AttemptId) -> Vec<(Option<String>, String, String)> {
        sqlx::query_as("select from_state, to_state, event from attempt_history where attempt_id = $1 order by version")
            .bind(id.as_uuid())
            .fetch_all(&self.pool)
            .await
            .unwrap()
    }
}

pub fn path(id: AttemptId) -> String {
    format!("/v1/payments/{id}")
}

pub async fn put(app: &TestApp, id: AttemptId, charge: &Charge) -> Answer {
    send(app.put(&path(id)).json(charge)).await
}

/// As order.
pub async fn send(request: reqwest::RequestBuilder) -> Answer {
    send_anonymously(request.bearer_auth(caller_token(Service::Order))).await
}

pub async fn send_anonymously(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Answer { status, headers, body }
}

pub async fn state(pool: &PgPool, id: AttemptId) -> Option<String> {
    let row: Option<(String,)> = sqlx::query_as("select state from attempts where id = $1")
        .bind(id.as_uuid())
        .fetch_optional(pool)
        .await
        .unwrap();
    row.map(|(state,)| state)
}
