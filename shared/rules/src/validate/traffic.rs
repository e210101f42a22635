//! Routes, services, callees, quotas, switches and composite rules.

use std::time::Duration;

use resilience::{composite::Action, rate_limit::LimiterConfig};

use super::Report;
use crate::{AdmissionLevel, Downstream, KEEP_ALIVE, Quota, ROUTES, Rules, feature, path::key};

const MOST_IN_FLIGHT: u32 = 100_000;

pub(super) fn check(rules: &Rules, report: &mut Report) {
    report.positive("gateway.timeout_ms", rules.gateway.timeout);
    report.require(rules.chain.retries <= 10, "chain.retries", "must be at most 10");
    services(rules, report);
    routes(rules, report);
    for (name, downstream) in rules.downstream.all() {
        callee(rules, name, downstream, report);
    }
    report.pattern("key_limits.user", rules.key_limits.user.validate());
    report.pattern("key_limits.poll", rules.key_limits.poll.validate());
    report.pattern("key_limits.tenant", rules.key_limits.tenant.validate());
    report.pattern("key_limits.caller", rules.key_limits.caller.validate());
    report.pattern("key_limits.webhook", rules.key_limits.webhook.validate());
    for (name, shared) in &rules.quota {
        named("quota", name, report);
        quota(&format!("quota.{}", key(name)), shared, report);
    }
    degrade(rules, report);
    composite(rules, report);
}

fn services(rules: &Rules, report: &mut Report) {
    for (name, service) in rules.service.all() {
        let cap = service.max_in_flight;
        let in_bounds = (1..=MOST_IN_FLIGHT).contains(&cap);
        let reason = format!("{cap} is not between 1 and {MOST_IN_FLIGHT}");
        report.require(in_bounds, format!("service.{name}.max_in_flight"), reason);
        let share = service.sheddable_share;
        let path = format!("service.{name}.sheddable_share");
        report.require((0.0..=1.0).contains(&share), path, format!("{share} is not between 0 and 1"));
    }
}

fn routes(rules: &Rules, report: &mut Report) {
    for (name, route) in &rules.route {
        let path = format!("route.{}", key(name));
        if !ROUTES.contains(&name.as_str()) {
            let reason = format!("no service has this route; the nearest one is `{}`", nearest(name));
            report.refuse(path, reason);
            continue;
        }
        report.positive(format!("{path}.timeout_ms"), route.timeout);
        report.require(
            route.min_useful_budget <= route.timeout,
            format!("{path}.min_useful_budget_ms"),
            format!(
                "{:?} is above timeout_ms ({:?}): every request would be refused",
                route.min_useful_budget, route.timeout
            ),
        );
        if let Some(cap) = route.max_in_flight {
            let reason = format!("{cap} is not between 1 and {MOST_IN_FLIGHT}");
            report.require((1..=MOST_IN_FLIGHT).contains(&cap), format!("{path}.max_in_flight"), reason);
        }
        let waiting = route.max_waiting;
        let reason = format!("{waiting} is more than {MOST_IN_FLIGHT}");
        report.require(waiting <= MOST_IN_FLIGHT, format!("{path}.max_waiting"), reason);
        report.pattern(&format!("{path}.limit"), route.limit.validate());
        if let Some(quota) = route.quota.as_ref().filter(|quota| !rules.quota.contains_key(*quota)) {
            report.refuse(format!("{path}.quota"), format!("there is no [quota.{}]", key(quota)));
        }
    }
}

fn callee(rules: &Rules, name: &str, downstream: &Downstream, report: &mut Report) {
    let path = format!("downstream.{name}");
    let at = |field: &str| format!("{path}.{field}");
    let (timeout, attempt) = (downstream.timeout, downstream.attempt_timeout);
    report.positive(at("timeout_ms"), timeout);
    report.positive(at("attempt_timeout_ms"), attempt);
    report.positive(at("connect_timeout_ms"), downstream.connect_timeout);
    report.positive(at("pool_idle_ms"), downstream.pool_idle);
    report.require(
        downstream.pool_idle < KEEP_ALIVE,
        at("pool_idle_ms"),
        format!("not below the callee's keep-alive ({KEEP_ALIVE:?}): calls would meet closed connections"),
    );
    report.require(
        attempt <= timeout,
        at("attempt_timeout_ms"),
        format!("{attempt:?} is above timeout_ms ({timeout:?})"),
    );

    let bulkhead = &downstream.bulkhead;
    report.pattern(&at("bulkhead"), bulkhead.validate());
    let cap = bulkhead.cap;
    report.require(
        cap <= downstream.pool,
        at("bulkhead.cap"),
        format!("{cap} is above {path}.pool ({})", downstream.pool),
    );
    let service = name.strip_suffix("_status").unwrap_or(name);
    if let Some(behind) = rules.service.get(service) {
        let reason = format!("{cap} is above service.{service}.max_in_flight ({})", behind.max_in_flight);
        report.require(cap <= behind.max_in_flight, at("bulkhead.cap"), reason);
    }
    let wait = bulkhead.wait;
    report.require(wait < timeout, at("bulkhead.wait_ms"), format!("{wait:?} is not below timeout_ms ({timeout:?})"));
    report.pattern(&at("limit"), downstream.limit.validate());
    if let LimiterConfig::LeakyBucket(paced) = downstream.limit {
        let reason = format!("{:?} is not below timeout_ms ({timeout:?})", paced.max_wait);
        report.require(paced.max_wait < timeout, at("limit.max_wait_ms"), reason);
    }

    let breaker = &downstream.breaker;
    report.pattern(&at("breaker"), breaker.validate());
    let slow = breaker.slow_threshold;
    report.require(
        slow < attempt,
        at("breaker.slow_threshold_ms"),
        format!("{slow:?} is not below attempt_timeout_ms ({attempt:?}): no call would live to be slow"),
    );
    report.require(
        breaker.probe_lease >= attempt,
        at("breaker.probe_lease_ms"),
        format!(
            "{:?} is below attempt_timeout_ms ({attempt:?}): a probe would count as lost while it runs",
            breaker.probe_lease
        ),
    );
    report.pattern(&at("retry"), downstream.retry.validate());
}

fn quota(path: &str, quota: &Quota, report: &mut Report) {
    let positive = "must be at least 1";
    let window = quota.window;
    let day = Duration::from_secs(86_400);
    let lease = quota.max_lease;
    for (holds, field, reason) in [
        (quota.limit >= 1, "limit", positive),
        (window >= Duration::from_millis(10), "window_ms", "must be at least 10"),
        (window <= day, "window_ms", "must be at most a day"),
        (lease != Some(0), "max_lease", positive),
        (lease.is_none_or(|lease| lease <= quota.limit), "max_lease", "must not exceed limit"),
        (!quota.lease_for.is_zero(), "lease_for_ms", positive),
        (quota.lease_for <= window, "lease_for_ms", "must not exceed window_ms: leases end with their window"),
        (!quota.timeout.is_zero(), "timeout_ms", positive),
        (quota.pause_after >= 1, "pause_after", positive),
        (!quota.pause.is_zero(), "pause_ms", positive),
        (quota.local_burst <= window, "local_burst_ms", "must not exceed window_ms"),
        (quota.expected_replicas >= 1, "expected_replicas", positive),
        (quota.heartbeat >= Duration::from_millis(10), "heartbeat_ms", "must be at least 10"),
        (quota.max_keys >= 1, "max_keys", positive),
    ] {
        report.require(holds, format!("{path}.{field}"), reason);
    }
}

/// Names of the operator's become metric labels, parts of headers and keys in Redis.
fn named(table: &str, name: &str, report: &mut Report) {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    let holds = (1..=64).contains(&name.len()) && name.bytes().all(plain);
    report.require(holds, format!("{table}.{}", key(name)), "a name is up to 64 of a-z, 0-9, _ and -");
}

fn degrade(rules: &Rules, report: &mut Report) {
    let degrade = &rules.degrade;
    report.require(degrade.defer_max_minor >= 0, "degrade.defer_max_minor", "must not be negative");
    let nobody = degrade.admission == AdmissionLevel::AllowList && degrade.allow_list.is_empty();
    report.require(!nobody, "degrade.allow_list", "nobody is on it, and admission lets in nobody else");
}

fn composite(rules: &Rules, report: &mut Report) {
    for (name, rule) in &rules.composite {
        let path = format!("composite.{}", key(name));
        named("composite", name, report);
        report.pattern(&path, rule.validate());
        if let Action::Degrade(wanted) = &rule.action {
            if feature(wanted).is_none() {
                report.refuse(format!("{path}.action"), format!("there is no feature `{wanted}` to degrade"));
            }
            let nobody = wanted == "admission" && rules.degrade.allow_list.is_empty();
            report.require(!nobody, format!("{path}.action"), "degrade.allow_list is empty: nobody would be let in");
        }
        // A name that nobody has would never match, and nobody would notice.
        if let Some(api) = rule.api.as_ref().filter(|api| !ROUTES.contains(&api.as_str())) {
            let reason = format!("no service has this route; the nearest one is `{}`", nearest(api));
            report.refuse(format!("{path}.api"), reason);
        }
        let is_provider = |name: &str| {
            rules.service.get(name).is_some() || rules.downstream.all().iter().any(|(known, _)| *known == name)
        };
        if let Some(provider) = rule.provider.as_ref().filter(|provider| !is_provider(provider)) {
            report.refuse(format!("{path}.provider"), format!("`{provider}` is neither a service nor a downstream"));
        }
    }
}

/// The known route that takes the fewest changed letters.
fn nearest(name: &str) -> &'static str {
    ROUTES.iter().copied().min_by_key(|route| distance(name, route)).unwrap_or_default()
}

/// Levenshtein's.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}
