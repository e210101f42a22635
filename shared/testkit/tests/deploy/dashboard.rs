//! The dashboard asks for metrics that there are, explains each picture, and lays them out without overlaps.

use std::fs;

use serde_json::Value;

use crate::{
    checkout, exported,
    yaml::{document, items, text},
};

fn dashboard() -> Value {
    serde_json::from_str(&fs::read_to_string(checkout().join("deploy/grafana/dashboards/orders.json")).unwrap())
        .unwrap()
}

#[test]
fn every_query_asks_for_metrics_that_the_services_export() {
    let dashboard = dashboard();
    let mut asked = 0;
    for panel in items(&dashboard["panels"]) {
        for target in items(&panel["targets"]) {
            asked += 1;
            assert_eq!(exported::unknown(text(&target["expr"])), [] as [&str; 0], "{}", panel["title"]);
        }
    }
    assert!(asked > 60, "only {asked} queries were found: does this test still read the dashboard?");
    for annotation in items(&dashboard["annotations"]["list"]) {
        assert_eq!(exported::unknown(text(&annotation["expr"])), [] as [&str; 0], "{}", annotation["name"]);
    }
    for variable in items(&dashboard["templating"]["list"]) {
        // label_values(METRIC, LABEL)
        let query = text(&variable["definition"]).strip_prefix("label_values(").unwrap();
        assert_eq!(exported::unknown(query.split(',').next().unwrap()), [] as [&str; 0]);
    }
}

#[test]
fn every_picture_has_a_title_an_explanation_and_the_provisioned_source() {
    let source = document("deploy/grafana/provisioning/datasources/prometheus.yml")["datasources"][0]["uid"].clone();
    for panel in items(&dashboard()["panels"]).filter(|panel| panel["type"] != "row") {
        assert!(text(&panel["title"]).len() > 1 && text(&panel["description"]).len() > 10, "{panel}");
        assert_eq!(panel["datasource"]["uid"], source, "{}", panel["title"]);
    }
}

#[test]
fn no_picture_lies_upon_another() {
    let dashboard = dashboard();
    let at = |panel: &Value, key: &str| panel["gridPos"][key].as_u64().unwrap();
    let panels: Vec<&Value> = items(&dashboard["panels"]).collect();
    for (index, one) in panels.iter().enumerate() {
        assert!(at(one, "x") + at(one, "w") <= 24, "{}", one["title"]);
        for other in &panels[index + 1..] {
            let apart = |axis: &str, size: &str| {
                at(one, axis) + at(one, size) <= at(other, axis) || at(other, axis) + at(other, size) <= at(one, axis)
            };
            assert!(apart("x", "w") || apart("y", "h"), "{} and {}", one["title"], other["title"]);
        }
    }
}
