//! How what is open comes to an end: questions, notices, refunds, the ledger, and charges that waited.

use std::time::Duration;

use chrono::Utc;
use contracts::{
    AttemptId, RefundId,
    event::{PaymentDeferred, PaymentRefundRequested},
    payment::{Channel, Charge, RefundCharge, RefundState},
    provider::{Webhook, WebhookKind},
    topic::RETRY_TIERS,
};
use events::{HandleError, Outcome};
use payment::{
    error::PaymentError,
    workflow::{charge::Reported, reconcile::Reconciled, refund::RefundRefusal},
};
use rules::PaymentLevel;
use serde_json::json;
use testkit::eventually;

use crate::{
    bank::{BACKUP, BOTH, Bank, NEITHER, Reach, context, hasty, of, refund_of},
    scene::{Answer, Scene, WEBHOOK_SECRET, approves, send, send_anonymously},
};

fn notice(kind: WebhookKind, key: impl ToString, charge_id: &str, charge: &Charge) -> Webhook {
    Webhook {
        id: uuid::Uuid::now_v7().to_string(),
        kind,
        key: key.to_string(),
        charge_id: charge_id.to_owned(),
        amount_minor: charge.amount_minor,
        currency: charge.currency,
        occurred_at: Utc::now(),
    }
}

async fn tell(bank: &Bank, channel: Option<Channel>, webhook: &Webhook) -> bool {
    let new = bank.payments.store_notice(channel, webhook, context().deadline).await.unwrap();
    bank.payments.take_notice().await.unwrap();
    new
}

fn deferred(id: AttemptId, charge: &Charge) -> PaymentDeferred {
    PaymentDeferred {
        order_id: charge.order_id,
        attempt_id: id,
        amount_minor: charge.amount_minor,
        currency: charge.currency,
        payment_method: charge.payment_method.clone(),
    }
}

async fn approved(bank: &Bank) -> (AttemptId, Charge) {
    let (id, charge) = (AttemptId::generate(), of("tok_approve"));
    assert!(matches!(bank.put(id, &charge).await.unwrap(), Reported::Settled(_)));
    (id, charge)
}

fn wanted(id: AttemptId, charge: &Charge, refund: &RefundCharge) -> PaymentRefundRequested {
    PaymentRefundRequested {
        order_id: charge.order_id,
        attempt_id: id,
        refund_id: refund.refund_id,
        amount_minor: refund.amount_minor,
        currency: charge.currency,
        reason: refund.reason.clone(),
    }
}

#[tokio::test]
async fn the_backup_takes_what_the_primary_was_never_told() {
    let bank = Bank::open_with(hasty(), BACKUP).await;
    let (id, charge) = (AttemptId::generate(), of("tok_approve"));
    let Reported::Settled(attempt) = bank.put(id, &charge).await.unwrap() else { panic!("not settled") };
    assert_eq!((attempt.channel, attempt.dispatch_no), (Some(Channel::Backup), 2));
    assert_eq!(attempt.intents.channels().collect::<Vec<_>>(), Channel::ALL);
    assert_eq!(bank.ledger(Channel::Backup).await.charges.len(), 1);
}

#[tokio::test]
async fn the_switch_decides_which_channels_are_told() {
    for (level, reach, expected) in [
        (PaymentLevel::BackupOnly, BOTH, Some(Channel::Backup)),
        (PaymentLevel::Defer, BOTH, None),
        (PaymentLevel::Off, BOTH, None),
    ] {
        let mut rules = hasty();
        rules.degrade.payment = level;
        let bank = Bank::open_with(rules, reach).await;
        let (id, charge) = (AttemptId::generate(), of("tok_approve"));
        match (bank.put(id, &charge).await, expected) {
            (Ok(Reported::Settled(attempt)), Some(channel)) => assert_eq!(attempt.channel, Some(channel)),
            (Err(PaymentError::NotDispatched { reason, .. }), None) => assert_eq!(reason.as_str(), "degraded"),
            (other, _) => panic!("{level:?}: {other:?}"),
        }
        assert_eq!(bank.ledger(Channel::Primary).await.charges, []);
    }
}

#[tokio::test]
async fn a_lost_reply_is_approved_and_a_lost_request_fenced_once_each_is_asked_after() {
    let bank = Bank::open().await;
    for (method, state) in [("tok_lost_reply", "approved"), ("tok_lost_request", "fenced"), ("tok_error_400", "fenced")]
    {
        let (id, charge) = (AttemptId::generate(), of(method));
        assert_eq!(bank.put(id, &charge).await.unwrap(), Reported::Undecided);
        assert!(matches!(bank.ask(id).await, Reconciled::Settled(_)));
        assert_eq!(bank.state(id).await, state);
        assert_eq!(bank.told(id, &format!("payment.{state}")).await, 1);
    }
}

#[tokio::test]
async fn not_found_waits_for_the_settling_time_in_a_later_tier() {
    let mut rules = hasty();
    rules.reconcile.settle = Duration::from_secs(3_600);
    let bank = Bank::open_with(rules, BOTH).await;
    let (id, charge) = (AttemptId::generate(), of("tok_lost_request"));
    bank.put(id, &charge).await.unwrap();
    for tier in 0..=RETRY_TIERS + 1 {
        let asking = bank.question(id).await.unwrap();
        assert!(matches!(bank.ask_from(id, tier.min(RETRY_TIERS)).await, Reconciled::Later(_)));
        // Each hop is a message of its own.
        assert_ne!(bank.question(id).await.unwrap().id, asking.id);
    }
    // The provider answers, so no person has to.
    assert_eq!(bank.state(id).await, "unknown");
}

#[tokio::test]
async fn what_nobody_answers_for_ends_with_a_person_and_is_asked_after_all_the_same() {
    let bank = Bank::open_with(hasty(), Reach { primary: true, backup: true }).await;
    let (id, charge) = (AttemptId::generate(), of("tok_lost_reply"));
    bank.put(id, &charge).await.unwrap();
    let cut_off = bank.restarted(NEITHER);
    for tier in 0..=RETRY_TIERS {
        assert_eq!(bank.state(id).await, "unknown", "tier {tier}");
        let event = bank.question(id).await.unwrap();
        let due = event.decode().unwrap().unwrap();
        cut_off.reconcile(&event, &due, tier).await.unwrap();
    }
    assert_eq!((bank.state(id).await.as_str(), bank.told(id, "payment.review").await), ("review", 1));
    bank.ask_from(id, RETRY_TIERS).await;
    assert_eq!(bank.state(id).await, "approved");
}

#[tokio::test]
async fn one_message_at_a_time_asks_and_a_lost_one_is_replaced() {
    let mut rules = hasty();
    rules.reconcile.settle = Duration::from_secs(3_600);
    rules.reconcile.lost_after = Duration::from_secs(3_600);
    let bank = Bank::open_with(rules, BOTH).await;
    let (id, charge) = (AttemptId::generate(), of("tok_lost_request"));
    bank.put(id, &charge).await.unwrap();
    let first = bank.question(id).await.unwrap();
    assert!(matches!(bank.ask(id).await, Reconciled::Later(_)));
    let due = first.decode().unwrap().unwrap();
    assert_eq!(bank.payments.reconcile(&first, &due, 0).await.unwrap(), Reconciled::Stale);
    assert_eq!(bank.payments.sweep().await.unwrap(), 0);
    let waiting = bank.question(id).await.unwrap();
    sqlx::query("update attempts set reconcile_due_at = now() - interval '2 hours'")
        .execute(bank.database.pool())
        .await
        .unwrap();
    assert_eq!(bank.payments.sweep().await.unwrap(), 1);
    assert_ne!(bank.question(id).await.unwrap().id, waiting.id);
}

#[tokio::test]
async fn a_notice_settles_what_is_open_and_is_taken_once() {
    let bank = Bank::open().await;
    let (id, charge) = (AttemptId::generate(), of("tok_lost_reply"));
    bank.put(id, &charge).await.unwrap();
    let charge_id = bank.ledger(Channel::Primary).await.charges[0].id.clone();
    let webhook = notice(WebhookKind::ChargeApproved, id, &charge_id, &charge);
    assert!(tell(&bank, None, &webhook).await);
    assert!(!tell(&bank, None, &webhook).await);
    // Another notice of the same charge, and one of a decline that came late.
    tell(&bank, Some(Channel::Primary), &notice(WebhookKind::ChargeApproved, id, &charge_id, &charge)).await;
    tell(&bank, Some(Channel::Primary), &notice(WebhookKind::ChargeDeclined, id, &charge_id, &charge)).await;
    assert_eq!((bank.state(id).await.as_str(), bank.told(id, "payment.approved").await), ("approved", 1));
    bank.quiet().await;
    assert_eq!(bank.taken().await, (4_200, 1));
}

#[tokio::test]
async fn a_notice_that_does_not_say_which_of_two_channels_has_the_charge_makes_us_ask() {
    let bank = Bank::open_with(hasty(), BACKUP).await;
    let (id, charge) = (AttemptId::generate(), of("tok_lost_reply"));
    bank.put(id, &charge).await.unwrap();
    let asking = bank.question(id).await.unwrap();
    let charge_id = bank.ledger(Channel::Backup).await.charges[0].id.clone();
    tell(&bank, None, &notice(WebhookKind::ChargeApproved, id, &charge_id, &charge)).await;
    assert_ne!(bank.question(id).await.unwrap().id, asking.id);
    bank.ask(id).await;
    assert_eq!(bank.state(id).await, "approved");
    assert_eq!(bank.taken().await, (4_200, 1));
}

#[tokio::test]
async fn a_notice_waits_for_the_end_of_the_call_that_it_speaks_of() {
    for (kind, state) in [(WebhookKind::ChargeDeclined, "declined"), (WebhookKind::ChargeApproved, "approved")] {
        let bank = Bank::open().await;
        let (id, charge) = (AttemptId::generate(), of("tok_approve"));
        let died = chassis::crash::dies_at("payment.charge.intent_saved", bank.put(id, &charge)).await;
        assert!(died.is_err());
        tell(&bank, Some(Channel::Primary), &notice(kind, id, "ch_1", &charge)).await;
        assert_eq!(bank.state(id).await, "dispatched");
        assert!(!bank.payments.take_notice().await.unwrap(), "it is not due");
        bank.payments.sweep().await.unwrap();
        sqlx::query("update provider_events set next_try_at = now()").execute(bank.database.pool()).await.unwrap();
        assert!(bank.payments.take_notice().await.unwrap());
        assert_eq!(bank.state(id).await, state);
    }
}

#[tokio::test]
async fn notices_about_nothing_of_ours_are_kept_and_change_nothing() {
    let bank = Bank::open().await;
    let charge = of("tok_approve");
    tell(&bank, None, &notice(WebhookKind::ChargeApproved, AttemptId::generate(), "ch_1", &charge)).await;
    tell(&bank, None, &notice(WebhookKind::ChargeApproved, "somebody-elses", "ch_2", &charge)).await;
    tell(&bank, None, &notice(WebhookKind::RefundSucceeded, RefundId::generate(), "ch_3", &charge)).await;
    let outcomes: Vec<Option<String>> =
        sqlx::query_scalar("select outcome from provider_events").fetch_all(bank.database.pool()).await.unwrap();
    assert_eq!(outcomes, vec![Some("not_ours".to_owned()); 3]);
}

#[tokio::test]
async fn a_refund_is_made_once_told_once_and_told_again_when_order_asks_again() {
    let bank = Bank::open().await;
    let (id, charge) = approved(&bank).await;
    let refund = RefundCharge { amount_minor: 1_000, ..refund_of(&charge) };
    let message = wanted(id, &charge, &refund);
    assert_eq!(bank.hears(&message).await.unwrap(), Outcome::Applied);
    assert_eq!(bank.hears(&message).await.unwrap(), Outcome::Applied);
    assert_eq!(bank.payments.send_refunds().await.unwrap(), 1);
    assert_eq!(bank.payments.send_refunds().await.unwrap(), 0);
    assert_eq!((bank.taken().await, bank.told(id, "payment.refunded").await), ((3_200, 1), 1));
    bank.hears(&message).await.unwrap();
    bank.quiet().await;
    assert_eq!((bank.taken().await, bank.told(id, "payment.refunded").await), ((3_200, 1), 2));
    let made = bank.payments.refund(context(), id, refund).await.unwrap();
    assert_eq!(made.state, RefundState::Refunded);
}

#[tokio::test]
async fn no_more_goes_back_than_was_charged_and_nothing_of_what_was_not() {
    let bank = Bank::open().await;
    let (id, charge) = approved(&bank).await;
    let part = RefundCharge { amount_minor: 3_000, ..refund_of(&charge) };
    bank.payments.refund(context(), id, part.clone()).await.unwrap();
    let refusal = async |id, refund| match bank.payments.refund(context(), id, refund).await {
        Err(PaymentError::Refund { refusal, .. }) => refusal,
        other => panic!("{other:?}"),
    };
    let more = RefundCharge { amount_minor: 1_201, ..refund_of(&charge) };
    assert_eq!(refusal(id, more.clone()).await, RefundRefusal::MoreThanLeft);
    let other = RefundCharge { amount_minor: 2_999, ..part.clone() };
    assert_eq!(refusal(id, other).await, RefundRefusal::ContentMismatch);
    assert_eq!(refusal(AttemptId::generate(), part).await, RefundRefusal::NoSuchAttempt);
    let declined = AttemptId::generate();
    bank.put(declined, &of("tok_decline")).await.unwrap();
    assert_eq!(refusal(declined, refund_of(&charge)).await, RefundRefusal::NotCharged);
    // By message, it is a dead letter.
    assert!(matches!(bank.hears(&wanted(id, &charge, &more)).await, Err(HandleError::Refused(_))));
    bank.quiet().await;
    assert_eq!(bank.taken().await, (1_200, 1));
}

#[tokio::test]
async fn a_refund_without_an_answer_is_sent_again_with_its_key() {
    let bank = Bank::open().await;
    let (id, charge) = approved(&bank).await;
    bank.payments.refund(context(), id, refund_of(&charge)).await.unwrap();
    let cut_off = bank.restarted(NEITHER);
    assert_eq!(cut_off.send_refunds().await.unwrap(), 1);
    assert_eq!((bank.taken().await.0, bank.told(id, "payment.refunded").await), (4_200, 0));
    // The answer is lost in a crash: it was made.
    sqlx::query("update refunds set next_send_at = now()").execute(bank.database.pool()).await.unwrap();
    let died = chassis::crash::dies_at("payment.refund.answer_read", bank.payments.send_refunds()).await;
    assert!(died.is_err());
    assert_eq!((bank.taken().await.0, bank.told(id, "payment.refunded").await), (0, 0));
    sqlx::query("update refunds set next_send_at = now()").execute(bank.database.pool()).await.unwrap();
    bank.quiet().await;
    assert_eq!((bank.taken().await.0, bank.told(id, "payment.refunded").await), (0, 1));
}

#[tokio::test]
async fn a_refund_is_acknowledged_by_a_notice_too() {
    let bank = Bank::open().await;
    let (id, charge) = approved(&bank).await;
    let refund = refund_of(&charge);
    bank.payments.refund(context(), id, refund.clone()).await.unwrap();
    let died = chassis::crash::dies_at("payment.refund.answer_read", bank.payments.send_refunds()).await;
    assert!(died.is_err());
    tell(&bank, None, &notice(WebhookKind::RefundSucceeded, refund.refund_id, "ch", &charge)).await;
    assert_eq!(bank.told(id, "payment.refunded").await, 1);
    bank.quiet().await;
    assert_eq!((bank.taken().await.0, bank.told(id, "payment.refunded").await), (0, 1));
}

#[tokio::test]
async fn a_charge_in_the_ledger_that_is_nobodys_goes_back() {
    let bank = Bank::open().await;
    let charge = of("tok_approve");
    bank.arrives_late(Channel::Primary, AttemptId::generate(), &charge).await;
    // And one of an attempt that was fenced before it was ever heard of.
    let tombstone = AttemptId::generate();
    bank.payments.fence(context(), tombstone).await.unwrap();
    bank.arrives_late(Channel::Backup, tombstone, &charge).await;
    assert_eq!(bank.taken().await, (8_400, 2));
    bank.quiet().await;
    assert_eq!(bank.taken().await, (0, 2));
    assert_eq!(bank.state(tombstone).await, "fenced");
}

#[tokio::test]
async fn a_deferred_charge_that_was_never_heard_of_is_made_and_sent() {
    let bank = Bank::open().await;
    let (id, charge) = (AttemptId::generate(), of("tok_approve"));
    bank.hears(&deferred(id, &charge)).await.unwrap();
    assert_eq!(bank.payments.sweep().await.unwrap(), 0, "it waits, and is not given up");
    assert_eq!(bank.payments.drain().await.unwrap(), 1);
    assert_eq!((bank.state(id).await.as_str(), bank.told(id, "payment.approved").await), ("approved", 1));
    // Order may say so again.
    bank.hears(&deferred(id, &charge)).await.unwrap();
    assert_eq!(bank.told(id, "payment.approved").await, 2);
    assert_eq!(bank.payments.drain().await.unwrap(), 0);
    let other = Charge { amount_minor: 1, ..charge };
    assert!(matches!(bank.hears(&deferred(id, &other)).await, Err(HandleError::Refused(_))));
    assert_eq!(bank.taken().await, (4_200, 1));
}

#[tokio::test]
async fn deferred_charges_wait_while_the_provider_is_away_and_leave_few_at_a_time() {
    let mut rules = hasty();
    rules.reconcile.drain_concurrency = std::num::NonZeroU32::new(2).unwrap();
    let bank = Bank::open_with(rules, NEITHER).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        let (id, charge) = (AttemptId::generate(), of("tok_approve"));
        assert!(matches!(bank.put(id, &charge).await, Err(PaymentError::NotDispatched { .. })));
        bank.hears(&deferred(id, &charge)).await.unwrap();
        ids.push(id);
    }
    assert_eq!(bank.payments.drain().await.unwrap(), 0);
    assert_eq!(bank.taken().await, (0, 0));
    let back = bank.restarted(BOTH);
    let mut sent = Vec::new();
    while bank.taken().await.1 < 5 {
        sent.push(back.drain().await.unwrap());
    }
    assert_eq!(sent, [2, 2, 1]);
    for id in ids {
        assert_eq!(bank.state(id).await, "approved");
    }
}

#[tokio::test]
async fn deferred_charges_alone_find_out_that_the_provider_is_back() {
    let mut rules = hasty();
    for channel in [&mut rules.downstream.provider, &mut rules.downstream.provider_backup] {
        channel.breaker.consecutive_failures = 1;
        channel.breaker.open = Duration::from_millis(1);
        channel.breaker.open_factor = 1.0;
    }
    let bank = Bank::open_with(rules, NEITHER).await;
    let (id, charge) = (AttemptId::generate(), of("tok_approve"));
    assert!(matches!(bank.put(id, &charge).await, Err(PaymentError::NotDispatched { .. })));
    bank.hears(&deferred(id, &charge)).await.unwrap();
    // Both breakers are open by now, and nobody else calls.
    let dispatches = async || {
        let sql = "select dispatch_no from attempts where id = $1";
        let number: i32 = sqlx::query_scalar(sql).bind(id.as_uuid()).fetch_one(bank.database.pool()).await.unwrap();
        number
    };
    let before = dispatches().await;
    eventually("it is tried again", async || {
        bank.payments.drain().await.unwrap();
        (dispatches().await > before).then_some(())
    })
    .await;
}

#[tokio::test]
async fn no_deferred_charge_leaves_while_the_switch_withholds_them() {
    let mut rules = hasty();
    rules.degrade.payment = PaymentLevel::Defer;
    let bank = Bank::open_with(rules, BOTH).await;
    let (id, charge) = (AttemptId::generate(), of("tok_approve"));
    bank.hears(&deferred(id, &charge)).await.unwrap();
    assert_eq!(bank.payments.drain().await.unwrap(), 0);
    bank.rules.apply(hasty(), rules::Origin::File);
    assert_eq!(bank.payments.drain().await.unwrap(), 1);
    assert_eq!(bank.state(id).await, "approved");
}

async fn post(scene: &Scene, body: &str, signature: &str) -> Answer {
    let request = scene.app.post("/v1/webhooks/provider?channel=primary").header("provider-signature", signature);
    send_anonymously(request.header("content-type", "application/json").body(body.to_owned())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signed_notice_is_taken_over_http_and_no_other() {
    let scene = Scene::start(testkit::Reply::Close).await;
    let (id, charge) = (AttemptId::generate(), crate::scene::charge());
    scene.put(id, &charge).await.is_unknown();
    let webhook = notice(WebhookKind::ChargeApproved, id, "ch_1", &charge);
    let body = serde_json::to_string(&webhook).unwrap();
    let now = Utc::now().timestamp();
    let signed = |at| provider::sign(WEBHOOK_SECRET, at, body.as_bytes());
    for signature in
        ["".to_owned(), provider::sign("other", now, body.as_bytes()), signed(now - 301), signed(now + 301)]
    {
        post(&scene, &body, &signature).await.is_problem(401, "unauthenticated");
    }
    for _ in 0..2 {
        assert_eq!(post(&scene, &body, &signed(now)).await.status, 204);
    }
    scene.becomes(id, "approved").await;
    assert_eq!(scene.announced(id).await.len(), 1);
    let garbled = "{}";
    let signature = provider::sign(WEBHOOK_SECRET, now, garbled.as_bytes());
    post(&scene, garbled, &signature).await.is_problem(400, "invalid-request");
    let nul = body.replace("ch_1", "ch 1");
    post(&scene, &nul, &provider::sign(WEBHOOK_SECRET, now, nul.as_bytes())).await.is_problem(422, "validation-failed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refund_is_asked_for_over_http_and_made() {
    let scene = Scene::start(approves()).await;
    let (id, charge) = (AttemptId::generate(), crate::scene::charge());
    scene.put(id, &charge).await;
    scene
        .provider
        .behave(|_| testkit::Reply::Json(200, json!({"id": "re_1", "charge_id": "ch_1", "amount_minor": 200})));
    let refund_id = RefundId::generate();
    let path = format!("/v1/payments/{id}/refunds");
    let ask = async |amount: i64| {
        let body = json!({"refund_id": refund_id, "amount_minor": amount, "reason": "cancelled"});
        send(scene.app.post(&path).json(&body)).await
    };
    assert_eq!(ask(200).await.status, 202);
    testkit::eventually("the refund is made", async || (ask(200).await.status == 200).then_some(())).await;
    ask(201).await.is_problem(422, "content-mismatch");
    ask(0).await.is_problem(422, "validation-failed");
    let sent = scene.provider.seen_at("POST", "/v1/charges/ch_1/refunds");
    assert_eq!(sent[0].header("idempotency-key"), Some(refund_id.to_string().as_str()));
    assert_eq!(scene.announced(id).await.len(), 2);
}
