//! What stands in a service's box.

use super::{
    InForce, Instance, InstanceState, Pool,
    look::{Condition, View, rounded, whole},
};

/// What guards refuse with a server error. What else they refuse is the client's affair, by its status.
const SERVER_ERRORS: [&str; 2] = ["in_flight", "deadline"];

pub fn instance(view: View<'_>) -> Instance {
    let (state, reason) = match view.later.map(|look| &look.condition) {
        None => (InstanceState::Unreachable, Some("not asked yet".to_owned())),
        Some(Condition::Up) => (InstanceState::Up, None),
        Some(Condition::NotReady(reason)) => (InstanceState::NotReady, Some(reason.clone())),
        Some(Condition::Unreachable(reason)) => (InstanceState::Unreachable, Some((*reason).to_owned())),
    };
    let said = |pointer: &str| view.now().and_then(|look| look.state.pointer(pointer));
    let rules = said("/rules/version").and_then(serde_json::Value::as_i64);
    let origin = said("/rules/origin").and_then(serde_json::Value::as_str);
    let quantile = |q| view.quantile_ms("http_request_duration_seconds_bucket", q, |_| true);
    // Of calls to others there is a label that says which.
    let inbound = |mechanisms: Option<&[&str]>| {
        view.rate("stability_rate_limited_total", |labels| {
            let is_meant = |mechanism| mechanisms.is_none_or(|meant| meant.contains(&mechanism));
            labels.get("downstream").is_none() && labels.get("mechanism").is_some_and(is_meant)
        })
    };
    let errors =
        view.rate("http_requests_total", |labels| labels.get("status").is_some_and(|status| status.starts_with('5')));
    let used = view.gauge("db_pool_connections", |labels| labels.is("state", "in_use"));
    let most = view.gauge("db_pool_connections_max", |_| true);
    Instance {
        service: view.service.to_owned(),
        instance: view.instance.to_owned(),
        state,
        reason,
        build: said("/build").and_then(serde_json::Value::as_str).map(str::to_owned),
        rules: rules.zip(origin).map(|(version, origin)| InForce { version, origin: origin.to_owned() }),
        in_flight: view.count("http_inflight_requests", |_| true).unwrap_or_default(),
        in_flight_cap: view.count("http_inflight_limit", |_| true),
        rate: view.rate("http_requests_total", |_| true),
        refused_rate: inbound(None),
        error_rate: rounded((errors - inbound(Some(&SERVER_ERRORS))).max(0.0)),
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99),
        db: used.zip(most).map(|(used, most)| Pool { used: whole(used), max: whole(most) }),
        memory_bytes: view.count("process_resident_memory_bytes", |_| true),
    }
}
