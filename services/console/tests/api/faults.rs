//! Faults on links that really run.

use links::{Effect, LinkConfig, LinksConfig, Protocol};
use serde_json::{Value, json};
use testkit::{Reply, Stub, eventually};

use crate::desk::{Desk, body as answered};

async fn with_links() -> (Desk, links::RunningLinks, Stub) {
    let upstream = Stub::start(|_| Reply::Json(200, json!({}))).await;
    let address = upstream.url().trim_start_matches("http://").to_owned();
    let link = |name: &str, protocol| LinkConfig {
        name: name.to_owned(),
        listen: "127.0.0.1:0".parse().unwrap(),
        upstream: address.clone(),
        protocol,
    };
    let config = LinksConfig {
        admin: "127.0.0.1:0".parse().unwrap(),
        links: vec![link("order->payment", Protocol::Http), link("->redis", Protocol::Tcp)],
        seed: 1,
    };
    let running = links::start(config).await.unwrap();
    let url = format!("http://{}", running.admin);
    (Desk::with(|config| config.callees.links_admin_url = Some(url)).await, running, upstream)
}

fn wish(link: &str, kind: &str, settings: Value) -> Value {
    json!({"link": link, "kind": kind, "settings": settings})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_is_set_seen_on_the_map_and_removed_and_who_did_it_is_kept() {
    let (desk, _links, _upstream) = with_links().await;
    let set = desk.posting("/v1/faults", &wish("order->payment", "latency", json!({"latency_ms": 800})));
    let set = answered(set.send().await.unwrap(), 201).await;
    let name = set["name"].as_str().unwrap();
    assert_eq!((&set["kind"], &set["settings"]["latency_ms"]), (&json!("latency"), &json!(800)));
    let listed = desk.seen("/v1/faults").await;
    assert_eq!((&listed["available"], &listed["links"][0]["link"]), (&json!(true), &json!("order->payment")));
    assert_eq!(listed["links"][0]["faults"][0]["name"], name);
    assert_eq!((&listed["links"][1]["protocol"], &listed["links"][1]["faults"]), (&json!("tcp"), &json!([])));
    eventually("the live view knows that links run", || async {
        (desk.seen("/v1/live").await["links"] == true).then_some(())
    })
    .await;

    let path = format!("/v1/faults/order-%3Epayment/{name}");
    assert_eq!(desk.delete(&path).send().await.unwrap().status(), 204);
    answered(desk.delete(&path).send().await.unwrap(), 404).await;
    assert_eq!(desk.seen("/v1/faults").await["links"][0]["faults"], json!([]));
    let did: Vec<_> = desk.audit().await.into_iter().map(|(by, action, target, _)| (by, action, target)).collect();
    let by_ada = |action: &str, target: String| ("ada".to_owned(), action.to_owned(), target);
    let expected = [
        by_ada("set_fault", "order->payment: latency".to_owned()),
        by_ada("remove_fault", format!("order->payment: {name}")),
    ];
    assert_eq!(did, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_faults_are_removed_at_once() {
    let (desk, _links, _upstream) = with_links().await;
    for link in ["order->payment", "->redis"] {
        answered(desk.posting("/v1/faults", &wish(link, "hang", json!({}))).send().await.unwrap(), 201).await;
    }
    assert_eq!(desk.delete("/v1/faults").send().await.unwrap().status(), 204);
    let listed = desk.seen("/v1/faults").await;
    assert!(listed["links"].as_array().unwrap().iter().all(|link| link["faults"] == json!([])), "{listed}");
    assert_eq!(desk.delete("/v1/faults").send().await.unwrap().status(), 204, "none is as good as none left");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_that_a_link_knows_is_offered_and_its_defaults_can_be_set() {
    let (desk, _links, _upstream) = with_links().await;
    let listed = desk.seen("/v1/faults").await;
    let kinds = listed["kinds"].as_array().unwrap();
    let offered: Vec<_> = kinds.iter().map(|kind| kind["kind"].as_str().unwrap()).collect();
    assert_eq!(offered, Effect::KINDS);
    for kind in kinds {
        let settings: serde_json::Map<String, Value> = kind["settings"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|setting| !setting["default"].is_null())
            .map(|setting| (setting["name"].as_str().unwrap().to_owned(), setting["default"].clone()))
            .collect();
        let name = kind["kind"].as_str().unwrap();
        for (link, protocol) in [("order->payment", "http"), ("->redis", "tcp")] {
            let fits = kind["protocols"].as_array().unwrap().contains(&json!(protocol));
            let answer = desk.posting("/v1/faults", &wish(link, name, json!(settings))).send().await.unwrap();
            answered(answer, if fits { 201 } else { 422 }).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_link_could_do_is_refused_by_name_and_does_nothing() {
    let (desk, _links, _upstream) = with_links().await;
    for (body, field) in [
        (wish("order->payment", "earthquake", json!({})), "kind"),
        (wish("order->payment", "latency", json!({"latency_ms": -1})), "settings.latency_ms"),
        (wish("order->payment", "latency", json!({"seed": 1})), "settings.seed"),
        (wish("order->nowhere", "hang", json!({})), "link"),
    ] {
        let problem = answered(desk.posting("/v1/faults", &body).send().await.unwrap(), 422).await;
        assert_eq!(problem["errors"][0]["field"], field, "{body}");
    }
    assert_eq!(desk.seen("/v1/faults").await["links"][0]["faults"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_links_there_is_nothing_to_set_and_the_refusal_says_why() {
    let desk = Desk::open().await;
    let listed = desk.seen("/v1/faults").await;
    assert_eq!((&listed["available"], &listed["links"]), (&json!(false), &json!([])));
    let set = desk.posting("/v1/faults", &wish("order->payment", "hang", json!({}))).send().await.unwrap();
    let removed = desk.delete("/v1/faults").send().await.unwrap();
    for answer in [set, removed] {
        assert!(answered(answer, 404).await["detail"].as_str().unwrap().contains("no links run"));
    }
    assert_eq!(desk.audit().await, []);
}
