//! The names that dashboards and alerts rely on, as a scrape finds them after traffic.

use std::{num::NonZeroU32, time::Duration};

use chassis::{Degradable, Lifecycle, RequestContext};
use contracts::UserId;
use resilience::{BreakerConfig, BulkheadConfig, RampConfig, breaker::Window, rate_limit::Quota, retry::RetryConfig};
use rules::{Degrade, Rules};
use testkit::{Reply, Scrape, Stub, eventually, tenant_token};

use super::{outbound::MS, relay::Relay, shop::stranger};

/// Names with their labels. Those of orders, payments, the stores and messaging are tested where they are made.
const PROMISED: &[(&str, &[&str])] = &[
    ("http_requests_total", &["service", "route", "method", "status"]),
    ("http_request_duration_seconds_bucket", &["service", "route", "method", "le"]),
    ("http_inflight_requests", &[]),
    ("http_inflight_limit", &[]),
    ("http_requests_by_tenant_total", &["tenant"]),
    ("stability_rate_limited_total", &["mechanism"]),
    ("stability_limiter_permits_available", &["mechanism", "route"]),
    ("stability_limiter_permits_available", &["downstream"]),
    ("stability_limiter_keys", &["mechanism"]),
    ("stability_breaker_state", &["downstream"]),
    ("stability_breaker_open_total", &["downstream"]),
    ("stability_breaker_half_open_failures_total", &["downstream"]),
    ("stability_breaker_rejected_total", &["downstream"]),
    ("stability_breaker_failure_ratio", &["downstream"]),
    ("stability_breaker_slow_ratio", &["downstream"]),
    ("stability_breaker_recovery_seconds", &["downstream"]),
    ("stability_ramp_percent", &["downstream"]),
    ("stability_bulkhead_in_flight", &["downstream"]),
    ("stability_bulkhead_waiting", &["downstream"]),
    ("stability_bulkhead_cap", &["downstream"]),
    ("stability_bulkhead_rejected_total", &["downstream"]),
    ("stability_degrade_hit_total", &["feature"]),
    ("stability_degrade_level", &["feature"]),
    ("stability_retry_total", &["downstream", "outcome"]),
    ("stability_retry_budget_available", &["downstream"]),
    ("stability_rules_version", &[]),
    ("stability_rules_origin", &["origin"]),
    ("downstream_guard_wait_seconds_bucket", &["downstream", "le"]),
    ("downstream_request_duration_seconds_bucket", &["downstream", "outcome", "le"]),
    ("downstream_request_timeout_total", &["downstream"]),
    ("downstream_request_slow_total", &["downstream"]),
    ("process_resident_memory_bytes", &[]),
    ("process_tasks", &[]),
];

fn rules() -> Rules {
    let mut rules = Rules { version: 31, ..Rules::default() };
    rules.key_limits.user.default = Quota::new(0.001, 40);
    rules.downstream.recommendation = rules::Downstream {
        timeout: 2_000 * MS,
        attempt_timeout: 1_000 * MS,
        bulkhead: BulkheadConfig { cap: 1, wait: Duration::ZERO, max_waiting: 0 },
        breaker: BreakerConfig {
            window: Window::Calls(10),
            minimum_calls: 4,
            slow_threshold: 300 * MS,
            open: 20 * MS,
            open_factor: 1.0,
            probes: 1,
            ramp: RampConfig { steps: Vec::new(), ..RampConfig::default() },
            ..BreakerConfig::default()
        },
        retry: RetryConfig { max_retries: 1, base: MS, max: MS, ..RetryConfig::default() },
        ..rules::Downstream::default()
    };
    rules
}

#[tokio::test(flavor = "multi_thread")]
async fn every_name_that_is_promised_is_there_after_traffic() {
    let stub = Stub::start(|_| Reply::Raw(500, String::new())).await;
    let relay = Relay::start(rules(), &stub.url()).await;
    let ask = async || relay.products(&stranger()).send().await.unwrap();
    let breaker = async |state: &str| (serde_json::json!(relay.callee.snapshot().breaker.state) == state).then_some(());

    // A hot user, a tenant, a callee that fails until its breaker opens, probes that fail, and then one that is slow.
    let hot = tenant_token(UserId::generate(), "watched-house");
    for _ in 0..41 {
        relay.products(&hot).send().await.unwrap();
    }
    eventually("the breaker is open", async || {
        ask().await;
        breaker("open").await
    })
    .await;
    let fine = || Reply::Json(200, serde_json::json!(1));
    stub.behave(move |_| fine());
    eventually("the breaker is closed", async || {
        ask().await;
        breaker("closed").await
    })
    .await;
    stub.behave(move |_| Reply::Late(400 * MS, Box::new(fine())));
    ask().await;
    let lifecycle = Lifecycle::new(tokio::runtime::Handle::current());
    let coupon = Degradable::live(Degrade::COUPON, &relay.rules, &lifecycle);
    let context = RequestContext::for_job("test", None, Duration::from_secs(1));
    assert_eq!((coupon.level(&context), coupon.serve((), "pending").degraded), ("on", Some("coupon")));

    let scrape = eventually("gauges are renewed", async || {
        let scrape = Scrape::of(relay.metrics().await);
        scrape.value("stability_breaker_recovery_seconds", "\"recommendation\"").is_some().then_some(scrape)
    })
    .await;
    scrape.assert_sound();
    PROMISED.iter().for_each(|(name, labels)| scrape.assert_has(name, labels));
    let counted = |name, label| scrape.value(name, label).unwrap_or_default();
    assert_eq!(counted("http_requests_by_tenant_total", "tenant=\"watched-house\""), 41.0);
    assert!(counted("stability_breaker_open_total", "\"recommendation\"") >= 1.0);
    assert!(counted("downstream_request_slow_total", "\"recommendation\"") >= 1.0);
    assert!(counted("process_resident_memory_bytes", "") > 1e6 && counted("process_tasks", "") >= 1.0);
    lifecycle.stop_background().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_shows_every_guard_before_it_was_ever_used() {
    let stub = Stub::start(|_| Reply::Json(200, serde_json::json!(1))).await;
    let mut rules = rules();
    rules.route.entry("GET /v1/orders".into()).or_default().max_in_flight = Some(NonZeroU32::MIN.get());
    let relay = Relay::start(rules, &stub.url()).await;
    let url = relay.app.admin_url("/internal/state");
    let state = relay.app.client.get(url).send().await.unwrap().json::<serde_json::Value>().await.unwrap();
    assert_eq!(state["rules"], serde_json::json!({"version": 31, "origin": "default"}));
    let guards = &state["guards"];
    let routes = guards["routes"].as_object().unwrap();
    let of_order: Vec<_> = rules::ROUTES.iter().filter(|route| rules::service_of(route) == Some("order")).collect();
    assert_eq!(routes.len(), of_order.len(), "its own routes and no sibling's: {routes:?}");
    for route in of_order {
        assert!(routes[*route]["remaining"].is_u64() && routes[*route]["kind"].is_string(), "{route}");
    }
    assert_eq!(routes["GET /v1/orders"]["in_flight"], serde_json::json!({"taken": 0, "limit": 1}));
    for keys in ["user", "poll", "tenant", "caller", "webhook"] {
        assert_eq!(guards["keys"][keys]["keys"], 0, "{keys}");
    }
    assert_eq!((&guards["quotas"]["orders"]["count"], &guards["in_flight"]["taken"]), (&"part".into(), &0.into()));
    for feature in ["recommendation", "coupon", "payment", "availability", "admission"] {
        assert!(guards["degrade"][feature].is_string(), "{feature}");
    }
    assert_eq!(guards["composite"], serde_json::json!([]));

    let callee = serde_json::json!(relay.callee.snapshot());
    for (guard, member) in [
        ("breaker", "state"),
        ("breaker", "failure_ratio"),
        ("breaker", "slow_ratio"),
        ("breaker", "ramp"),
        ("bulkhead", "in_flight"),
        ("bulkhead", "cap"),
        ("bulkhead", "waiting"),
        ("limit", "remaining"),
        ("retry_budget", "available"),
    ] {
        assert!(callee[guard].get(member).is_some(), "{guard}.{member} is missing in {callee}");
    }
}
