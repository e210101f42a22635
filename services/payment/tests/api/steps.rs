//! The step harness: charge, reconcile and refund, where each step fails once, is repeated, and where the process dies
//! after it. Whatever happens, one order is charged once or not at all, the money is where the record says it is, and
//! order is told.

use std::time::Duration;

use chassis::crash;
use contracts::{
    AttemptId, OrderId,
    event::{PaymentDeferred, PaymentRefundRequested, PaymentUnknown},
    payment::{Channel, Charge, RefundCharge},
    provider::{Webhook, WebhookKind},
};
use futures_util::future::join_all;
use payment::workflow::CRASH_POINTS;
use testkit::failing_write;

use crate::bank::{BACKUP, BOTH, Bank, NEITHER, Reach, context, hasty, of, refund_of};

/// What is walked through: a charge, by whatever way it takes, and its refund if it was made.
#[derive(Debug, Clone)]
struct Walk {
    id: AttemptId,
    charge: Charge,
    refund: RefundCharge,
}

const WALKS: [(&str, Reach); 6] = [
    ("tok_approve", BOTH),
    ("tok_lost_reply", BOTH),
    ("tok_lost_request", BOTH),
    ("tok_decline", BOTH),
    ("tok_approve", BACKUP),
    ("tok_approve", NEITHER),
];

impl Walk {
    fn new(method: &str) -> Self {
        let charge = of(method);
        Self { id: AttemptId::generate(), refund: refund_of(&charge), charge }
    }

    /// Every step, each of which may fail: whoever walks goes on, as its caller would.
    async fn go(&self, bank: &Bank) {
        // On the heap: unoptimized, it is too large for a test's stack several times over.
        Box::pin(self.steps(bank)).await;
    }

    async fn steps(&self, bank: &Bank) {
        let _ = bank.put(self.id, &self.charge).await;
        let _ = bank.payments.fence(context(), self.id).await;
        let _ = bank.payments.sweep().await;
        if let Some(event) = bank.question(self.id).await {
            let due = event.decode().unwrap().unwrap();
            let _ = bank.payments.reconcile(&event, &due, 0).await;
        }
        let _ = bank.payments.refund(context(), self.id, self.refund.clone()).await;
        let _ = bank.payments.send_refunds().await;
    }

    /// What must hold once it is quiet.
    async fn holds(&self, bank: &Bank, what: &str) {
        let state = bank.state(self.id).await;
        let (minor, charges) = bank.taken_of(self.id).await;
        let refunded: i64 = sqlx::query_scalar(
            "select coalesce(sum(amount_minor), 0)::bigint from refunds where state = 'refunded' and attempt_id = $1",
        )
        .bind(self.id.as_uuid())
        .fetch_one(bank.database.pool())
        .await
        .unwrap();
        let open: i64 = sqlx::query_scalar("select count(*) from refunds where state <> 'refunded'")
            .fetch_one(bank.database.pool())
            .await
            .unwrap();
        assert_eq!(open, 0, "{what}: a refund is open");
        assert!(charges <= 1, "{what}: charged {charges} times");
        let expected = if state == "approved" { self.charge.amount_minor - refunded } else { 0 };
        assert_eq!(minor, expected, "{what}: {state}");
        match state.as_str() {
            // Nothing was ever heard of it but the fence, which was told in the answer.
            "fenced" if self.is_tombstone(bank).await => {}
            "approved" | "declined" | "fenced" => {
                let told = bank.told(self.id, &format!("payment.{state}")).await;
                assert!(told >= 1, "{what}: order was not told that it is {state}");
            }
            // It never began.
            "" => assert_eq!(charges, 0, "{what}"),
            other => panic!("{what}: it stays {other}"),
        }
        if refunded > 0 {
            assert!(bank.told(self.id, "payment.refunded").await >= 1, "{what}: order was not told of the refund");
        }
    }

    async fn is_tombstone(&self, bank: &Bank) -> bool {
        sqlx::query_scalar("select order_id is null from attempts where id = $1")
            .bind(self.id.as_uuid())
            .fetch_one(bank.database.pool())
            .await
            .unwrap()
    }
}

/// A bank whose payments reach what `reach` says.
async fn open(reach: Reach) -> Bank {
    let mut rules = hasty();
    // A reply that is lost is waited for in each walk; one that is late here is as good.
    rules.downstream.provider.attempt_timeout = Duration::from_millis(300);
    rules.downstream.provider_backup.attempt_timeout = Duration::from_millis(300);
    // What fails on purpose in one walk must not be spared the next.
    rules.downstream.provider.breaker.failure_ratio = 1.0;
    rules.downstream.provider.breaker.minimum_calls = 100;
    rules.downstream.provider_backup.breaker = rules.downstream.provider.breaker.clone();
    Bank::open_with(rules, reach).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_at_each_point_the_walk_is_resumed_and_repeated() {
    join_all(WALKS.map(|(method, reach)| {
        Box::pin(async move {
            let bank = open(reach).await;
            for point in CRASH_POINTS {
                let walk = Walk::new(method);
                let died = crash::dies_at(point, walk.go(&bank)).await.is_err();
                let what = format!("{method} over {reach:?}, dead at {point}: {died}");
                bank.quiet().await;
                walk.holds(&bank, &what).await;
                // Whoever asked asks again.
                walk.go(&bank).await;
                bank.quiet().await;
                walk.holds(&bank, &what).await;
            }
        })
    }))
    .await;
}

#[tokio::test]
async fn every_crash_point_is_passed_by_some_walk() {
    let mut passed = Vec::new();
    for (method, reach) in WALKS {
        for point in CRASH_POINTS {
            if passed.contains(point) {
                continue;
            }
            let (walk, bank) = (Walk::new(method), open(reach).await);
            let whole = async {
                walk.go(&bank).await;
                notice_and_deferral(&bank).await;
                bank.quiet().await;
            };
            if crash::dies_at(point, whole).await.is_err() {
                passed.push(*point);
            }
        }
    }
    let missed: Vec<_> = CRASH_POINTS.iter().filter(|point| !passed.contains(point)).collect();
    assert!(missed.is_empty(), "nothing passes {missed:?}");
}

#[test]
fn every_crash_point_is_in_the_drill_that_goes_through_them() {
    let drill = concat!(env!("CARGO_MANIFEST_DIR"), "/../../drills/scenarios/crash-points.toml");
    let drill = std::fs::read_to_string(drill).unwrap();
    let missing: Vec<_> = CRASH_POINTS.iter().filter(|point| !drill.contains(&format!("\"{point}\""))).collect();
    assert_eq!(missing, Vec::<&&str>::new());
}

/// What no walk passes.
async fn notice_and_deferral(bank: &Bank) {
    let charge = of("tok_approve");
    let id = AttemptId::generate();
    let deferred = PaymentDeferred {
        order_id: charge.order_id,
        attempt_id: id,
        amount_minor: charge.amount_minor,
        currency: charge.currency,
        payment_method: charge.payment_method.clone(),
    };
    bank.hears(&deferred).await.unwrap();
    bank.payments.drain().await.unwrap();
    let webhook = notice(WebhookKind::ChargeApproved, AttemptId::generate(), "ch_none", &charge);
    bank.payments.store_notice(Some(Channel::Primary), &webhook, context().deadline).await.unwrap();
}

fn notice(kind: WebhookKind, id: AttemptId, charge_id: &str, charge: &Charge) -> Webhook {
    Webhook {
        id: uuid::Uuid::now_v7().to_string(),
        kind,
        key: id.to_string(),
        charge_id: charge_id.to_owned(),
        amount_minor: charge.amount_minor,
        currency: charge.currency,
        occurred_at: chrono::Utc::now(),
    }
}

const WRITES: [&str; 7] = [
    "insert or update on attempts",
    "insert or update on attempt_history",
    "insert or update on charges",
    "insert or update on refunds",
    "insert or update on provider_events",
    "insert on inbox",
    "insert on outbox",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_write_fails_once_and_the_walk_is_repeated() {
    join_all(WALKS.map(|(method, reach)| {
        Box::pin(async move {
            let bank = open(reach).await;
            for number in 1.. {
                let walk = Walk::new(method);
                failing_write::arm(bank.database.pool(), &WRITES, number).await;
                walk.go(&bank).await;
                let made = failing_write::count(bank.database.pool()).await;
                let what = format!("{method} over {reach:?}, write {number} failed");
                settle(&bank).await;
                walk.holds(&bank, &what).await;
                walk.go(&bank).await;
                settle(&bank).await;
                walk.holds(&bank, &what).await;
                if made < number {
                    assert!(number > 2, "the walk writes next to nothing");
                    break;
                }
            }
        })
    }))
    .await;
}

/// Whatever still fails does so at the first of these.
async fn settle(bank: &Bank) {
    failing_write::disarm(bank.database.pool()).await;
    bank.quiet().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_and_notice_is_taken_once_however_often_and_in_whatever_order_it_comes() {
    for (method, reach) in WALKS {
        let (walk, bank) = (Walk::new(method), open(reach).await);
        let (order_id, attempt_id) = (walk.charge.order_id, walk.id);
        walk.go(&bank).await;
        for _ in 0..2 {
            // A refusal is one too.
            let _ = bank.hears(&refund_requested(order_id, &walk)).await;
            bank.hears(&PaymentUnknown { order_id, attempt_id }).await.unwrap();
            bank.quiet().await;
        }
        walk.holds(&bank, &format!("{method} over {reach:?}, told twice")).await;
    }
}

fn refund_requested(order_id: OrderId, walk: &Walk) -> PaymentRefundRequested {
    PaymentRefundRequested {
        order_id,
        attempt_id: walk.id,
        refund_id: walk.refund.refund_id,
        amount_minor: walk.refund.amount_minor,
        currency: walk.charge.currency,
        reason: walk.refund.reason.clone(),
    }
}
