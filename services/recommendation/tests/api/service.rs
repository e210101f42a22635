//! A running service, and what tests say to it and ask of it.

use chrono::{DateTime, Duration, Utc};
use contracts::{
    Currency, Event, OrderId, Problem, ProblemType, Service as Name, UserId,
    event::OrderConfirmed,
    order::OrderItem,
    recommendation::{Recommendations, Source},
};
use durable::Database;
use events::{HandleError, Handler, KafkaConfig, Outcome};
use recommendation::{Config, app, events::Orders};
use reqwest::Response;
use rules::Rules;
use serde_json::Value;
use testkit::{
    TestApp, TestDatabase, caller_token,
    redis::{key_prefix, shared_url},
};

pub struct Service {
    pub app: TestApp,
    /// Of the service's own database.
    pub database: Database,
    pub key_prefix: String,
    pub test_database: TestDatabase,
}

/// Nothing here is about being fast, and a test machine is slow without being broken.
const PATIENT: &str = r#"
    route."GET /v1/recommendations".timeout_ms = 10000
    database.acquire_timeout_ms = 5000
    cache.patience_ms = 2000
"#;

/// Where nothing listens.
pub fn nowhere() -> String {
    testkit::stub::refusing_url().replace("http://", "")
}

impl Service {
    /// With Redis and without Kafka: tests hand events to the handler themselves.
    pub async fn start() -> Self {
        Self::start_with(&shared_url(), KafkaConfig::new(nowhere(), "test")).await
    }

    pub async fn start_with(redis_url: &str, kafka: KafkaConfig) -> Self {
        let test_database = TestDatabase::create().await;
        let config = Config {
            database_url: test_database.url(),
            kafka,
            redis_url: redis_url.to_owned(),
            redis_key_prefix: key_prefix(),
        };
        let key_prefix = config.redis_key_prefix.clone();
        let rules = Rules::from_toml(PATIENT).unwrap();
        let build = |wiring, lifecycle| app::build(config, wiring, lifecycle);
        let app = TestApp::start(Name::Recommendation, rules, build).await;
        let database = test_database.connect().await;
        Self { app, database, key_prefix, test_database }
    }

    pub async fn ask(&self, query: &str) -> Response {
        let request = self.app.get(&format!("/v1/recommendations{query}"));
        request.bearer_auth(caller_token(Name::Order)).send().await.unwrap()
    }

    pub async fn recommended(&self, query: &str) -> Recommendations {
        let response = self.ask(query).await;
        assert_eq!(response.status(), 200, "{query}");
        response.json().await.unwrap()
    }

    /// The source and the SKUs alone.
    pub async fn skus(&self, query: &str) -> (Source, Vec<String>) {
        let answer = self.recommended(query).await;
        (answer.source, answer.items.into_iter().map(|item| item.sku).collect())
    }

    pub async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        Orders { database: self.database.clone() }.handle(event).await
    }

    /// Somebody ordered this, now.
    pub async fn ordered(&self, skus: &[&str]) {
        let applied = self.handle(&confirmed(UserId::generate(), skus, Utc::now())).await.unwrap();
        assert_eq!(applied, Outcome::Applied);
    }

    pub async fn ordered_days_ago(&self, days: i64, skus: &[&str]) {
        let event = confirmed(UserId::generate(), skus, Utc::now() - Duration::days(days));
        assert_eq!(self.handle(&event).await.unwrap(), Outcome::Applied);
    }

    pub async fn admin(&self, path: &str) -> Response {
        self.app.client.get(self.app.admin_url(path)).send().await.unwrap()
    }

    pub async fn cache_state(&self) -> Value {
        let state: Value = self.admin("/internal/state").await.json().await.unwrap();
        state["state"]["cache"].clone()
    }

    pub async fn count(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(self.database.pool()).await.unwrap()
    }
}

pub fn order(user: UserId, skus: &[&str]) -> OrderConfirmed {
    let item = |sku: &&str| OrderItem {
        sku: (*sku).to_owned(),
        name: format!("Product {sku}"),
        quantity: 3,
        unit_price_minor: 100,
    };
    OrderConfirmed {
        order_id: OrderId::generate(),
        user_id: user,
        items: skus.iter().map(item).collect(),
        currency: Currency::USD,
        total_minor: 100,
        coupon_code: None,
    }
}

pub fn confirmed(user: UserId, skus: &[&str], at: DateTime<Utc>) -> Event {
    Event::new(&order(user, skus), 1, None, at).unwrap()
}

/// Checks that `response` is this refusal, whole.
pub async fn refused(response: Response, kind: ProblemType) -> Problem {
    assert_eq!(response.status(), kind.status());
    assert_eq!(response.headers()["content-type"], contracts::headers::PROBLEM_JSON);
    let problem: Problem = response.json().await.unwrap();
    assert_eq!(problem.kind, kind);
    problem
}
