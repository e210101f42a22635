//! A running inventory, and short ways to ask it.

use std::time::Duration;

use contracts::{
    OrderId, Problem, ProblemType, Service,
    inventory::{Reservation, StockLevel},
};
use durable::Database;
use events::KafkaConfig;
use inventory::{Config, app};
use reqwest::{RequestBuilder, Response};
use rules::{Route, Rules};
use serde_json::{Value, json};
use testkit::{TestApp, TestDatabase, caller_token};

pub struct Shop {
    pub app: TestApp,
    pub database: Database,
    // Dropped last: with it goes the database.
    _database: TestDatabase,
}

impl Shop {
    /// With the seeded products, and no broker.
    pub async fn open() -> Self {
        Self::open_with(KafkaConfig::new("127.0.0.1:1", "inventory")).await
    }

    pub async fn open_with(kafka: KafkaConfig) -> Self {
        let database = TestDatabase::create().await;
        let config = Config { database_url: database.url(), kafka };
        Self::open_on(database, config, patient()).await
    }

    /// With an address of the database that need not be its own, and no broker.
    pub async fn open_through(database: TestDatabase, database_url: String, rules: Rules) -> Self {
        let config = Config { database_url, kafka: KafkaConfig::new("127.0.0.1:1", "inventory") };
        Self::open_on(database, config, rules).await
    }

    async fn open_on(database: TestDatabase, config: Config, rules: Rules) -> Self {
        let app = TestApp::start(Service::Inventory, rules, |wiring, lifecycle| app::build(config, wiring, lifecycle));
        let app = app.await;
        Self { app, database: database.connect().await, _database: database }
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

    pub async fn reserve(&self, order: OrderId, items: &[(&str, i64)]) -> Response {
        let items: Vec<Value> = items.iter().map(|(sku, quantity)| json!({"sku": sku, "quantity": quantity})).collect();
        let request = self.put(&format!("/v1/reservations/{order}")).json(&json!({"items": items}));
        request.send().await.unwrap()
    }

    /// Reserves, and expects that to be new.
    pub async fn hold(&self, items: &[(&str, i64)]) -> OrderId {
        let order = OrderId::generate();
        assert_eq!(self.reserve(order, items).await.status(), 201);
        order
    }

    pub async fn commit(&self, order: OrderId) -> Response {
        self.post(&format!("/v1/reservations/{order}/commit")).send().await.unwrap()
    }

    pub async fn release(&self, order: OrderId) -> Response {
        self.post(&format!("/v1/reservations/{order}/release")).send().await.unwrap()
    }

    pub async fn reservation(&self, order: OrderId) -> Response {
        self.get(&format!("/v1/reservations/{order}")).send().await.unwrap()
    }

    pub async fn restock(&self, sku: &str, quantity: i64, reference: &str) -> Response {
        let body = json!({"quantity": quantity, "reference": reference});
        self.post(&format!("/v1/stock/{sku}/restock")).json(&body).send().await.unwrap()
    }

    pub async fn level(&self, sku: &str) -> StockLevel {
        ok(self.get(&format!("/v1/stock/{sku}")).send().await.unwrap()).await
    }

    /// (on hand, reserved, sold)
    pub async fn units(&self, sku: &str) -> (i64, i64, i64) {
        sqlx::query_as("select on_hand, reserved, sold from stock where sku = $1")
            .bind(sku)
            .fetch_one(self.database.pool())
            .await
            .unwrap()
    }

    /// Adds a product of ours to the seeded ones.
    pub async fn sell(&self, sku: &str, units: i64) {
        sqlx::query(
            "with product as (insert into products (sku, name, unit_price_minor, currency) values ($1, $1, 100, 'USD'))
             insert into stock (sku, on_hand, received) values ($1, $2, $2)",
        )
        .bind(sku)
        .bind(units)
        .execute(self.database.pool())
        .await
        .unwrap();
    }

    /// Products whose reserved and sold units are not those of the reservations.
    pub async fn unaccounted(&self) -> Vec<String> {
        sqlx::query_scalar(
            "select s.sku
               from stock s
               left join (
                   select i.sku,
                          coalesce(sum(i.quantity) filter (where r.state = 'held'), 0) as held,
                          coalesce(sum(i.quantity) filter (where r.state = 'committed'), 0) as committed
                     from reservation_items i join reservations r on r.order_id = i.order_id
                    group by i.sku
               ) orders on orders.sku = s.sku
              where s.reserved <> coalesce(orders.held, 0) or s.sold <> coalesce(orders.committed, 0)
                 or s.received <> s.on_hand + s.sold",
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
        "PUT /v1/reservations/{order_id}",
        "POST /v1/reservations/{order_id}/release",
        "POST /v1/reservations/{order_id}/commit",
        "POST /v1/stock/{sku}/restock",
    ] {
        rules.route.insert(route.to_owned(), Route { timeout: Duration::from_secs(20), ..Route::default() });
    }
    rules
}

pub async fn ok<T: serde::de::DeserializeOwned>(response: Response) -> T {
    assert!(response.status().is_success(), "{}: {:?}", response.status(), response.text().await);
    response.json().await.unwrap()
}

pub async fn held(response: Response) -> Reservation {
    ok(response).await
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
