//! Counterexamples to earlier wordings of the protocol, numbered as in TRACES.md, each against the real workflow.

use chassis::crash;
use contracts::{
    AttemptId,
    event::{PaymentDeferred, PaymentUnknown},
    payment::{AttemptState, Channel, Charge},
};
use payment::{error::PaymentError, workflow::charge::Reported};

use testkit::{Reply, Stub, TestDatabase, eventually};

use crate::{
    bank::{BACKUP, BOTH, Bank, NEITHER, context, hasty, of, refund_of},
    scene::{any_kafka, approves, charge, patient, put, serve_both, state},
};

fn deferred(id: AttemptId, charge: &Charge) -> PaymentDeferred {
    PaymentDeferred {
        order_id: charge.order_id,
        attempt_id: id,
        amount_minor: charge.amount_minor,
        currency: charge.currency,
        payment_method: charge.payment_method.clone(),
    }
}

fn unknown(id: AttemptId, charge: &Charge) -> PaymentUnknown {
    PaymentUnknown { order_id: charge.order_id, attempt_id: id }
}

#[tokio::test]
async fn trace_1_a_charge_that_lands_after_the_fence_is_found_in_the_ledger() {
    let bank = Bank::open().await;
    let (id, charge) = (AttemptId::generate(), of("tok_lost_request"));
    assert_eq!(bank.put(id, &charge).await.unwrap(), Reported::Undecided);
    bank.ask(id).await;
    assert_eq!((bank.state(id).await.as_str(), bank.told(id, "payment.fenced").await), ("fenced", 1));
    bank.arrives_late(Channel::Primary, id, &charge).await;
    assert_eq!(bank.payments.compare_ledger(Channel::Primary).await.unwrap(), Some(1));
    assert_eq!((bank.state(id).await.as_str(), bank.told(id, "payment.approved").await), ("approved", 1));
    assert_eq!(bank.payments.compare_ledger(Channel::Primary).await.unwrap(), Some(0));
}

// Found by our own model: one lost message kept the money of an order that had ended.
#[tokio::test]
async fn a_charge_after_another_word_is_told_again_until_order_asks_for_the_money() {
    let bank = Bank::open().await;
    let (id, charge) = (AttemptId::generate(), of("tok_lost_request"));
    assert_eq!(bank.put(id, &charge).await.unwrap(), Reported::Undecided);
    bank.ask(id).await;
    bank.arrives_late(Channel::Primary, id, &charge).await;
    assert_eq!(bank.payments.compare_ledger(Channel::Primary).await.unwrap(), Some(1));
    let told = bank.told(id, "payment.approved").await;
    eventually("it is told again", async || {
        bank.payments.sweep().await.unwrap();
        (bank.told(id, "payment.approved").await > told).then_some(())
    })
    .await;
    bank.payments.refund(context(), id, refund_of(&charge)).await.unwrap();
    let told = bank.told(id, "payment.approved").await;
    assert_eq!(open(&bank, id).await, 0);
    bank.payments.sweep().await.unwrap();
    assert_eq!(bank.told(id, "payment.approved").await, told);

    // One that was approved without any other word before is told once.
    let (id, charge) = (AttemptId::generate(), of("tok_approve"));
    bank.put(id, &charge).await.unwrap();
    assert_eq!((open(&bank, id).await, bank.told(id, "payment.approved").await), (0, 1));
}

async fn open(bank: &Bank, id: AttemptId) -> i64 {
    sqlx::query_scalar("select count(*) from attempts where id = $1 and contradicted_at is not null")
        .bind(id.as_uuid())
        .fetch_one(bank.database.pool())
        .await
        .unwrap()
}

#[tokio::test]
async fn trace_2_a_process_that_pauses_before_it_sends_settles_what_was_fenced_meanwhile() {
    let bank = Bank::open().await;
    let (id, charge) = (AttemptId::generate(), of("tok_approve"));
    let paused = crash::dies_at("payment.charge.intent_saved", bank.put(id, &charge)).await;
    assert!(paused.is_err());
    assert_eq!(bank.payments.sweep().await.unwrap(), 1);
    bank.ask(id).await;
    assert_eq!(bank.state(id).await, "fenced");
    // It wakes and sends.
    bank.arrives_late(Channel::Primary, id, &charge).await;
    bank.quiet().await;
    assert_eq!(bank.state(id).await, "approved");
}

#[tokio::test]
async fn trace_3_a_deferred_attempt_can_be_given_up() {
    let bank = Bank::open_with(hasty(), NEITHER).await;
    let (id, charge) = (AttemptId::generate(), of("tok_approve"));
    assert!(matches!(bank.put(id, &charge).await, Err(PaymentError::NotDispatched { .. })));
    bank.hears(&deferred(id, &charge)).await.unwrap();
    let fenced = bank.payments.fence(context(), id).await.unwrap();
    assert_eq!((fenced.state, bank.told(id, "payment.fenced").await), (AttemptState::Fenced, 1));
    assert_eq!(bank.restarted(BOTH).drain().await.unwrap(), 0);
    assert_eq!(bank.taken().await, (0, 0));
}

#[tokio::test]
async fn trace_4_a_fence_throws_no_evidence_away() {
    let bank = Bank::open().await;
    let (id, charge) = (AttemptId::generate(), of("tok_lost_reply"));
    assert_eq!(bank.put(id, &charge).await.unwrap(), Reported::Undecided);
    let fenced = bank.payments.fence(context(), id).await.unwrap();
    assert_eq!(fenced.state, AttemptState::Unknown);
    bank.ask(id).await;
    assert_eq!(bank.state(id).await, "approved");
}

#[tokio::test]
async fn trace_9_a_put_that_comes_twice_never_dispatches_what_the_first_one_could_not() {
    let bank = Bank::open_with(hasty(), NEITHER).await;
    let (id, charge) = (AttemptId::generate(), of("tok_approve"));
    assert!(matches!(bank.put(id, &charge).await, Err(PaymentError::NotDispatched { .. })));
    let again = bank.restarted(BOTH).charge(context(), id, charge).await;
    assert!(matches!(again, Err(PaymentError::NotDispatched { .. })), "{again:?}");
    assert_eq!(bank.taken().await, (0, 0));
}

/// Of a call with several tries the worst would count; a charge has one, whatever the rules allow.
#[tokio::test]
async fn trace_10_a_charge_is_tried_once_so_that_no_second_try_covers_up_the_first() {
    let mut rules = patient();
    rules.downstream.provider.retry.max_retries = 2;
    rules.downstream.provider_backup.retry.max_retries = 2;
    let primary = Stub::start(|_| Reply::Raw(503, String::new())).await;
    let backup = Stub::start(|_| approves()).await;
    let database = TestDatabase::create().await;
    let app = serve_both(rules, any_kafka(), &primary.url(), &backup.url(), &database, |url| url).await;
    let (id, charge) = (AttemptId::generate(), charge());
    put(&app, id, &charge).await.is_unknown();
    put(&app, id, &charge).await.is_unknown();
    let charges = |stub: &Stub| stub.seen().iter().filter(|seen| seen.method == "POST").count();
    assert_eq!((charges(&primary), charges(&backup)), (1, 0), "nobody is asked after an unknown");
    let pool = database.connect().await.pool().clone();
    assert_eq!(state(&pool, id).await.as_deref(), Some("unknown"));
}

#[tokio::test]
async fn trace_11_after_a_crash_the_repeated_put_sends_nothing_by_any_channel() {
    let bank = Bank::open().await;
    let (id, charge) = (AttemptId::generate(), of("tok_approve"));
    let died = crash::dies_at("payment.charge.answer_read", bank.put(id, &charge)).await;
    assert!(died.is_err());
    let again = bank.restarted(BACKUP).charge(context(), id, charge).await.unwrap();
    assert_eq!(again, Reported::Undecided);
    bank.quiet().await;
    assert_eq!((bank.state(id).await.as_str(), bank.taken().await), ("approved", (4_200, 1)));
}

#[tokio::test]
async fn trace_12_every_channel_that_was_ever_told_is_asked() {
    let bank = Bank::open_with(hasty(), BACKUP).await;
    let (id, charge) = (AttemptId::generate(), of("tok_approve"));
    let died = crash::dies_at("payment.charge.backup_intent_saved", bank.put(id, &charge)).await;
    assert!(died.is_err());
    // Its request leaves all the same.
    bank.arrives_late(Channel::Backup, id, &charge).await;
    assert_eq!(bank.payments.sweep().await.unwrap(), 1);
    bank.ask(id).await;
    assert_eq!(bank.state(id).await, "approved");

    // And while one of them does not answer, the other's "not found" proves nothing.
    let (id, charge) = (AttemptId::generate(), of("tok_lost_request"));
    assert_eq!(bank.put(id, &charge).await.unwrap(), Reported::Undecided);
    bank.ask(id).await;
    assert_eq!(bank.state(id).await, "unknown");
}

#[tokio::test]
async fn trace_13_a_second_charge_goes_back_and_a_repeated_notice_does_not() {
    let bank = Bank::open().await;
    let (id, charge) = (AttemptId::generate(), of("tok_approve"));
    assert!(matches!(bank.put(id, &charge).await.unwrap(), Reported::Settled(_)));
    bank.arrives_late(Channel::Backup, id, &charge).await;
    assert_eq!(bank.taken().await, (8_400, 2));
    bank.quiet().await;
    assert_eq!(bank.taken().await, (4_200, 2));
    // Order never knew of it.
    assert_eq!(bank.told(id, "payment.refunded").await, 0);
    bank.quiet().await;
    assert_eq!(bank.taken().await, (4_200, 2));
}

#[tokio::test]
async fn trace_16_what_a_crash_left_is_taken_up() {
    let bank = Bank::open().await;
    let (id, charge) = (AttemptId::generate(), of("tok_approve"));
    assert!(crash::dies_at("payment.charge.answer_read", bank.put(id, &charge)).await.is_err());
    assert_eq!(bank.state(id).await, "dispatched");
    bank.quiet().await;
    assert_eq!(bank.state(id).await, "approved");

    let (id, charge) = (AttemptId::generate(), of("tok_approve"));
    sqlx::query(
        "insert into attempts (id, order_id, amount_minor, currency, payment_method, state, created_at, updated_at)
         values ($1, $2, 1, 'USD', 'tok_approve', 'created', now(), now())",
    )
    .bind(id.as_uuid())
    .bind(charge.order_id.as_uuid())
    .execute(bank.database.pool())
    .await
    .unwrap();
    bank.quiet().await;
    assert_eq!((bank.state(id).await.as_str(), bank.told(id, "payment.fenced").await), ("fenced", 1));
}

#[tokio::test]
async fn the_ledger_leaves_a_charge_to_its_call_while_that_is_under_way() {
    let bank = Bank::open().await;
    let (id, charge) = (AttemptId::generate(), of("tok_approve"));
    assert!(crash::dies_at("payment.charge.answer_read", bank.put(id, &charge)).await.is_err());
    assert_eq!(bank.payments.compare_ledger(Channel::Primary).await.unwrap(), Some(0));
    assert_eq!(bank.state(id).await, "dispatched");
    bank.payments.sweep().await.unwrap();
    assert_eq!(bank.payments.compare_ledger(Channel::Primary).await.unwrap(), Some(1));
    assert_eq!(bank.state(id).await, "approved");
}

#[tokio::test]
async fn trace_17_order_hears_of_every_settlement_however_often_it_asks() {
    let bank = Bank::open().await;
    let (id, charge) = (AttemptId::generate(), of("tok_approve"));
    assert!(crash::dies_at("payment.charge.answer_read", bank.put(id, &charge)).await.is_err());
    bank.hears(&unknown(id, &charge)).await.unwrap();
    assert_eq!(bank.state(id).await, "dispatched");
    bank.quiet().await;
    assert_eq!(bank.told(id, "payment.approved").await, 1);
    bank.hears(&unknown(id, &charge)).await.unwrap();
    assert_eq!(bank.told(id, "payment.approved").await, 2);

    // One that was never heard of is fenced, and order is told.
    let (never, other) = (AttemptId::generate(), of("tok_approve"));
    for told in 1..=2 {
        bank.hears(&unknown(never, &other)).await.unwrap();
        assert_eq!((bank.state(never).await.as_str(), bank.told(never, "payment.fenced").await), ("fenced", told));
    }
    assert!(matches!(bank.put(never, &other).await, Err(PaymentError::Fenced(_))));
}
