//! A payment provider that is wholly away: small orders wait, large ones are refused, and nothing is guessed.

use std::{collections::BTreeMap, time::Duration};

use chrono::{DateTime, Utc};
use futures_util::future::join_all;
use load::{Answer, Outcome, Process};
use serde_json::{Value, json};
use testkit::eventually;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    audit,
    shop::{fresh_key, order_of},
    system::{System, count, is_full, turn},
    traffic,
};

/// The breakers try again soon, and a small order is one of a few tins of tea.
const RULES: &str = r#"
[degrade]
defer_max_minor = 3000
[downstream.provider.breaker]
open_ms = 500
[downstream.provider.breaker.ramp]
steps = [{ percent = 50, duration_ms = 500 }, { percent = 100, duration_ms = 500 }]
[downstream.payment.breaker.ramp]
steps = [{ percent = 100, duration_ms = 500 }]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn without_the_provider_small_orders_wait_and_large_ones_are_refused() {
    let system = turn().await;
    system.rule(83, RULES).await;
    for channel in ["provider-primary", "provider-backup"] {
        system.kill(channel);
    }
    let small = order_of("TEA-EARLGREY-100", 1, "tok_approve");
    let large = order_of("TEA-EARLGREY-100", 50, "tok_approve");
    let waiting = join_all((0..10).map(async |_| system.shop.place(&fresh_key(), &small).await)).await;
    let mut refused = Vec::new();
    for turn in 0..5 {
        refused.push(system.shop.place_let_in(turn, &fresh_key(), &large).await);
    }
    for channel in ["provider-primary", "provider-backup"] {
        system.restart(channel, &[]).await;
    }
    for told in refused {
        assert_eq!((told.status, &told.body["type"]), (503, &json!("urn:problem:payment-unavailable")), "{told:?}");
    }
    for told in waiting {
        let payment: &Value = &told.body["payment"]["state"];
        assert_eq!((told.status, payment), (202, &json!("deferred")), "{told:?}");
        system.shop.once(told.body["id"].as_str().unwrap(), "confirmed").await;
    }
    system.rule(84, "").await;
    audit::clean(&system).await;
}

/// Orders a second.
const RATE: f64 = 12.0;
const AWAY: Duration = Duration::from_secs(60);
/// What a charge takes once the provider is back.
const LATENCY: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn a_minute_without_the_provider_under_load_ends_without_a_surge() {
    if !is_full() {
        eprintln!("skipped: DEV_TEST_FULL is not set");
        return;
    }
    let system = turn().await;
    system.rule(87, RULES).await;
    let stop = CancellationToken::new();
    let plan = traffic::steady(RATE, Duration::from_secs(300), Process::Poisson, "place_order=1", 60);
    let (answers, (began, ended)) =
        tokio::join!(traffic::send(&system, &plan, &stop), outage_under_load(&system, &stop));
    system.provider_behaves(&json!({})).await;
    system.rule(88, "").await;

    let told = |status: u16| {
        let away = |answer: &&Answer| (began..ended).contains(&answer.at);
        answers.iter().filter(away).filter(|answer| answer.outcome == Outcome::Status(status)).count()
    };
    println!("while the provider was away: {} deferred, {} refused, {} limited", told(202), told(503), told(429));
    assert!(told(202) > 100 && told(503) > 100, "both kinds of order have to come up for this to mean anything");

    let mut busiest = BTreeMap::<i64, usize>::new();
    for charge in system.ledger().await.charges.iter().filter(|charge| charge.at >= ended) {
        *busiest.entry(charge.at.timestamp()).or_default() += 1;
    }
    let busiest = busiest.into_values().max().unwrap();
    // Two replicas that each send as many at once as the rule says, beside the orders that come in.
    let drain = rules::Rules::default().reconcile.drain_concurrency.get();
    let most = f64::from(2 * drain) / LATENCY.as_secs_f64() + 3.0 * RATE;
    println!("after it: at most {busiest} charges a second, of {most} that may be");
    assert!(busiest as f64 <= most);
    audit::clean(&system).await;
}

/// The provider goes for a minute and comes back; ends when nothing is deferred any more. Its first and last moment.
async fn outage_under_load(system: &System, stop: &CancellationToken) -> (DateTime<Utc>, DateTime<Utc>) {
    sleep(Duration::from_secs(3)).await;
    for channel in ["provider-primary", "provider-backup"] {
        system.kill(channel);
    }
    let began = Utc::now();
    sleep(AWAY).await;
    let ended = Utc::now();
    for channel in ["provider-primary", "provider-backup"] {
        system.restart(channel, &[]).await;
    }
    system.provider_behaves(&json!({"latency_ms": LATENCY.as_millis() as u64})).await;
    let orders = system.database("order").await;
    eventually("no payment is deferred any more", async || {
        let deferred = "select count(*) from orders where payment_state = 'deferred' and status = 'payment_pending'";
        (count(&orders, deferred).await == 0).then_some(())
    })
    .await;
    stop.cancel();
    (began, ended)
}
