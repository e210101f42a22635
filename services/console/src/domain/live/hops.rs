//! The arrows of the map: who calls whom, and what the guards of the call say.

use super::{
    Hop,
    look::{View, rounded, whole},
};

/// A call between services: who calls, what its metrics call the callee, what we call it, and whether no order is placed
/// without it.
const CALLS: [(&str, &str, &str, bool); 6] = [
    ("order", "inventory", "inventory", true),
    ("order", "coupon", "coupon", false),
    ("order", "recommendation", "recommendation", false),
    ("order", "payment", "payment", true),
    ("payment", "provider", "provider", true),
    ("payment", "provider_backup", "provider-backup", false),
];

/// `faults` are those in force, by link and name.
pub fn hops(views: &[View<'_>], faults: &[(String, String)]) -> Vec<Hop> {
    let mut hops = Vec::new();
    for view in views {
        let several = views.iter().filter(|other| other.service == view.service).count() > 1;
        let named = |to: &str, core: bool, link: &str| Hop {
            from: view.service.to_owned(),
            to: to.to_owned(),
            instance: several.then(|| view.instance.to_owned()),
            core,
            faults: faults.iter().filter(|(on, _)| on == link).map(|(_, name)| name.clone()).collect(),
            ..unknown()
        };
        for (_, callee, to, core) in CALLS.iter().filter(|(from, ..)| *from == view.service) {
            hops.push(call(*view, callee, named(to, *core, &format!("{}->{to}", view.service))));
        }
        hops.extend(postgres(*view, named("postgres", true, "->postgres")));
        hops.extend(redis(*view, named("redis", false, "->redis")));
        hops.extend(kafka(*view, named("kafka", false, "->kafka")));
    }
    hops
}

fn unknown() -> Hop {
    Hop {
        from: String::new(),
        to: String::new(),
        instance: None,
        core: false,
        rate: None,
        p99_ms: None,
        in_flight: None,
        cap: None,
        waiting: None,
        breaker: None,
        ramp_percent: None,
        failure_ratio: None,
        opened_total: 0,
        retry_rate: 0.0,
        rejected_rate: 0.0,
        faults: Vec::new(),
    }
}

fn call(view: View<'_>, callee: &str, hop: Hop) -> Hop {
    let of = |name: &str| view.gauge(name, |labels| labels.is("downstream", callee));
    let rate = |name: &str| view.rate(name, |labels| labels.is("downstream", callee));
    let breaker = of("stability_breaker_state").map(whole);
    let is_retry = |outcome: Option<&str>| matches!(outcome, Some("succeeded" | "failed"));
    Hop {
        rate: view.has_rates().then(|| rate("downstream_request_duration_seconds_count")),
        p99_ms: view
            .quantile_ms("downstream_request_duration_seconds_bucket", 0.99, |labels| labels.is("downstream", callee)),
        in_flight: of("stability_bulkhead_in_flight").map(whole),
        cap: of("stability_bulkhead_cap").map(whole),
        waiting: of("stability_bulkhead_waiting").map(whole),
        breaker: breaker.map(|state| named(state).to_owned()),
        ramp_percent: of("stability_ramp_percent").filter(|_| breaker == Some(RAMPING)).map(whole),
        failure_ratio: of("stability_breaker_failure_ratio").map(rounded),
        opened_total: of("stability_breaker_open_total").map(whole).unwrap_or_default(),
        retry_rate: view
            .rate("stability_retry_total", |labels| labels.is("downstream", callee) && is_retry(labels.get("outcome"))),
        rejected_rate: rounded(
            rate("stability_breaker_rejected_total")
                + rate("stability_bulkhead_rejected_total")
                + rate("stability_rate_limited_total"),
        ),
        ..hop
    }
}

const RAMPING: u64 = 3;

const fn named(state: u64) -> &'static str {
    match state {
        0 => "closed",
        1 => "open",
        2 => "half_open",
        _ => "ramping",
    }
}

/// Of a pool it is known how much of it is in use.
fn postgres(view: View<'_>, hop: Hop) -> Option<Hop> {
    let most = view.count("db_pool_connections_max", |_| true)?;
    let used = view.count("db_pool_connections", |labels| labels.is("state", "in_use"));
    Some(Hop { in_flight: used, cap: Some(most), ..hop })
}

/// Who counts quotas or keeps a cache there; whether it is left alone since it failed is all that is told of it.
fn redis(view: View<'_>, hop: Hop) -> Option<Hop> {
    let paused = view.gauge("stability_quota_redis_paused", |_| true);
    let caches = view.gauge("cache_events_total", |_| true);
    paused.or(caches)?;
    let breaker = paused.map(|paused| named(u64::from(paused > 0.0)).to_owned());
    let rate = view.has_rates().then(|| view.rate("stability_quota_round_trips_total", |_| true));
    Some(Hop { rate, breaker, ..hop })
}

/// Who tells events: those that still wait to be told.
fn kafka(view: View<'_>, hop: Hop) -> Option<Hop> {
    let waiting = view.count("outbox_backlog", |_| true)?;
    Some(Hop { waiting: Some(waiting), ..hop })
}
