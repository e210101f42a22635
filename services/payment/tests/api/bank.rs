//! The workflow over a real PostgreSQL and two real simulators, with nothing that moves by itself: the test is the relay,
//! the sweeper and the clock, and may let any task die at any of its crash points.

use std::{path::PathBuf, time::Duration};

use chassis::{Degradation, Downstream, Lifecycle, RequestContext};
use chrono::Utc;
use contracts::{
    AttemptId, Currency, Event, OrderId, RefundId,
    event::{EventData, ReconcileDue},
    payment::{Channel, Charge, RefundCharge},
    provider::{ChargeState, Ledger, LedgerCharge},
};
use durable::{Database, outbox::Outbox};
use events::{HandleError, Handler, Outcome};
use payment::{
    app::MIGRATIONS,
    downstream::provider::{Provider, Providers},
    error::PaymentError,
    events::Orders,
    workflow::{Payments, charge::Reported, reconcile::Reconciled},
};
use provider::{ProviderConfig, RunningProvider};
use rules::{Origin, Rules, RulesHandle};
use serde_json::{Value, json};
use testkit::{TestDatabase, eventually, stub::refusing_url};
use tokio::runtime::Handle;

pub struct Bank {
    pub payments: Payments,
    pub rules: RulesHandle,
    pub database: Database,
    pub primary: RunningProvider,
    pub backup: RunningProvider,
    client: reqwest::Client,
    test_database: TestDatabase,
}

/// Which simulators a bank's payments can reach. Its ledgers can be read in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    pub primary: bool,
    pub backup: bool,
}

pub const BOTH: Reach = Reach { primary: true, backup: true };
pub const BACKUP: Reach = Reach { primary: false, backup: true };
pub const NEITHER: Reach = Reach { primary: false, backup: false };

/// Nothing is waited for: what settles does so at once, and whoever is at something is gone.
pub fn hasty() -> Rules {
    let mut rules = Rules::default();
    let ms = Duration::from_millis;
    rules.reconcile.settle = Duration::ZERO;
    rules.reconcile.lease = Duration::ZERO;
    rules.reconcile.withheld = Duration::ZERO;
    rules.reconcile.lost_after = Duration::ZERO;
    rules.reconcile.delays = [ms(1); 4];
    rules.downstream.provider.attempt_timeout = ms(1_000);
    rules.downstream.provider_backup.attempt_timeout = ms(1_000);
    rules.downstream.provider_status.timeout = Duration::from_secs(5);
    rules.downstream.provider_status.attempt_timeout = Duration::from_secs(5);
    rules.database.acquire_timeout = Duration::from_secs(10);
    rules
}

pub fn of(method: &str) -> Charge {
    Charge {
        order_id: OrderId::generate(),
        amount_minor: 4_200,
        currency: Currency::USD,
        payment_method: method.to_owned(),
    }
}

async fn simulator(name: &str) -> RunningProvider {
    let ledger = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(uuid::Uuid::now_v7().to_string()).join("ledger.jsonl");
    let hold_for = Duration::from_secs(2);
    provider::start(ProviderConfig { hold_for, ..ProviderConfig::local(name, ledger) }).await.unwrap()
}

impl Bank {
    pub async fn open() -> Self {
        Self::open_with(hasty(), BOTH).await
    }

    pub async fn open_with(rules: Rules, reach: Reach) -> Self {
        let test_database = TestDatabase::create().await;
        let database = test_database.migrated(&durable::migrations::MIGRATIONS, &MIGRATIONS).await;
        let (primary, backup) = (simulator("primary").await, simulator("backup").await);
        let rules = RulesHandle::new(rules, Origin::Default);
        let payments = payments(&database, &rules, reach, &primary, &backup);
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { payments, rules, database, primary, backup, client, test_database }
    }

    /// Another process over the same database, which can reach what `reach` says.
    pub fn restarted(&self, reach: Reach) -> Payments {
        payments(&self.database, &self.rules, reach, &self.primary, &self.backup)
    }

    pub fn database_url(&self) -> String {
        self.test_database.url()
    }

    pub async fn put(&self, id: AttemptId, charge: &Charge) -> Result<Reported, PaymentError> {
        self.payments.charge(context(), id, charge.clone()).await
    }

    /// Takes the next message that asks about an attempt out of the outbox and asks, as from `tier`.
    pub async fn ask_from(&self, id: AttemptId, tier: usize) -> Reconciled {
        let event = self.question(id).await.expect("a message that asks");
        let due = event.decode::<ReconcileDue>().unwrap().unwrap();
        self.payments.reconcile(&event, &due, tier).await.unwrap()
    }

    pub async fn ask(&self, id: AttemptId) -> Reconciled {
        self.ask_from(id, 0).await
    }

    /// The message that asks next.
    pub async fn question(&self, id: AttemptId) -> Option<Event> {
        let payload: Option<String> = sqlx::query_scalar(
            "select payload from outbox join attempts on attempts.reconcile_event = outbox.event_id
              where attempts.id = $1",
        )
        .bind(id.as_uuid())
        .fetch_optional(self.database.pool())
        .await
        .unwrap();
        payload.map(|payload| serde_json::from_str(&payload).unwrap())
    }

    /// Order says something.
    pub async fn hears(&self, said: &impl EventData) -> Result<Outcome, HandleError> {
        let event = Event::new(said, 1, None, Utc::now()).unwrap();
        Orders(self.payments.clone()).handle(&event).await
    }

    /// The request that was believed lost arrives at a channel after all.
    pub async fn arrives_late(&self, channel: Channel, id: AttemptId, charge: &Charge) -> String {
        let body = json!({
            "amount_minor": charge.amount_minor, "currency": charge.currency, "payment_method": "tok_approve",
            "reference": charge.order_id.to_string()
        });
        let request = self.client.post(format!("{}/v1/charges", self.url(channel)));
        let answer = request.header("idempotency-key", id.to_string()).json(&body).send().await.unwrap();
        let answer: Value = answer.error_for_status().unwrap().json().await.unwrap();
        answer["id"].as_str().unwrap().to_owned()
    }

    pub fn url(&self, channel: Channel) -> String {
        match channel {
            Channel::Primary => self.primary.url(),
            Channel::Backup => self.backup.url(),
        }
    }

    pub async fn ledger(&self, channel: Channel) -> Ledger {
        let answer = self.client.get(format!("{}/v1/ledger", self.url(channel))).send().await.unwrap();
        answer.json().await.unwrap()
    }

    /// Charged less refunded, over both channels, in minor units; and how many charges.
    pub async fn taken(&self) -> (i64, usize) {
        self.taken_under(|_| true).await
    }

    /// [`Self::taken`] of one attempt.
    pub async fn taken_of(&self, id: AttemptId) -> (i64, usize) {
        self.taken_under(|key| key == id.to_string()).await
    }

    async fn taken_under(&self, counts: impl Fn(&str) -> bool) -> (i64, usize) {
        let (mut minor, mut charges) = (0, 0);
        for channel in Channel::ALL {
            let ledger = self.ledger(channel).await;
            let approved = |charge: &&LedgerCharge| charge.state == ChargeState::Approved && counts(&charge.key);
            for charge in ledger.charges.iter().filter(approved) {
                let back = ledger.refunds.iter().filter(|refund| refund.charge_id == charge.id);
                minor += charge.amount_minor - back.map(|refund| refund.amount_minor).sum::<i64>();
                charges += 1;
            }
        }
        (minor, charges)
    }

    pub async fn state(&self, id: AttemptId) -> String {
        crate::scene::state(self.database.pool(), id).await.unwrap_or_default()
    }

    /// How often order was told, by type.
    pub async fn told(&self, id: AttemptId, kind: &str) -> i64 {
        sqlx::query_scalar(
            "select count(*) from outbox where topic = 'payments' and payload like $1 and payload like $2",
        )
        .bind(format!("%{id}%"))
        .bind(format!("%\"{kind}\"%"))
        .fetch_one(self.database.pool())
        .await
        .unwrap()
    }

    /// Everything that moves by itself, until nothing does, in a process that reaches both channels.
    pub async fn quiet(&self) {
        Box::pin(self.settle()).await;
    }

    async fn settle(&self) {
        let payments = self.restarted(BOTH);
        // On a busy machine the provider may be asked in vain, and its breaker then wants its time.
        eventually("nothing to move any more", async || (self.turn(&payments).await == 0).then_some(())).await;
    }

    /// Everything that moves by itself, once; how much of it there was.
    async fn turn(&self, payments: &Payments) -> usize {
        let mut moved = payments.sweep().await.unwrap();
        moved += usize::from(payments.take_notice().await.unwrap());
        let open: Vec<uuid::Uuid> = sqlx::query_scalar("select id from attempts where state in ('unknown', 'review')")
            .fetch_all(self.database.pool())
            .await
            .unwrap();
        for id in open {
            let event = self.question(AttemptId::from_uuid(id)).await.unwrap();
            payments.reconcile(&event, &event.decode().unwrap().unwrap(), 0).await.unwrap();
            moved += 1;
        }
        // What was sent without an answer, or by who died, is due again.
        sqlx::query("update refunds set next_send_at = now() where state <> 'refunded'")
            .execute(self.database.pool())
            .await
            .unwrap();
        moved += payments.send_refunds().await.unwrap();
        for channel in Channel::ALL {
            moved += payments.compare_ledger(channel).await.unwrap().unwrap_or_default();
        }
        moved
    }
}

fn payments(
    database: &Database,
    rules: &RulesHandle,
    reach: Reach,
    primary: &RunningProvider,
    backup: &RunningProvider,
) -> Payments {
    let in_force = rules.current();
    let rule = &in_force.downstream;
    let channel = |channel, name, at: &RunningProvider, reached: bool, charges: &rules::Downstream| {
        let url = if reached { at.url() } else { refusing_url() };
        let of =
            |name, rule: &rules::Downstream| Downstream::new(name, &url, None, rule, Duration::from_millis(1)).unwrap();
        Provider::new(
            channel,
            of(name, charges),
            of("status", &rule.provider_status),
            of("ledger", &rule.provider_ledger),
        )
    };
    let providers = Providers {
        primary: channel(Channel::Primary, "provider", primary, reach.primary, &rule.provider),
        backup: channel(Channel::Backup, "provider_backup", backup, reach.backup, &rule.provider_backup),
    };
    let degradation = Degradation::new(rules, &Lifecycle::new(Handle::current()));
    Payments::new(database.clone(), Outbox::new(database.pool().clone()), providers, rules.clone(), degradation)
}

pub fn context() -> RequestContext {
    RequestContext::for_job("test", None, Duration::from_secs(20))
}

pub fn refund_of(charge: &Charge) -> RefundCharge {
    RefundCharge { refund_id: RefundId::generate(), amount_minor: charge.amount_minor, reason: "cancelled".to_owned() }
}
