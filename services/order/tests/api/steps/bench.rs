//! The workflow over a real database, with siblings that keep books and a broker in the test's hands: what is delivered,
//! how often, and what is lost.

use std::{sync::Arc, time::Duration};

use chassis::{Lifecycle, RequestContext, auth::User};
use contracts::{Event, Service, UserId, headers::IdempotencyKey, order::PlaceOrder};
use events::Handler;
use order::{
    app,
    config::Config,
    domain::Order,
    events::Outcomes,
    store::{keys, orders, walks},
    workflow::Workflow,
};
use resilience::breaker::Forced;
use rules::Rules;
use sqlx::PgPool;
use testkit::{Stub, TestDatabase, eventually, stub::refusing_url};
use uuid::Uuid;

use super::{audit, siblings::Siblings};
use crate::world::patient;

pub struct Bench {
    pub workflow: Arc<Workflow>,
    pub siblings: Siblings,
    outcomes: Outcomes,
    user: UserId,
    _stubs: [Stub; 4],
    _database: TestDatabase,
}

/// Rounds within which everything has come to its end; each stands for some seconds of a real system. Then it is waited
/// for: what a task held in the database when it died is let go of a little later.
const ROUNDS: usize = 30;
/// How often the client sends its request again.
const RETRIES: usize = 2;
/// From here on, a payment that is still open is asked about.
const OVERDUE: usize = 3;

/// One order of one client.
#[derive(Debug, Clone)]
pub struct Ticket {
    pub key: String,
    pub request: PlaceOrder,
}

impl Bench {
    pub async fn start(defer_max_minor: i64) -> Self {
        let siblings = Siblings::default();
        let stub = async || {
            let siblings = siblings.clone();
            Stub::start(move |seen| siblings.answer(seen)).await
        };
        // Recommendations are no step of the workflow, and their calls would disturb the numbers of the others.
        let stubs = [stub().await, stub().await, stub().await, Stub::start(crate::world::suggested).await];
        let database = TestDatabase::create().await;
        let config = Config {
            database_url: database.url(),
            kafka: events::KafkaConfig::new("127.0.0.1:1".to_owned(), "order"),
            redis_url: refusing_url().replace("http", "redis"),
            redis_key_prefix: String::new(),
            inventory_url: stubs[0].url(),
            payment_url: stubs[1].url(),
            coupon_url: stubs[2].url(),
            recommendation_url: stubs[3].url(),
        };
        let wiring = testkit::app::wiring(Service::Order, without_guards(defer_max_minor));
        let lifecycle = Lifecycle::new(tokio::runtime::Handle::current());
        let workflow = app::parts(&config, &wiring, &lifecycle).await.unwrap().workflow;
        let outcomes = Outcomes(workflow.clone());
        Self { workflow, siblings, outcomes, user: UserId::generate(), _stubs: stubs, _database: database }
    }

    pub fn pool(&self) -> &PgPool {
        self.workflow.database.pool()
    }

    pub fn context(&self) -> RequestContext {
        RequestContext::for_job("test", None, Duration::from_secs(15))
    }

    /// As the client sends it; whatever comes of it, the client may send it again.
    pub async fn place(&self, ticket: &Ticket) {
        let user = User { id: self.user, tenant: None, tier: None };
        let key = IdempotencyKey::parse(&ticket.key).unwrap();
        drop(self.workflow.place_order(&self.context(), &user, &key, &ticket.request).await);
    }

    pub async fn cancel_all(&self) {
        for order in self.orders().await {
            drop(self.workflow.cancel(&self.context(), order.id).await);
        }
    }

    pub async fn orders(&self) -> Vec<Order> {
        orders::page(self.pool(), self.user, None, 1_000).await.unwrap()
    }

    /// Nobody holds an order any more: as when their process has died and its leases have run out.
    pub async fn expire_leases(&self) {
        sqlx::query("update idempotency_keys set lease_until = now() - interval '1 second' where outcome is null")
            .execute(self.pool())
            .await
            .unwrap();
    }

    /// What waits in the outbox reaches the siblings, each event twice, and so does what they say to it.
    pub async fn deliver(&self) {
        for event in self.take_outbox().await {
            let mut said = self.siblings.hear(&event);
            said.extend(self.siblings.hear(&event));
            self.hear(said).await;
        }
    }

    async fn hear(&self, said: Vec<Event>) {
        for message in said {
            for _ in 0..2 {
                drop(self.outcomes.handle(&message).await);
            }
        }
    }

    /// The broker loses what waits in the outbox.
    pub async fn lose(&self) {
        drop(self.take_outbox().await);
    }

    async fn take_outbox(&self) -> Vec<Event> {
        let rows: Vec<(i64, String)> = sqlx::query_as(
            "with taken as (update outbox set published_at = now() where published_at is null returning id, payload)
             select id, payload from taken order by id",
        )
        .fetch_all(self.pool())
        .await
        .unwrap();
        rows.into_iter().map(|(_, payload)| serde_json::from_str(&payload).unwrap()).collect()
    }

    /// Everything that happens by itself, until nothing more does. The client sends its request again as well.
    pub async fn settle(&self, ticket: &Ticket) {
        for round in 0..ROUNDS {
            if self.round(ticket, round).await {
                return;
            }
        }
        eventually("nothing to stand any more", async || self.round(ticket, ROUNDS).await.then_some(())).await;
    }

    /// Everything that happens by itself, once; whether that was all.
    async fn round(&self, ticket: &Ticket, round: usize) -> bool {
        self.deliver().await;
        if round >= OVERDUE {
            self.hear(self.siblings.reconcile()).await;
        }
        self.expire_leases().await;
        let batch = 100;
        let lease = Duration::from_secs(10);
        for held in keys::take_over_standing(self.pool(), lease, batch).await.unwrap() {
            drop(self.workflow.resume(held).await);
        }
        if round < RETRIES {
            self.place(ticket).await;
        }
        let max_age = if round < OVERDUE { Duration::from_secs(3_600) } else { Duration::ZERO };
        for id in walks::claim_pending(self.pool(), max_age, Duration::ZERO, batch).await.unwrap() {
            drop(self.workflow.fence_overdue(id).await);
        }
        for ended in walks::claim_ended(self.pool(), Duration::ZERO, Duration::ZERO, batch).await.unwrap() {
            drop(self.workflow.walk(ended).await);
        }
        self.is_quiet().await
    }

    async fn is_quiet(&self) -> bool {
        let open: i64 = sqlx::query_scalar(
            "select (select count(*) from orders where status not in ('confirmed', 'rejected', 'cancelled')
                        or unacknowledged_since is not null)
                  + (select count(*) from outbox where published_at is null)
                  + (select count(*) from refunds where state = 'requested')",
        )
        .fetch_one(self.pool())
        .await
        .unwrap();
        open == 0
    }

    /// Every sum and every unit is where the orders say it is.
    pub async fn check(&self, what: &str) {
        let orders = self.orders().await;
        assert!(self.is_quiet().await, "{what}: not quiet: {orders:#?}");
        audit::check(&self.siblings.books(), &orders, what);
        self.check_history(what).await;
    }

    /// The history leads from one state to the next, and ends where the order is.
    async fn check_history(&self, what: &str) {
        let broken: i64 = sqlx::query_scalar(
            "select count(*) from (
                 select h.*, lag(to_status) over w as before, lead(id) over w as next
                   from order_history h window w as (partition by order_id order by id)) h
               join orders o on o.id = h.order_id
              where h.from_status is distinct from h.before or (h.next is null and h.to_status <> o.status)",
        )
        .fetch_one(self.pool())
        .await
        .unwrap();
        assert_eq!(broken, 0, "{what}: the history has gaps");
    }

    /// For the next journey.
    pub async fn clear(&self) {
        sqlx::query("truncate orders, order_items, order_history, refunds, idempotency_keys, outbox, inbox")
            .execute(self.pool())
            .await
            .unwrap();
        self.siblings.reset();
    }
}

/// Calls go wrong by the dozen here; a breaker that opens for it, or a retry that hides it, is not what is tested.
fn without_guards(defer_max_minor: i64) -> Rules {
    let mut rules = patient();
    let downstreams = &mut rules.downstream;
    for downstream in
        [&mut downstreams.inventory, &mut downstreams.payment, &mut downstreams.payment_status, &mut downstreams.coupon]
    {
        downstream.breaker.forced = Some(Forced::Closed);
        downstream.retry.max_retries = 0;
    }
    rules.degrade.defer_max_minor = defer_max_minor;
    rules
}

/// The order of a new client request.
pub fn ticket(coupon: bool) -> Ticket {
    let coupon_code = coupon.then(|| "WELCOME10".to_owned());
    let items = vec![contracts::order::ItemRequest { sku: "TEA".to_owned(), quantity: 2 }];
    Ticket {
        key: Uuid::now_v7().to_string(),
        request: PlaceOrder { items, coupon_code, payment_method: "tok_approve".to_owned() },
    }
}
