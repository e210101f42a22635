//! What waits for a person is told to somebody, once.

use contracts::{AttemptId, RefundId, Service};
use payment::app;
use serde_json::json;
use testkit::{Reply, Stub, TestApp, app::wiring, eventually, stub::refusing_url};

use crate::{
    bank::{BOTH, Bank, NEITHER, hasty, of},
    scene::{any_kafka, config, patient},
};

/// An attempt that nobody at the provider answers for, and a refund that it refuses.
async fn left_for_a_person(bank: &Bank) -> (AttemptId, RefundId) {
    let (attempt, charge) = (AttemptId::generate(), of("tok_lost_reply"));
    bank.put(attempt, &charge).await.unwrap();
    let cut_off = bank.restarted(NEITHER);
    while bank.state(attempt).await != "review" {
        let event = bank.question(attempt).await.unwrap();
        let due = event.decode().unwrap().unwrap();
        cut_off.reconcile(&event, &due, contracts::topic::RETRY_TIERS).await.unwrap();
    }
    let refund = RefundId::generate();
    sqlx::query(
        "with charge as (
             insert into charges (channel, provider_ref, key, amount_minor, currency, role, found_by)
             values ('primary', 'ch_refused', 'of nobody', 4200, 'USD', 'extra', 'ledger'))
         insert into refunds (id, channel, provider_ref, amount_minor, currency, reason, state, created_at, updated_at)
         values ($1, 'primary', 'ch_refused', 4200, 'USD', 'cancelled', 'review', now(), now())",
    )
    .bind(refund.as_uuid())
    .execute(bank.database.pool())
    .await
    .unwrap();
    (attempt, refund)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_and_a_refund_that_nobody_can_decide_are_posted_to_the_alert_webhook_once() {
    let bank = Bank::open_with(hasty(), BOTH).await;
    let (attempt, refund) = left_for_a_person(&bank).await;
    let webhook = Stub::start(|_| Reply::Json(200, json!({}))).await;
    let mut wiring = wiring(Service::Payment, patient());
    wiring.alert_webhook = Some(webhook.url());
    let config = config(bank.database_url(), any_kafka(), &refusing_url(), &refusing_url());
    let app = TestApp::start_wired(wiring, |wiring, lifecycle| app::build(config, wiring, lifecycle)).await;
    let posted = || {
        let mut bodies: Vec<_> = webhook.seen().into_iter().map(|seen| seen.body).collect();
        bodies.retain(|body| body["alert"] != "breaker");
        bodies
    };
    eventually("both are posted", || async { (posted().len() >= 2).then_some(()) }).await;
    let [first, second] = &posted()[..] else { panic!("{:?}", posted()) };
    assert_eq!((&first["alert"], &first["attempt_id"]), (&json!("payment_review"), &json!(attempt)), "{first}");
    assert_eq!((&second["alert"], &second["refund_id"]), (&json!("refund_review"), &json!(refund)), "{second}");
    for alert in [first, second] {
        assert_eq!((&alert["service"], &alert["instance"]), (&json!("payment"), &json!("payment-0")), "{alert}");
    }
    drop(app);
}
