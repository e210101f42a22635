//! What dashboards and alerts rely on, as a scrape of each running service finds it.

use std::{collections::BTreeSet, fs};

use contracts::Service;
use serde_json::json;
use testkit::{Scrape, eventually};

use super::{
    shop::{fresh_key, order_of},
    system::{System, checkout, turn, user},
};

type Promised = &'static [(&'static str, &'static [&'static str])];

const EVERYWHERE: Promised = &[
    ("http_requests_total", &["service", "route", "method", "status"]),
    ("http_request_duration_seconds_bucket", &["service", "route", "method", "le"]),
    ("http_inflight_requests", &[]),
    ("http_inflight_limit", &[]),
    ("stability_rate_limited_total", &["mechanism"]),
    ("stability_limiter_permits_available", &["mechanism", "route"]),
    ("stability_rules_version", &[]),
    ("stability_rules_origin", &["origin"]),
    ("kafka_consumer_lag", &["group", "topic"]),
    ("consumer_failures_total", &["group", "topic", "kind"]),
    ("dead_letters_total", &["group", "topic", "reason"]),
    ("db_pool_connections", &["state"]),
    ("db_pool_connections_max", &[]),
    ("process_resident_memory_bytes", &[]),
    ("process_tasks", &[]),
];

/// Of those who call somebody.
const CALLERS: Promised = &[
    ("downstream_request_duration_seconds_bucket", &["downstream", "outcome", "le"]),
    ("downstream_guard_wait_seconds_bucket", &["downstream", "le"]),
    ("downstream_request_timeout_total", &["downstream"]),
    ("stability_breaker_state", &["downstream"]),
    ("stability_breaker_open_total", &["downstream"]),
    ("stability_breaker_half_open_failures_total", &["downstream"]),
    ("stability_breaker_failure_ratio", &["downstream"]),
    ("stability_bulkhead_in_flight", &["downstream"]),
    ("stability_bulkhead_waiting", &["downstream"]),
    ("stability_bulkhead_rejected_total", &["downstream"]),
    ("stability_limiter_permits_available", &["downstream"]),
    ("stability_retry_total", &["downstream", "outcome"]),
];

/// Of those who tell others.
const OUTBOX: Promised = &[("outbox_backlog", &[]), ("outbox_oldest_age_seconds", &[])];

const OWN: [(Service, Promised); 5] = [
    (
        Service::Order,
        &[
            ("http_requests_by_tenant_total", &["tenant"]),
            ("orders_total", &["status", "reason"]),
            ("payment_pending", &[]),
            ("payment_pending_oldest_age_seconds", &[]),
            ("compensation_backlog", &["state"]),
            ("stability_degrade_hit_total", &["feature"]),
            ("stability_degrade_level", &["feature"]),
        ],
    ),
    (
        Service::Payment,
        &[
            ("payment_pending", &[]),
            ("payment_pending_oldest_age_seconds", &[]),
            ("payment_attempts_total", &["outcome"]),
            ("stability_degrade_hit_total", &["feature"]),
        ],
    ),
    (Service::Inventory, &[("inventory_oldest_hold_age_seconds", &[])]),
    (Service::Coupon, &[("compensation_backlog", &["state"])]),
    (
        Service::Recommendation,
        &[
            ("recommendations_total", &["source"]),
            ("stability_degrade_hit_total", &["feature"]),
            ("cache_events_total", &["cache", "event"]),
        ],
    ),
];

fn promised(service: Service) -> impl Iterator<Item = &'static (&'static str, &'static [&'static str])> {
    let calls: Promised = if matches!(service, Service::Order | Service::Payment) { CALLERS } else { &[] };
    let tells: Promised =
        if matches!(service, Service::Order | Service::Payment | Service::Coupon) { OUTBOX } else { &[] };
    let own = OWN.iter().find_map(|(of, own)| (*of == service).then_some(*own)).unwrap();
    EVERYWHERE.iter().chain(calls).chain(tells).chain(own)
}

async fn scrape(system: &System, service: Service) -> Scrape {
    let url = format!("http://127.0.0.1:{}/metrics", service.admin_port(system.base, 0));
    Scrape::of(reqwest::get(url).await.unwrap().text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_service_exports_what_is_promised_with_a_help_text_and_without_ids() {
    let system = turn().await;
    let (tenant, token) = user(&["--tenant", "tea-house"]);
    let mut order = order_of("TEA-EARLGREY-100", 1, "tok_approve");
    order["coupon_code"] = json!("WELCOME10");
    // To both replicas of order and so of payment, of which the first are looked at.
    for turn in 0..2 {
        let told = system.shop.of(tenant, token.clone()).place_let_in(turn, &fresh_key(), &order).await;
        assert_eq!(told.status, 201, "{told:?}");
    }
    // An order does not wait for suggestions, a page does.
    system.shop.get("/v1/products/TEA-EARLGREY-100").await;
    for service in Service::ALL {
        // Consumers tell of their lag every five seconds.
        let seen = eventually("a lag is told", async || {
            let seen = scrape(&system, service).await;
            seen.value("kafka_consumer_lag", "").is_some().then_some(seen)
        })
        .await;
        seen.assert_sound();
        promised(service).for_each(|(name, labels)| seen.assert_has(name, labels));
    }
    let shown = exported(&system).await;
    let is_missing = |name: &String| !shown.contains(name) && !APPEAR_LATER.contains(&name.as_str());
    let missing: Vec<String> = asked_for().into_iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "dashboard or alerts ask for what nobody shows: {missing:?}");
}

/// What there is only once something has happened that need not happen here.
const APPEAR_LATER: [&str; 3] =
    ["consumer_missed_messages_total", "orders_told_again_total", "stability_breaker_recovery_seconds"];

/// The metrics of the documentation, and those of the gateway, of which dashboard or alerts speak. That they speak of no others,
/// a test of the files alone has looked at.
fn asked_for() -> BTreeSet<String> {
    let read = |file: &str| fs::read_to_string(checkout().join(file)).unwrap();
    let words = |text: &str| -> BTreeSet<String> {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').map(str::to_owned).collect()
    };
    let page = read("docs/observability.md");
    let documented: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name).collect();
    let asking = words(&(read("deploy/grafana/dashboards/orders.json") + &read("deploy/prometheus/alerts.yml")));
    let name = |word: &str| {
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|part| word.strip_suffix(part));
        [Some(word), of_histogram]
            .into_iter()
            .flatten()
            .find(|name| name.contains('_') && documented.contains(name))
            .map(str::to_owned)
    };
    let of_services: BTreeSet<String> = asking.iter().filter_map(|word| name(word)).collect();
    assert!(of_services.len() > 50, "{of_services:?}");
    let kept = words(&read("deploy/prometheus/prometheus.yml"));
    let of_gateway = kept.into_iter().filter(|word| word.starts_with("envoy_") && asking.contains(word));
    of_services.into_iter().chain(of_gateway).collect()
}

/// The names of what all services show together, and the gateway, where there is one.
async fn exported(system: &System) -> BTreeSet<String> {
    let mut admin: Vec<u16> = Service::ALL.iter().map(|service| service.admin_port(system.base, 0)).collect();
    if system.gateway().is_some() {
        let address = system.process("gateway", 0)["admin"].as_str().unwrap().to_owned();
        admin.push(address.rsplit(':').next().unwrap().parse().unwrap());
    }
    let mut names = BTreeSet::new();
    for port in admin {
        let text = reqwest::get(format!("http://127.0.0.1:{port}/metrics")).await.unwrap().text().await.unwrap();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        names.extend(types.map(|(name, _)| name.to_owned()));
    }
    names
}
