use contracts::provider::{Behaviour, ChargeState, Ledger, WebhookMode};
use reqwest::Response;
use serde_json::json;

use crate::setup::{Api, problem, setup, setup_with};

async fn reset(api: &Api, query: &str) -> Response {
    api.client.post(api.url(&format!("/admin/reset{query}"))).send().await.unwrap()
}

#[tokio::test]
async fn what_a_put_leaves_out_is_as_it_was_at_the_start() {
    let it = setup_with(|config| config.behaviour.settle_ms = 700).await;
    it.api.behave(json!({"latency_ms": 5, "webhook": "late"})).await;
    let put: Behaviour = it.api.behave(json!({"error_ratio": 0.25})).await.json().await.unwrap();
    assert_eq!(put, Behaviour { error_ratio: 0.25, settle_ms: 700, ..Behaviour::default() });
    assert_eq!(it.api.get("/admin/behaviour").await.json::<Behaviour>().await.unwrap(), put);

    let whole = Behaviour { webhook: WebhookMode::Duplicate, hang_ratio: 1.0, settle_ms: 1, ..put };
    let answer = it.api.behave(serde_json::to_value(&whole).unwrap()).await;
    assert_eq!(answer.json::<Behaviour>().await.unwrap(), whole, "what is read can be put back");
}

#[tokio::test]
async fn a_behaviour_out_of_range_is_refused_and_changes_nothing() {
    let it = setup().await;
    for (field, value) in [
        ("error_ratio", json!(1.01)),
        ("decline_ratio", json!(-0.1)),
        ("lose_reply_ratio", json!(2)),
        ("hang_ratio", json!(1e300)),
        ("latency_ms", json!(60_001)),
        ("jitter_ms", json!(60_001)),
        ("settle_ms", json!(3_600_001)),
        ("webhook_late_ms", json!(u64::MAX)),
    ] {
        let refused = problem(it.api.behave(json!({field: value})).await, 422, "validation-failed").await;
        assert_eq!(refused.errors[0].field, field);
    }
    for unreadable in [json!({"colour": 1}), json!({"latency_ms": -1}), json!({"webhook": "maybe"}), json!([])] {
        problem(it.api.behave(unreadable).await, 400, "invalid-request").await;
    }
    assert_eq!(it.api.get("/admin/behaviour").await.json::<Behaviour>().await.unwrap(), Behaviour::default());
}

#[tokio::test]
async fn ratios_strike_charges_and_a_repeat_may_fare_better() {
    let it = setup().await;
    it.api.behave(json!({"error_ratio": 1.0})).await;
    problem(it.api.try_charge("e", "tok_approve").await.unwrap(), 500, "internal").await;
    it.api.behave(json!({"hang_ratio": 1.0})).await;
    assert!(it.api.try_charge("h", "tok_approve").await.is_err());
    assert_eq!(it.api.ledger().await, Ledger::default());

    it.api.behave(json!({"lose_reply_ratio": 1.0})).await;
    assert!(it.api.try_charge("l", "tok_approve").await.is_err());
    let charged = it.api.by_key("l").await.unwrap();
    it.api.behave(json!({"decline_ratio": 1.0})).await;
    assert_eq!(it.api.charge("l", "tok_approve").await, charged, "decided before, and now answered");
    let declined = it.api.charge("d", "tok_approve").await;
    assert_eq!(declined.state, ChargeState::Declined);
    assert_eq!(declined.decline_code.as_deref(), Some("do_not_honor"));
}

#[tokio::test]
async fn after_a_reset_the_same_seed_brings_the_same_luck_and_the_ledger_stays_unless_it_is_named() {
    let it = setup_with(|config| config.seed = 11).await;
    let run = async |prefix: &str| {
        it.api.behave(json!({"error_ratio": 0.4, "decline_ratio": 0.4})).await;
        let mut outcomes = Vec::new();
        for n in 0..30 {
            let response = it.api.try_charge(&format!("{prefix}-{n}"), "tok_approve").await.unwrap();
            let status = response.status().as_u16();
            outcomes.push((status, response.json::<serde_json::Value>().await.unwrap()["state"].clone()));
        }
        outcomes
    };
    let first = run("a").await;
    let back: Behaviour = reset(&it.api, "").await.json().await.unwrap();
    assert_eq!(back, Behaviour::default());
    assert_eq!(run("b").await, first);

    let kept = it.api.ledger().await.charges.len();
    reset(&it.api, "?ledger=false").await;
    assert_eq!(it.api.ledger().await.charges.len(), kept);
    assert_eq!(reset(&it.api, "?ledger=true").await.status(), 200);
    assert_eq!(it.api.ledger().await, Ledger::default());
    for bad in ["?ledger=perhaps", "?ledgers=true"] {
        problem(reset(&it.api, bad).await, 400, "invalid-request").await;
    }
}
