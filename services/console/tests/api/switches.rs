//! Switches: one click, one line.

use contracts::Service;
use serde_json::{Value, json};
use testkit::caller_token;

use crate::desk::{Desk, body};

async fn turn(desk: &Desk, feature: &str, value: &str) -> reqwest::Response {
    desk.post("/v1/switches", &json!({"feature": feature, "value": value, "reason": "the provider is down"})).await
}

fn stands(switches: &Value, feature: &str) -> String {
    let items = switches["items"].as_array().unwrap();
    items.iter().find(|item| item["feature"] == feature).unwrap()["value"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_switch_is_a_version_at_once_in_which_one_line_differs() {
    let desk = Desk::open().await;
    let document = "# of the shop\n[degrade]\npayment = \"on\" # as always\n";
    let version = desk.draft(document).await;
    desk.done(version, "promote").await;
    let turned = body(turn(&desk, "payment", "defer").await, 200).await;
    assert_eq!((&turned["version"], &turned["state"], &turned["based_on"]), (&2.into(), &"active".into(), &1.into()));
    assert_eq!(turned["document"], document.replace("\"on\"", "\"defer\""));
    assert_eq!(desk.heard("order-0", Some(1)).await, (200, Some(2)));
    let switches = desk.seen("/v1/switches").await;
    assert_eq!(stands(&switches, "payment"), "defer");
    let payment = switches["items"].as_array().unwrap().iter().find(|item| item["feature"] == "payment").unwrap();
    assert_eq!((&payment["normal"], &payment["values"]), (&"on".into(), &json!(["on", "backup_only", "defer", "off"])));
    assert_eq!(desk.seen("/v1/audit?limit=1").await["items"][0]["target"], "version 2 (payment = defer)");
    // One click back.
    desk.done(2, "rollback").await;
    assert_eq!(stands(&desk.seen("/v1/switches").await, "payment"), "on");
}

#[tokio::test]
async fn the_first_switch_of_all_makes_the_first_version() {
    let desk = Desk::open().await;
    assert_eq!(stands(&desk.seen("/v1/switches").await, "recommendation"), "live");
    let turned = body(turn(&desk, "recommendation", "off").await, 200).await;
    assert_eq!((&turned["version"], &turned["based_on"]), (&1.into(), &Value::Null));
}

#[tokio::test]
async fn rules_that_the_console_does_not_know_are_not_replaced_by_a_switch() {
    let desk = Desk::open().await;
    let report = json!({"service": "order", "instance": "order-0", "version": 4, "origin": "file"});
    let request = desk.app.post("/v1/rules/applied").bearer_auth(caller_token(Service::Order)).json(&report);
    assert_eq!(request.send().await.unwrap().status(), 204);
    let refused = body(turn(&desk, "payment", "off").await, 409).await;
    assert!(refused["detail"].as_str().unwrap().contains("order-0"), "{refused}");
    let version = desk.draft("").await;
    desk.done(version, "promote").await;
    body(turn(&desk, "payment", "off").await, 200).await;
}

#[tokio::test]
async fn a_switch_ends_what_is_tried_out_and_drafts_from_before_it_have_to_be_written_anew() {
    let desk = Desk::open().await;
    let first = desk.draft("").await;
    desk.done(first, "promote").await;
    let (tried, waiting) = (desk.draft("").await, desk.draft("").await);
    desk.done(tried, "canary").await;
    body(turn(&desk, "payment", "off").await, 200).await;
    assert_eq!(desk.states().await, ["active", "draft", "rolled_back", "superseded"]);
    assert_eq!(desk.heard("order-0", Some(tried)).await, (200, Some(4)), "the canary has the switch too");
    body(desk.act(waiting, "promote").await, 409).await;
}

#[tokio::test]
async fn a_feature_or_value_that_is_none_is_refused_by_name() {
    let desk = Desk::open().await;
    assert_eq!(body(turn(&desk, "mail", "off").await, 422).await["errors"][0]["field"], "feature");
    assert_eq!(body(turn(&desk, "payment", "cache").await, 422).await["errors"][0]["field"], "value");
    let unsaid = json!({"feature": "payment", "value": "off", "reason": ""});
    assert_eq!(body(desk.post("/v1/switches", &unsaid).await, 422).await["errors"][0]["field"], "reason");
}
