//! A running coupon service, and short ways to ask it.

use std::time::Duration;

use contracts::{
    OrderId, Problem, ProblemType, Service, UserId,
    coupon::{Coupon, Redemption},
};
use coupon::{Config, app};
use durable::Database;
use events::KafkaConfig;
use reqwest::{RequestBuilder, Response};
use rules::{Route, Rules};
use serde_json::json;
use testkit::{TestApp, TestDatabase, caller_token};

pub struct Till {
    pub app: TestApp,
    pub database: Database,
    // Dropped last: with it goes the database.
    _database: TestDatabase,
}

impl Till {
    /// With the seeded coupons, and no broker.
    pub async fn open() -> Self {
        Self::open_with(KafkaConfig::new("127.0.0.1:1", "coupon")).await
    }

    pub async fn open_with(kafka: KafkaConfig) -> Self {
        Self::open_ruled(kafka, patient()).await
    }

    pub async fn open_ruled(kafka: KafkaConfig, rules: Rules) -> Self {
        let database = TestDatabase::create().await;
        let config = Config { database_url: database.url(), kafka };
        let app = TestApp::start(Service::Coupon, rules, |wiring, lifecycle| app::build(config, wiring, lifecycle));
        Self { app: app.await, database: database.connect().await, _database: database }
    }

    pub fn get(&self, path: &str) -> RequestBuilder {
        self.app.get(path).bearer_auth(caller_token(Service::Order))
    }

    pub fn put(&self, path: &str) -> RequestBuilder {
        self.app.put(path).bearer_auth(caller_token(Service::Order))
    }

    pub fn post(&self, path: &str) -> RequestBuilder {
        self.app.post(path).bearer_auth(caller_token(Service::Order))
    }

    pub async fn redeem(&self, order: OrderId, user: UserId, code: &str, subtotal_minor: i64) -> Response {
        let body = json!({"code": code, "user_id": user, "subtotal_minor": subtotal_minor, "currency": "USD"});
        self.put(&format!("/v1/redemptions/{order}")).json(&body).send().await.unwrap()
    }

    /// Redeems for a new order of a new user, and expects that to be new.
    pub async fn hold(&self, code: &str) -> OrderId {
        let order = OrderId::generate();
        assert_eq!(self.redeem(order, UserId::generate(), code, 1_000).await.status(), 201);
        order
    }

    pub async fn commit(&self, order: OrderId) -> Response {
        self.post(&format!("/v1/redemptions/{order}/commit")).send().await.unwrap()
    }

    pub async fn release(&self, order: OrderId) -> Response {
        self.post(&format!("/v1/redemptions/{order}/release")).send().await.unwrap()
    }

    pub async fn redemption(&self, order: OrderId) -> Response {
        self.get(&format!("/v1/redemptions/{order}")).send().await.unwrap()
    }

    pub async fn coupon(&self, code: &str) -> Coupon {
        let response = self.get(&format!("/v1/coupons/{code}")).send().await.unwrap();
        assert_eq!(response.status(), 200);
        response.json().await.unwrap()
    }

    /// Adds a coupon of 10 % to the seeded ones.
    pub async fn issue(&self, code: &str, total_limit: Option<i64>, per_user_limit: Option<i64>) {
        sqlx::query(
            "insert into coupons (code, kind, percent, total_limit, per_user_limit, valid_from, valid_until)
             values ($1, 'percent', 10, $2, $3, now() - interval '1 day', now() + interval '1 day')",
        )
        .bind(code)
        .bind(total_limit)
        .bind(per_user_limit)
        .execute(self.database.pool())
        .await
        .unwrap();
    }

    /// Coupons of which another number is counted as redeemed than is.
    pub async fn miscounted(&self) -> Vec<String> {
        sqlx::query_scalar(
            "select c.code from coupons c
              where c.redeemed <> (
                    select count(*) from redemptions r where r.code = c.code and r.state in ('held', 'committed'))",
        )
        .fetch_all(self.database.pool())
        .await
        .unwrap()
    }
}

/// The defaults, but with time for a test machine that is busy without being broken.
pub fn patient() -> Rules {
    let mut rules = Rules::default();
    rules.database.acquire_timeout = Duration::from_secs(10);
    rules.database.lock_timeout = Duration::from_secs(10);
    rules.database.statement_timeout = Duration::from_secs(10);
    for route in [
        "PUT /v1/redemptions/{order_id}",
        "POST /v1/redemptions/{order_id}/release",
        "POST /v1/redemptions/{order_id}/commit",
    ] {
        rules.route.insert(route.to_owned(), Route { timeout: Duration::from_secs(20), ..Route::default() });
    }
    rules
}

pub async fn redeemed(response: Response) -> Redemption {
    assert!(response.status().is_success(), "{}: {:?}", response.status(), response.text().await);
    response.json().await.unwrap()
}

/// A refusal of this kind, with everything that goes with every refusal.
pub async fn refused(response: Response, kind: ProblemType) -> Problem {
    let status = response.status().as_u16();
    let media_type = response.headers().get("content-type").cloned();
    let text = response.text().await.unwrap();
    let problem: Problem = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{status} {text}: {e}"));
    assert_eq!((problem.kind, status), (kind, kind.status()), "{text}");
    assert_eq!(media_type.unwrap(), "application/problem+json");
    problem
}

pub fn fields(problem: &Problem) -> Vec<&str> {
    problem.errors.iter().map(|error| error.field.as_str()).collect()
}
