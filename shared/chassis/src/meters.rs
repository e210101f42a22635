//! What the metrics of every service mean: a scrape says it with each name.
//!
//! A name ends in its unit where it has one; what has none is counted. A label's values come from a fixed set (routes are
//! templates, a method that nobody knows is `OTHER`) or from what an operator writes (rules), and tenants are folded
//! after the first hundred: no word that a client makes up becomes a time series.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram};

/// Those of this crate and of the ones below it.
pub(crate) fn describe() {
    cache::describe_metrics();
    durable::describe_metrics();
    requests();
    inbound_guards();
    outbound_guards();
    rules();
    process();
}

fn requests() {
    describe_counter!("http_requests_total", "Requests answered, by route template, method and status.");
    describe_histogram!(
        "http_request_duration_seconds",
        Unit::Seconds,
        "Seconds from a request's arrival to its answer, by route template and method."
    );
    describe_gauge!("http_inflight_requests", "Requests in flight at this moment.");
    describe_gauge!("http_inflight_limit", "Requests that may be in flight at once, by the rules in force.");
    describe_counter!(
        "http_requests_by_tenant_total",
        "Requests of authenticated users, admitted or not, by tenant; after a hundred tenants the rest are `others`."
    );
}

fn inbound_guards() {
    describe_counter!(
        "stability_rate_limited_total",
        "Requests, and calls to a downstream, refused by a limit, by the mechanism that refused."
    );
    describe_gauge!(
        "stability_limiter_permits_available",
        "What a limiter would admit at this moment: of a route, of a quota, or of calls to a downstream."
    );
    describe_gauge!("stability_limiter_keys", "Keys (users, tenants, callers) that a limiter per key remembers.");
    describe_gauge!("stability_limiter_keys_free", "Keys that a limiter per key has room for.");
    describe_gauge!(
        "stability_quota_replicas",
        "Instances that share a quota of the whole cluster, as this one sees it."
    );
    describe_gauge!("stability_quota_redis_paused", "1 while a quota is counted locally since Redis failed, else 0.");
    describe_counter!("stability_quota_round_trips_total", "Leases of a quota asked for in Redis.");
    describe_counter!("stability_quota_failures_total", "Leases of a quota that Redis did not give an answer to.");
    describe_counter!("stability_quota_admitted_leased_total", "Requests admitted from a lease of the shared quota.");
    describe_counter!(
        "stability_quota_admitted_locally_total",
        "Requests admitted from this instance's share of a quota while Redis was away."
    );
    describe_counter!("stability_composite_trips_total", "How often a composite rule began to hold, by rule.");
    describe_gauge!("stability_composite_keys_held", "Keys that a composite rule holds for at this moment, by rule.");
    describe_counter!("stability_degrade_hit_total", "Answers that were served with less than normal, by feature.");
    describe_gauge!(
        "stability_degrade_level",
        "The level that the rules set a feature to: 0 is normal, and each step down serves less."
    );
}

fn outbound_guards() {
    describe_histogram!(
        "downstream_request_duration_seconds",
        Unit::Seconds,
        "Seconds that one try at a downstream took, without the wait in its guards, by what is known of its end."
    );
    describe_histogram!(
        "downstream_guard_wait_seconds",
        Unit::Seconds,
        "Seconds that a try waited in the guards before it was sent; shorter waits than a millisecond are left out."
    );
    describe_counter!("downstream_request_timeout_total", "Tries at a downstream that our timeout ended.");
    describe_counter!(
        "downstream_request_slow_total",
        "Tries that ended by themselves, but later than the breaker's threshold for slow calls."
    );
    describe_gauge!("stability_breaker_state", "0 closed, 1 open, 2 half-open, 3 ramping, by downstream.");
    describe_counter!("stability_breaker_open_total", "How often a breaker opened.");
    describe_counter!("stability_breaker_half_open_failures_total", "How often a half-open breaker opened again.");
    describe_counter!("stability_breaker_rejected_total", "Calls that a breaker or its ramp refused.");
    describe_gauge!("stability_breaker_failure_ratio", "Failed share of the calls in a breaker's window, 0 to 1.");
    describe_gauge!("stability_breaker_slow_ratio", "Slow share of the calls in a breaker's window, 0 to 1.");
    describe_gauge!(
        "stability_breaker_recovery_seconds",
        Unit::Seconds,
        "Seconds from a breaker's last opening until it was closed again; absent before its first recovery."
    );
    describe_gauge!("stability_ramp_percent", Unit::Percent, "Of a hundred calls, how many a breaker lets through.");
    describe_gauge!("stability_bulkhead_in_flight", "Calls to a downstream that hold a permit.");
    describe_gauge!("stability_bulkhead_waiting", "Calls that wait for a permit.");
    describe_gauge!("stability_bulkhead_cap", "Permits that there are, by the rules in force.");
    describe_counter!("stability_bulkhead_rejected_total", "Calls that got no permit in time.");
    describe_counter!(
        "stability_retry_total",
        "Second tries by how they ended, and those not made by what there was too little of."
    );
    describe_gauge!("stability_retry_budget_available", "Retries that a downstream's own budget would pay for now.");
}

fn rules() {
    describe_gauge!("stability_rules_version", "The version of the rules in force; 0 are the built-in ones.");
    describe_gauge!("stability_rules_origin", "1 at where the rules in force came from, 0 at the other origins.");
    describe_gauge!(
        "stability_rules_console_answers",
        "1 while the console answers, 0 while it does not; absent where none is named."
    );
    describe_counter!("stability_rules_refused_total", "Rule sets that arrived and were not valid.");
    // At zero before the first: of a series that begins with a one, a rate would not see it.
    counter!("stability_rules_refused_total").increment(0);
    describe_counter!("stability_alerts_posted_total", "Alerts that the webhook took.");
    describe_counter!("stability_alerts_dropped_total", "Alerts that nobody was told of, by reason.");
}

fn process() {
    describe_gauge!("process_resident_memory_bytes", Unit::Bytes, "Memory of this process that is resident, in bytes.");
    describe_counter!("traces_spans_sent_total", "Spans that the collector of traces took.");
    describe_counter!(
        "traces_spans_dropped_total",
        "Spans that were dropped, by reason; nobody waits for a collector."
    );
    describe_gauge!("process_tasks", "Tasks alive on the main runtime; a number that only grows is a leak.");
}
