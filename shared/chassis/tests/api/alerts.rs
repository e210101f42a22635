//! Every change of a breaker's state is posted, and no request waits for it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use contracts::{Service, UserId};
use resilience::{
    RampConfig,
    breaker::{State, Window},
    ramp::RampStep,
};
use rules::{Origin, Rules};
use serde_json::{Value, json};
use testkit::{Reply, Stub, app::wiring, eventually, user_token};

use super::relay::Relay;

const MS: Duration = Duration::from_millis(1);

/// Opens at the fourth failure, probes once after 30 ms, and is closed 50 ms later.
fn rules() -> Rules {
    let mut rules = Rules { version: 3, ..Rules::default() };
    let breaker = &mut rules.downstream.recommendation.breaker;
    breaker.window = Window::Calls(10);
    breaker.minimum_calls = 4;
    (breaker.open, breaker.probes) = (30 * MS, 1);
    let steps = vec![RampStep { percent: 100, duration: 50 * MS }];
    breaker.ramp = RampConfig { steps, ..RampConfig::default() };
    rules
}

async fn relay(webhook: &str, callee: &Stub) -> Relay {
    let mut wiring = wiring(Service::Order, rules());
    wiring.alert_webhook = Some(webhook.to_owned());
    Relay::start_wired(wiring, &callee.url()).await
}

fn posted(webhook: &Stub) -> Vec<Value> {
    webhook.seen().into_iter().map(|seen| seen.body).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_way_into_trouble_and_out_of_it_is_told_step_by_step() {
    let (callee, webhook) =
        (Stub::start(|_| Reply::Raw(500, String::new())).await, Stub::start(|_| Reply::Json(200, json!({}))).await);
    let relay = relay(&webhook.url(), &callee).await;
    let user = user_token(UserId::generate());
    for _ in 0..4 {
        relay.products(&user).send().await.unwrap();
    }
    eventually("the opening is posted", || async { (!posted(&webhook).is_empty()).then_some(()) }).await;
    let opened = &posted(&webhook)[0];
    for (field, expected) in [
        ("alert", json!("breaker")),
        ("downstream", json!("recommendation")),
        ("from", json!("closed")),
        ("to", json!("open")),
        ("failure_ratio", json!(1.0)),
        ("slow_ratio", json!(0.0)),
        ("calls", json!(4)),
        ("service", json!("order")),
        ("instance", json!("order-0")),
        ("rule_version", json!(3)),
        ("number", json!(1)),
    ] {
        assert_eq!(opened[field], expected, "{field} in {opened}");
    }
    assert_eq!((&opened["reason"]["kind"], &opened["reason"]["calls"]), (&json!("failure_ratio"), &json!(4)));
    assert!(opened["at"].as_str().unwrap().ends_with('Z'), "{opened}");

    callee.behave(|_| Reply::Json(200, json!(1)));
    eventually("the breaker is closed again", || async {
        relay.products(&user).send().await.unwrap();
        (relay.callee.snapshot().breaker.state == State::Closed).then_some(())
    })
    .await;
    let ways = || -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut all = posted(&webhook);
        all.sort_by_key(|alert| alert["number"].as_u64());
        all.iter().map(|alert| (text(&alert["from"]), text(&alert["to"]))).collect()
    };
    eventually("the recovery is posted", || async { ways().iter().any(|(_, to)| to == "closed").then_some(()) }).await;
    let expected = [("closed", "open"), ("open", "half_open"), ("half_open", "ramping"), ("ramping", "closed")];
    assert_eq!(ways(), expected.map(|(from, to)| (from.to_owned(), to.to_owned())));
    for name in [
        "stability_breaker_open_total{downstream=\"recommendation\"}",
        "stability_breaker_failure_ratio{downstream=\"recommendation\"}",
        "stability_breaker_recovery_seconds{downstream=\"recommendation\"}",
        "stability_bulkhead_waiting{downstream=\"recommendation\"}",
        "stability_bulkhead_in_flight{downstream=\"recommendation\"}",
        "stability_limiter_permits_available{downstream=\"recommendation\"}",
        "stability_alerts_posted_total",
    ] {
        eventually(name, || async { relay.metrics().await.contains(name).then_some(()) }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_hangs_holds_no_request_up_and_what_it_misses_is_counted() {
    let hangs = Arc::new(AtomicBool::new(true));
    let told = hangs.clone();
    let webhook = Stub::start(move |_| match told.load(Ordering::Relaxed) {
        true => Reply::Hang,
        false => Reply::Json(200, json!({})),
    })
    .await;
    let callee = Stub::start(|_| Reply::Json(200, json!(1))).await;
    let relay = relay(&webhook.url(), &callee).await;
    let user = user_token(UserId::generate());
    // By rule, so that as many changes as the queue does not hold are made in a moment.
    let (mut open, mut closed) = (rules(), rules());
    open.downstream.recommendation.breaker.forced = Some(resilience::breaker::Forced::Open);
    closed.downstream.recommendation.breaker.forced = Some(resilience::breaker::Forced::Closed);
    for turn in 0..200 {
        let rule = if turn % 2 == 0 { &open } else { &closed };
        relay.callee.reconfigure(&rule.downstream.recommendation, rule.network.reserve).unwrap();
    }
    eventually("what found no room is counted", || async {
        relay.metrics().await.contains("stability_alerts_dropped_total{reason=\"queue_full\"}").then_some(())
    })
    .await;
    // In front of the hanging webhook requests are answered; the webhook has been given one alert and answers none.
    assert_eq!(relay.products(&user).send().await.unwrap().status(), 200);
    assert_eq!(webhook.seen().len(), 1);
    hangs.store(false, Ordering::Relaxed);
    relay.rules.apply(Rules { version: 4, ..rules() }, Origin::File);
}
