//! Composite rules, fed by what comes in and by what goes out, over real sockets.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use contracts::{ProblemType, Service, UserId};
use rules::{Origin, Rules};
use serde_json::{Value, json};
use testkit::{Reply, Stub, caller_token, eventually, tenant_token, user_token};

use super::{relay::Relay, shop::problem};

/// Half of at least five calls; the callee's own breaker stays out of it.
fn rules(per: &str, of: &str, action: &str) -> Rules {
    let mut rules = Rules::from_toml(&format!(
        "version = 8\n[composite.trouble]\nper = \"{per}\"\n{of}\naction = \"{action}\"\nrecover_after_ms = 600000\n\
         conditions = [\n{{ metric = \"calls\", at_least = 5, window_ms = 300000 }},\n\
         {{ metric = \"failure_ratio\", at_least = 0.5, window_ms = 300000 }},\n]\n"
    ))
    .unwrap();
    rules.downstream.recommendation.breaker.minimum_calls = 50;
    rules
}

/// A callee that fails for as long as it is told to.
async fn failing() -> (Stub, Arc<AtomicBool>) {
    let fails = Arc::new(AtomicBool::new(true));
    let told = fails.clone();
    let stub = Stub::start(move |_| match told.load(Ordering::Relaxed) {
        true => Reply::Raw(500, String::new()),
        false => Reply::Json(200, json!(1)),
    })
    .await;
    (stub, fails)
}

async fn said(request: reqwest::RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_whose_requests_mostly_fail_is_refused_and_the_others_are_not() {
    let (stub, fails) = failing().await;
    let of = "api = \"GET /v1/products\"\nprovider = \"order\"";
    let relay = Relay::start(rules("consumer_api_provider", of, "reject"), &stub.url()).await;
    let tea = || relay.products(&tenant_token(UserId::generate(), "tea-house"));
    for _ in 0..5 {
        assert_eq!(said(tea()).await.0, 500);
    }
    fails.store(false, Ordering::Relaxed);
    let refused = tea().send().await.unwrap();
    assert_eq!(refused.status(), 429);
    assert!(refused.headers().contains_key("retry-after"));
    let told = problem(refused).await;
    assert_eq!((told.kind, told.mechanism.as_deref()), (ProblemType::RateLimited, Some("composite.trouble")));
    assert_eq!(told.rule_version, Some(8));
    assert!(told.retry_after_ms > Some(500_000), "{told:?}");
    assert_eq!(stub.seen().len(), 5, "a refusal asks nobody");

    assert_eq!(said(relay.products(&tenant_token(UserId::generate(), "coffee-house"))).await.0, 200);
    assert_eq!(said(relay.products(&user_token(UserId::generate()))).await.0, 200);
    assert_eq!(said(relay.app.get("/v1/stock").bearer_auth(caller_token(Service::Payment))).await.0, 200);
    let state = relay.state().await["composite"][0].clone();
    assert_eq!(
        (&state["rule"], &state["action"], &state["trips_total"]),
        (&json!("trouble"), &json!("reject"), &json!(1))
    );
    assert_eq!(state["holds_for"][0][0], "tea-house × GET /v1/products × order");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_in_trouble_is_not_called_from_the_api_that_it_fails() {
    let (stub, fails) = failing().await;
    let of = "provider = \"recommendation\"";
    let relay = Relay::start(rules("api_provider", of, "break"), &stub.url()).await;
    let user = user_token(UserId::generate());
    for _ in 0..5 {
        assert_eq!(said(relay.products(&user)).await.0, 500);
    }
    fails.store(false, Ordering::Relaxed);
    assert_eq!(said(relay.products(&user)).await, (200, json!({"not_sent": "breaker_open"})));
    assert_eq!(stub.seen().len(), 5);
    let stock = relay.app.get("/v1/stock").bearer_auth(caller_token(Service::Payment));
    assert_eq!(said(stock).await, (200, json!({"level": "live"})), "another API calls it as before");
    let metrics = relay.metrics().await;
    assert!(metrics.contains("stability_composite_trips_total{rule=\"trouble\"}"), "{metrics}");
    assert!(metrics.contains("mechanism=\"composite.trouble\",downstream=\"recommendation\""), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feature_is_served_with_less_while_a_rule_holds_and_a_lower_switch_stays_lower() {
    let (stub, _fails) = failing().await;
    let of = "provider = \"recommendation\"";
    let eased = rules("provider", of, "degrade:recommendation");
    let relay = Relay::start(eased.clone(), &stub.url()).await;
    let user = user_token(UserId::generate());
    for _ in 0..5 {
        assert_eq!(said(relay.products(&user)).await.0, 500);
    }
    assert_eq!(said(relay.products(&user)).await, (200, json!({"level": "cache"})));
    assert_eq!(stub.seen().len(), 5);

    let mut off = eased.clone();
    off.degrade.recommendation = rules::RecommendationLevel::Off;
    relay.rules.apply(off, Origin::File);
    assert_eq!(said(relay.products(&user)).await.1, json!({"level": "off"}), "at once: switches are read live");
    assert_eq!(relay.state().await["degrade"]["recommendation"], "off");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_rules_keep_what_was_counted() {
    let (stub, _fails) = failing().await;
    let of = "provider = \"recommendation\"";
    let relay = Relay::start(rules("provider", of, "break"), &stub.url()).await;
    let user = user_token(UserId::generate());
    for _ in 0..4 {
        assert_eq!(said(relay.products(&user)).await.0, 500);
    }
    let mut changed = rules("provider", of, "degrade:recommendation");
    changed.version = 9;
    relay.rules.apply(changed, Origin::File);
    eventually("the other action is in force", || async {
        (relay.state().await["composite"][0]["action"] == "degrade:recommendation").then_some(())
    })
    .await;
    assert_eq!(said(relay.products(&user)).await.0, 500, "the fifth");
    assert_eq!(said(relay.products(&user)).await, (200, json!({"level": "cache"})));
}
