//! Every alert says what it is, what to do first and where to read on, asks for metrics that there are, and is tested.

use std::{collections::BTreeMap, fs};

use serde_json::Value;

use crate::{
    checkout, exported,
    yaml::{document, items, text},
};

const ALERTS: &str = "deploy/prometheus/alerts.yml";
const PAGE: &str = "docs/operations.md";

/// The rules by the names of their alerts.
fn alerts() -> BTreeMap<String, Value> {
    let file = document(ALERTS);
    let rules: Vec<&Value> = items(&file["groups"]).flat_map(|group| items(&group["rules"])).collect();
    let named: BTreeMap<_, _> = rules.iter().map(|rule| (text(&rule["alert"]).to_owned(), (*rule).clone())).collect();
    assert_eq!(named.len(), rules.len(), "a name stands there twice");
    named
}

#[test]
fn every_alert_says_how_urgent_it_is_and_what_to_do_first() {
    for (name, rule) in alerts() {
        assert!(["critical", "warning"].contains(&text(&rule["labels"]["severity"])), "{name}");
        for annotation in ["summary", "action"] {
            assert!(text(&rule["annotations"][annotation]).len() > 20, "{name} has no {annotation}");
        }
    }
}

#[test]
fn every_alert_leads_to_a_heading_of_its_own_and_every_heading_of_an_alert_to_an_alert() {
    let page = fs::read_to_string(checkout().join(PAGE)).unwrap();
    let alerts = alerts();
    for (name, rule) in &alerts {
        assert_eq!(text(&rule["annotations"]["runbook_url"]), format!("{PAGE}#{}", name.to_lowercase()));
        assert!(page.lines().any(|line| line == format!("### {name}")), "{name} has no heading");
    }
    let (_, section) = page.split_once("\n## Alerts\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    for heading in section.lines().filter_map(|line| line.strip_prefix("### ")) {
        assert!(alerts.contains_key(heading), "{heading} is no alert");
    }
}

#[test]
fn every_alert_asks_for_metrics_that_the_services_export() {
    for (name, rule) in alerts() {
        assert_eq!(exported::unknown(text(&rule["expr"])), [] as [&str; 0], "{name}");
    }
}

#[test]
fn every_alert_is_tested_to_fire_to_end_and_not_to_flap() {
    let mut tests: Vec<Value> = Vec::new();
    for entry in fs::read_dir(checkout().join("deploy/prometheus/tests")).unwrap() {
        let file = format!("deploy/prometheus/tests/{}", entry.unwrap().file_name().to_str().unwrap());
        tests.extend(items(&document(&file)["tests"]).cloned());
    }
    for name in alerts().into_keys() {
        let (mut fires, mut ends, mut stays_away) = (false, false, false);
        for test in &tests {
            let mut fired = false;
            let selects = format!("ALERTS{{alertname=\"{name}\",alertstate=\"firing\"");
            for check in items(&test["promql_expr_test"]).filter(|check| text(&check["expr"]).contains(&selects)) {
                let is_silent = items(&check["exp_samples"]).next().is_none();
                let over_time = text(&check["expr"]).starts_with("count_over_time(");
                stays_away |= over_time && is_silent;
                ends |= fired && is_silent && !over_time;
                fired |= !is_silent;
            }
            fires |= fired;
        }
        assert!(fires && ends && stays_away, "{name}: fires {fires}, ends {ends}, does not flap {stays_away}");
    }
}

#[test]
fn every_service_is_scraped_on_its_admin_port() {
    use contracts::{Service, service::DEFAULT_PORT_BASE};
    let file = document("deploy/prometheus/prometheus.yml");
    let scraped: BTreeMap<&str, &Value> = items(&file["scrape_configs"])
        .map(|job| (text(&job["job_name"]), &job["static_configs"][0]["targets"]))
        .collect();
    for service in Service::WITH_CONSOLE {
        let target = format!("{service}:{}", service.admin_port(DEFAULT_PORT_BASE, 0));
        assert_eq!(scraped[service.as_str()], &serde_json::json!([target]));
    }
    assert_eq!(scraped["gateway"], &serde_json::json!(["envoy:9000"]));
}

#[test]
fn a_cluster_is_watched_by_the_same_rules_at_the_same_pace() {
    let (here, there) = (document("deploy/prometheus/prometheus.yml"), document("deploy/prometheus/kubernetes.yml"));
    assert_eq!(here["global"], there["global"]);
    assert_eq!(here["rule_files"], there["rule_files"]);
    let namespace = document("deploy/k8s/namespace.yml")["metadata"]["name"].clone();
    // What promtool looks at has these two lines replaced (`discovery` in ./dev).
    let discovery = &there["scrape_configs"][0]["kubernetes_sd_configs"];
    assert_eq!(discovery, &serde_json::json!([{"role": "pod", "namespaces": {"names": [namespace]}}]));
}

#[test]
fn the_pods_that_discovery_is_tried_on_are_those_of_the_manifests() {
    let root = fs::read_to_string(checkout().join("deploy/k8s/kustomization.yml")).unwrap();
    let pods = fs::read_to_string(checkout().join("deploy/prometheus/discovery/pods.yml")).unwrap();
    let deployment = document("deploy/k8s/base/deployment.yml");
    let ports = &deployment["spec"]["template"]["spec"]["containers"][0]["ports"];
    for port in items(ports) {
        let (name, number) = (text(&port["name"]), &port["containerPort"]);
        let is_there = pods
            .split("- targets:")
            .any(|pod| pod.contains(&format!(":{number}\"]")) && pod.contains(&format!("port_name: {name}\n")));
        assert!(is_there, "no pod has the port {name} at {number}");
    }
    for label in ["app.kubernetes.io/part-of: order-system", "app.kubernetes.io/name: "] {
        let (name, value) = label.split_once(": ").unwrap();
        let meta = format!("__meta_kubernetes_pod_label_{}: {value}", name.replace(['.', '/', '-'], "_"));
        assert!(pods.contains(&meta), "{meta}");
        assert!(root.contains(label) || value.is_empty(), "{label}");
    }
}
