//! Five databases and two ledgers, as a system would leave them behind.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use chrono::Utc;
use contracts::{
    Currency,
    provider::{ChargeState, Ledger, LedgerCharge, LedgerRefund},
};
use durable::{Database, migrations::MIGRATIONS};
use oracle::{Answer, Report, Sources, sources::Databases};
use sqlx::{AssertSqlSafe, migrate::Migrator};
use testkit::{Reply, Stub, TestDatabase};
use uuid::Uuid;

static ORDER: Migrator = sqlx::migrate!("../../migrations/order");
static INVENTORY: Migrator = sqlx::migrate!("../../migrations/inventory");
static PAYMENT: Migrator = sqlx::migrate!("../../migrations/payment");
static COUPON: Migrator = sqlx::migrate!("../../migrations/coupon");
static RECOMMENDATION: Migrator = sqlx::migrate!("../../migrations/recommendation");

pub struct Scene {
    pub order: Store,
    pub inventory: Store,
    pub payment: Store,
    pub coupon: Store,
    pub recommendation: Store,
    pub channels: [Channel; 2],
    pub answers: Vec<Answer>,
}

pub struct Store {
    test: TestDatabase,
    pub db: Database,
}

/// A channel of the provider.
pub struct Channel {
    pub stub: Stub,
    pub ledger: Arc<Mutex<Ledger>>,
}

impl Store {
    async fn make(own: &Migrator) -> Self {
        let test = TestDatabase::create().await;
        Self { db: test.migrated(&MIGRATIONS, own).await, test }
    }

    /// Runs statements; values are the test's own.
    pub async fn run(&self, sql: impl Into<String>) {
        sqlx::raw_sql(AssertSqlSafe(sql.into())).execute(self.db.pool()).await.unwrap();
    }

    pub async fn stop(&self) {
        self.test.refuse_connections().await;
    }
}

impl Channel {
    async fn start() -> Self {
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let told = ledger.clone();
        let reply = move |_: &_| Reply::Json(200, serde_json::to_value(&*told.lock().unwrap()).unwrap());
        Self { stub: Stub::start(reply).await, ledger }
    }

    /// An approved charge; gives its id.
    pub fn charge(&self, attempt: Uuid, order: Uuid, amount_minor: i64) -> String {
        let id = format!("ch_{}", Uuid::new_v4().simple());
        let charge = LedgerCharge {
            id: id.clone(),
            key: attempt.to_string(),
            reference: order.to_string(),
            amount_minor,
            currency: Currency::USD,
            state: ChargeState::Approved,
            decline_code: None,
            at: Utc::now(),
        };
        self.ledger.lock().unwrap().charges.push(charge);
        id
    }

    pub fn refund(&self, charge_id: &str, amount_minor: i64) {
        let id = Uuid::new_v4().to_string();
        let refund =
            LedgerRefund { id: id.clone(), key: id, charge_id: charge_id.to_owned(), amount_minor, at: Utc::now() };
        self.ledger.lock().unwrap().refunds.push(refund);
    }
}

impl Scene {
    /// A shop with three products and a coupon, in which nothing was ordered yet.
    pub async fn new() -> Self {
        let (order, inventory, payment, coupon, recommendation) = tokio::join!(
            Store::make(&ORDER),
            Store::make(&INVENTORY),
            Store::make(&PAYMENT),
            Store::make(&COUPON),
            Store::make(&RECOMMENDATION)
        );
        for sku in ["TEA", "CUP", "POT"] {
            inventory.run(format!("insert into products values ('{sku}', 'Thing', 500, 'USD')")).await;
            inventory.run(format!("insert into stock (sku, on_hand, received) values ('{sku}', 100, 100)")).await;
        }
        coupon
            .run(
                "insert into coupons (code, kind, amount_minor, currency, total_limit, per_user_limit, valid_from,
                                      valid_until)
                 values ('OFF', 'fixed', 100, 'USD', 3, 2, now() - interval '1 day', now() + interval '1 day')",
            )
            .await;
        let channels = [Channel::start().await, Channel::start().await];
        Self { order, inventory, payment, coupon, recommendation, channels, answers: Vec::new() }
    }

    pub fn sources(&self) -> Sources {
        Sources {
            databases: Databases {
                order: self.order.test.url(),
                inventory: self.inventory.test.url(),
                payment: self.payment.test.url(),
                coupon: self.coupon.test.url(),
                recommendation: self.recommendation.test.url(),
            },
            ledgers: self.channels.iter().map(|channel| channel.stub.url()).collect(),
            kafka: None,
        }
    }

    /// What the oracle says, without waiting.
    pub async fn judged(&self) -> Report {
        oracle::consult(&self.sources(), self.answers.clone(), Duration::ZERO).await.unwrap()
    }

    /// Asserts that an invariant is violated by exactly these: `(subject, a part of what is said of it)`.
    #[track_caller]
    pub fn expect(report: &Report, number: u8, offenders: &[(String, &str)]) {
        let verdict = &report.invariants[usize::from(number) - 1];
        assert_eq!(verdict.number, number);
        for (subject, what) in offenders {
            let found = |f: &&oracle::report::Finding| f.subject == *subject && f.what.contains(what);
            assert!(verdict.offenders.iter().any(|f| found(&f)), "({number}) misses {subject}: {what}\n{report}");
        }
        let subjects: std::collections::BTreeSet<&String> = offenders.iter().map(|(subject, _)| subject).collect();
        assert_eq!(verdict.violated, subjects.len(), "{report}");
    }
}
