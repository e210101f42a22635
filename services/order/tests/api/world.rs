//! An order service with four siblings of stub.

use std::time::Duration;

use contracts::{AttemptId, OrderId, Service, UserId, event::EventData, headers};
use durable::Database;
use order::{app, config::Config, store::MIGRATIONS};
use reqwest::{RequestBuilder, Response};
use rules::{Origin, Rules};
use serde_json::{Value, json};
use testkit::{Stub, TestApp, TestDatabase, kafka::TestBroker, stub::refusing_url, user_token};
use uuid::Uuid;

pub use crate::stubs::{approved, discounted, problem, stock_held, suggested};

pub struct World {
    pub app: TestApp,
    pub db: Database,
    pub inventory: Stub,
    pub payment: Stub,
    pub coupon: Stub,
    pub recommendation: Stub,
    pub user: UserId,
    // Dropped last, when everything that uses them is gone.
    _broker: TestBroker,
    database: TestDatabase,
}

/// The rules of production, but for their impatience: a test machine is slow without anything being broken.
pub fn patient() -> Rules {
    let mut rules = Rules::default();
    let (core, rest) = (Duration::from_secs(5), Duration::from_secs(3));
    for (downstream, timeout) in [
        (&mut rules.downstream.inventory, core),
        (&mut rules.downstream.payment, core),
        (&mut rules.downstream.payment_status, core),
        (&mut rules.downstream.coupon, rest),
        (&mut rules.downstream.recommendation, rest),
    ] {
        downstream.timeout = timeout;
        downstream.attempt_timeout = timeout;
    }
    for route in [Rules::PLACE_ORDER, "GET /v1/orders", "GET /v1/orders/{order_id}", "GET /v1/products/{sku}"] {
        rules.route.entry(route.to_owned()).or_default().timeout = Duration::from_secs(15);
    }
    rules.database.acquire_timeout = Duration::from_secs(10);
    rules.database.lock_timeout = Duration::from_secs(5);
    rules
}

/// No order is small enough for its charge to wait.
pub fn undeferred() -> Rules {
    let mut rules = patient();
    rules.degrade.defer_max_minor = 0;
    rules
}

impl World {
    pub async fn start() -> Self {
        Self::with_rules(patient()).await
    }

    pub async fn with_rules(rules: Rules) -> Self {
        let inventory = Stub::start(stock_held).await;
        let payment = Stub::start(approved).await;
        Self::with(rules, inventory.url(), payment.url(), inventory, payment).await
    }

    /// A replica that shares the keys with `prefix` of a Redis with others.
    pub async fn with_redis(rules: Rules, url: &str, prefix: &str) -> Self {
        let (inventory, payment) = (Stub::start(stock_held).await, Stub::start(approved).await);
        let (redis, urls) = ((url.to_owned(), prefix.to_owned()), (inventory.url(), payment.url()));
        Self::wired(rules, redis, urls, inventory, payment).await
    }

    /// With addresses that need not be those of the stubs.
    pub async fn with(
        rules: Rules,
        inventory_url: String,
        payment_url: String,
        inventory: Stub,
        payment: Stub,
    ) -> Self {
        // Redis is away: what is shared by it is no part of most tests, and nothing may depend on it.
        let redis = (refusing_url().replace("http", "redis"), String::new());
        Self::wired(rules, redis, (inventory_url, payment_url), inventory, payment).await
    }

    async fn wired(
        rules: Rules,
        (redis_url, redis_key_prefix): (String, String),
        (inventory_url, payment_url): (String, String),
        inventory: Stub,
        payment: Stub,
    ) -> Self {
        let database = TestDatabase::create().await;
        let broker = testkit::kafka::broker(&contracts::topic::all()).await.unwrap();
        let (coupon, recommendation) = (Stub::start(discounted).await, Stub::start(suggested).await);
        let config = Config {
            database_url: database.url(),
            kafka: broker.config.clone(),
            redis_url,
            redis_key_prefix,
            inventory_url,
            payment_url,
            coupon_url: coupon.url(),
            recommendation_url: recommendation.url(),
        };
        let app =
            TestApp::start(Service::Order, rules, |wiring, lifecycle| app::build(config, wiring, lifecycle)).await;
        let db = database.migrated(&durable::migrations::MIGRATIONS, &MIGRATIONS).await;
        let user = UserId::generate();
        Self { app, db, inventory, payment, coupon, recommendation, user, _broker: broker, database }
    }

    /// As when the rules file changes.
    pub fn rule(&self, change: impl FnOnce(&mut Rules)) {
        let mut rules = Rules::clone(&self.app.rules.current());
        change(&mut rules);
        self.app.rules.apply(rules, Origin::File);
    }

    pub fn request(&self, key: &str, body: &Value) -> RequestBuilder {
        self.app.post("/v1/orders").bearer_auth(user_token(self.user)).header(headers::IDEMPOTENCY_KEY, key).json(body)
    }

    pub async fn place(&self, key: &str, body: &Value) -> (u16, Value) {
        answer(self.request(key, body).send().await.unwrap()).await
    }

    pub async fn cancel(&self, order: &Value) -> (u16, Value) {
        let path = format!("/v1/orders/{}/cancel", order["id"].as_str().unwrap());
        answer(self.app.post(&path).bearer_auth(user_token(self.user)).send().await.unwrap()).await
    }

    /// The order, once it says this at this place.
    pub async fn until(&self, order: &Value, pointer: &str, expected: Value) -> Value {
        let path = format!("/v1/orders/{}", order["id"].as_str().unwrap());
        testkit::eventually(pointer, || async {
            let (_, now) = self.get(&path).await;
            (now.pointer(pointer) == Some(&expected)).then_some(now)
        })
        .await
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        answer(self.app.get(path).bearer_auth(user_token(self.user)).send().await.unwrap()).await
    }

    /// From here on the service's connections end, and it gets no new ones.
    pub async fn cut_database(&self) {
        self.database.refuse_connections().await;
    }

    /// The one order that has an attempt.
    pub async fn order_and_attempt(&self) -> (OrderId, AttemptId) {
        let (order, attempt): (Uuid, Uuid) =
            sqlx::query_as("select id, attempt_id from orders where attempt_id is not null")
                .fetch_one(self.db.pool())
                .await
                .unwrap();
        (OrderId::from_uuid(order), AttemptId::from_uuid(attempt))
    }

    /// As payment would say it; the order service's own relay carries it to the broker.
    pub async fn say<D: EventData>(&self, data: &D) {
        let mut tx = self.db.pool().begin().await.unwrap();
        durable::outbox::enqueue_data(&mut tx, data, 1, None, chrono::Utc::now()).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// An order whose run died right after it was made.
    pub async fn abandon_an_order(&self, key: &str) {
        let id = Uuid::now_v7();
        let mut tx = self.db.pool().begin().await.unwrap();
        sqlx::query(
            "insert into idempotency_keys (user_id, method, path, key, fingerprint, resource_id, lease_until)
             values ($1, 'POST', '/v1/orders', $3, '', $2, now())",
        )
        .bind(self.user.as_uuid())
        .bind(id)
        .bind(key)
        .execute(&mut *tx)
        .await
        .unwrap();
        sqlx::query(
            "insert into orders (id, user_id, status, currency, coupon_state, payment_method, payment_state,
                                 created_at, updated_at)
             values ($1, $2, 'created', 'USD', 'none', 'tok_approve', 'none', now(), now())",
        )
        .bind(id)
        .bind(self.user.as_uuid())
        .execute(&mut *tx)
        .await
        .unwrap();
        tx.commit().await.unwrap();
    }

    /// What `/internal/state` shows of the service's own parts.
    pub async fn state(&self) -> Value {
        let state = self.app.client.get(self.app.admin_url("/internal/state")).send().await.unwrap();
        answer(state).await.1["state"].clone()
    }

    /// How many wait for an order to change.
    pub async fn waiting(&self) -> u64 {
        let state = self.app.client.get(self.app.admin_url("/internal/state")).send().await.unwrap();
        let state = answer(state).await.1;
        state["guards"]["routes"]["GET /v1/orders/{order_id}"]["waiting"]["taken"].as_u64().unwrap()
    }

    pub async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(self.db.pool()).await.unwrap()
    }

    /// The types of the events that were written, in order.
    pub async fn events(&self) -> Vec<String> {
        sqlx::query_scalar("select payload::jsonb ->> 'type' from outbox order by id")
            .fetch_all(self.db.pool())
            .await
            .unwrap()
    }
}

pub async fn answer(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

pub fn tea() -> Value {
    json!({"items": [{"sku": "TEA", "quantity": 2}], "payment_method": "tok_approve"})
}

pub fn tea_with_coupon() -> Value {
    json!({"items": [{"sku": "TEA", "quantity": 2}], "payment_method": "tok_approve", "coupon_code": "WELCOME10"})
}
