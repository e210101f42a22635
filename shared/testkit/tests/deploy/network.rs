//! Who may talk to whom in the cluster is who has to.

use std::collections::BTreeSet;

use contracts::Service;
use serde_json::{Value, json};

use crate::{
    kubernetes::own_container,
    yaml::{documents, items, text},
};

fn policies(file: &str) -> Vec<Value> {
    documents(&format!("deploy/k8s/network/{file}.yml"))
}

/// The services that a selector of pods names.
fn selected(selector: &Value) -> Vec<String> {
    let one = selector["matchLabels"]["app.kubernetes.io/name"].as_str();
    let several = items(&selector["matchExpressions"]).flat_map(|expression| items(&expression["values"])).map(text);
    one.into_iter().chain(several).map(str::to_owned).collect()
}

/// Who has an address of whom.
fn wired() -> BTreeSet<(String, String)> {
    let mut hops = BTreeSet::new();
    for caller in Service::ALL {
        let container = own_container(caller);
        let addresses = items(&container["env"]).filter_map(|variable| variable["value"].as_str());
        hops.extend(addresses.filter_map(|to| Some((caller.to_string(), to.strip_prefix("http://")?.to_owned()))));
    }
    hops
}

#[test]
fn what_is_not_allowed_is_denied() {
    let deny = policies("default-deny").remove(0);
    assert_eq!(deny["spec"], json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}));
}

#[test]
fn the_hops_that_are_allowed_at_both_ends_are_those_that_are_wired() {
    let (mut out, mut into) = (BTreeSet::new(), BTreeSet::new());
    for policy in policies("hops") {
        let own = selected(&policy["spec"]["podSelector"]);
        for rule in items(&policy["spec"]["egress"]) {
            assert_eq!(rule["ports"], json!([{"protocol": "TCP", "port": "api"}]));
            let others = items(&rule["to"]).flat_map(|peer| selected(&peer["podSelector"]));
            out.extend(others.flat_map(|callee| own.iter().map(move |caller| (caller.clone(), callee.clone()))));
        }
        for rule in items(&policy["spec"]["ingress"]) {
            assert_eq!(rule["ports"], json!([{"protocol": "TCP", "port": "api"}]));
            let others = items(&rule["from"]).flat_map(|peer| selected(&peer["podSelector"]));
            into.extend(others.flat_map(|caller| own.iter().map(move |callee| (caller.clone(), callee.clone()))));
        }
    }
    assert_eq!(wired().len(), 4);
    assert_eq!(out, wired());
    assert_eq!(into, wired());
}

#[test]
fn every_service_reaches_the_console_and_is_reached_by_it() {
    let all = Service::ALL.map(|service| service.to_string());
    let [services, console] = &policies("console")[..] else { panic!("two policies") };
    let peers = |policy: &Value, way: &str, side: &str| -> Vec<String> {
        items(&policy["spec"][way])
            .flat_map(|rule| items(&rule[side]))
            .flat_map(|peer| selected(&peer["podSelector"]))
            .collect()
    };
    assert_eq!(selected(&services["spec"]["podSelector"]), all);
    assert_eq!(
        (peers(services, "egress", "to"), peers(services, "ingress", "from")),
        (vec!["console".to_owned()], vec!["console".to_owned()])
    );
    assert_eq!(selected(&console["spec"]["podSelector"]), ["console"]);
    assert_eq!((peers(console, "egress", "to"), peers(console, "ingress", "from")), (all.to_vec(), all.to_vec()));
}

#[test]
fn redis_is_reached_by_those_who_are_told_where_it_is() {
    let told = Service::ALL
        .into_iter()
        .filter(|service| items(&own_container(*service)["env"]).any(|variable| variable["name"] == "REDIS_URL"))
        .map(|service| service.to_string());
    let policy = policies("stores").into_iter().find(|policy| policy["metadata"]["name"] == "redis").unwrap();
    assert_eq!(selected(&policy["spec"]["podSelector"]), told.collect::<Vec<_>>());
}
