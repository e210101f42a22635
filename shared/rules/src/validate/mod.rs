//! What one value must be given another: the document is judged as a whole, and everything that is wrong is told.

mod hierarchy;
mod traffic;

use std::{fmt, time::Duration};

use crate::{Invalid, Rules};

/// Everything that is wrong with `rules`, not just the first.
pub fn violations(rules: &Rules) -> Vec<Invalid> {
    let mut report = Report::default();
    storage(rules, &mut report);
    compensate(rules, &mut report);
    reconcile(rules, &mut report);
    traffic::check(rules, &mut report);
    hierarchy::check(rules, &mut report);
    report.0
}

#[derive(Default)]
struct Report(Vec<Invalid>);

impl Report {
    fn refuse(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        self.0.push(Invalid { path: path.into(), reason: reason.into(), line: None });
    }

    /// Refuses with a reason unless `holds`.
    fn require(&mut self, holds: bool, path: impl Into<String>, reason: impl Into<String>) {
        if !holds {
            self.refuse(path, reason);
        }
    }

    fn positive(&mut self, path: impl Into<String>, value: Duration) {
        self.require(!value.is_zero(), path, "must be greater than 0");
    }

    /// What a pattern says about its own configuration, below `path`. Their errors all read `field: reason`.
    fn pattern<E: fmt::Display>(&mut self, path: &str, checked: Result<(), E>) {
        if let Err(error) = checked {
            let text = error.to_string();
            match text.split_once(": ") {
                Some((field, reason)) => self.refuse(format!("{path}.{field}"), reason),
                None => self.refuse(path, text),
            }
        }
    }
}

fn storage(rules: &Rules, report: &mut Report) {
    let (messaging, database, cache) = (&rules.messaging, &rules.database, &rules.cache);
    for (path, value) in [
        ("idempotency.lease_ms", rules.idempotency.lease),
        ("idempotency.retention_ms", rules.idempotency.retention),
        ("recover.interval_ms", rules.recover.interval),
        ("recover.pending_max_age_ms", rules.recover.pending_max_age),
        ("recover.ask_again_ms", rules.recover.ask_again),
        ("recover.ack_after_ms", rules.recover.ack_after),
        ("messaging.relay_poll_ms", messaging.relay_poll),
        ("messaging.relay_lease_ms", messaging.relay_lease),
        ("messaging.outbox_retention_ms", messaging.outbox_retention),
        ("database.acquire_timeout_ms", database.acquire_timeout),
        ("database.lock_timeout_ms", database.lock_timeout),
        ("database.statement_timeout_ms", database.statement_timeout),
        ("cache.patience_ms", cache.patience),
        ("cache.fresh_ms", cache.fresh),
    ] {
        report.positive(path, value);
    }
    let recover = &rules.recover;
    report.require(
        recover.ack_retry_max >= recover.ack_after,
        "recover.ack_retry_max_ms",
        format!("is below recover.ack_after_ms ({:?}), the first pause", recover.ack_after),
    );
    let (outbox, inbox) = (messaging.outbox_retention, messaging.inbox_retention);
    report.require(
        inbox >= outbox,
        "messaging.inbox_retention_ms",
        format!("{inbox:?} is below messaging.outbox_retention_ms ({outbox:?}): an event could be applied twice"),
    );
    report.require(
        messaging.relay_lease > messaging.relay_poll,
        "messaging.relay_lease_ms",
        format!(
            "not above messaging.relay_poll_ms ({:?}): the relay would lose its lease while it waits",
            messaging.relay_poll
        ),
    );
    report.require(
        messaging.max_in_flight_per_partition <= messaging.max_in_flight,
        "messaging.max_in_flight_per_partition",
        format!("above messaging.max_in_flight ({})", messaging.max_in_flight),
    );
    report.require(rules.version >= 0, "version", "must not be negative");
}

/// No event holds up its partition for longer, so a longer delay would come out shorter.
const MAX_DELAY: Duration = Duration::from_secs(60 * 60);

fn compensate(rules: &Rules, report: &mut Report) {
    delays("compensate", &rules.compensate.delays, report);
}

fn delays(section: &str, delays: &[Duration], report: &mut Report) {
    for (tier, delay) in delays.iter().enumerate() {
        let path = format!("{section}.delays_ms[{tier}]");
        report.positive(path.clone(), *delay);
        report.require(*delay <= MAX_DELAY, path, format!("above {MAX_DELAY:?}, the longest that a message waits"));
    }
}

fn reconcile(rules: &Rules, report: &mut Report) {
    let rule = &rules.reconcile;
    delays("reconcile", &rule.delays, report);
    for (path, value) in [
        ("reconcile.withheld_ms", rule.withheld),
        ("reconcile.lost_after_ms", rule.lost_after),
        ("reconcile.sweep_interval_ms", rule.sweep_interval),
        ("reconcile.ledger_interval_ms", rule.ledger_interval),
        ("reconcile.drain_interval_ms", rule.drain_interval),
    ] {
        report.positive(path, value);
    }
    // Else a charge that still runs would be taken for one that nobody makes.
    let charge = rules.charge_route().timeout.saturating_add(rules.network.reserve);
    report.require(
        rule.lease > charge,
        "reconcile.lease_ms",
        format!("{:?} does not outlast a charge ({charge:?} with its reserve)", rule.lease),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths and reasons that a document is refused for.
    fn refused(text: &str) -> Vec<(String, String)> {
        let error = Rules::from_toml(text).expect_err(text);
        error.violations.into_iter().map(|violation| (violation.path, violation.reason)).collect()
    }

    fn only(text: &str) -> (String, String) {
        let mut all = refused(text);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(violations(&Rules::default()), []);
    }

    #[test]
    fn a_partition_may_not_have_more_in_flight_than_its_consumer() {
        let (path, reason) = only("[messaging]\nmax_in_flight = 2");
        assert_eq!(
            (path.as_str(), reason.as_str()),
            ("messaging.max_in_flight_per_partition", "above messaging.max_in_flight (2)")
        );
        assert!(Rules::from_toml("[messaging]\nmax_in_flight = 4").is_ok());
    }

    #[test]
    fn delays_of_a_queue_are_bounded_and_as_many_as_it_has_retry_tiers() {
        let (path, reason) = only("[compensate]\ndelays_ms = [1, 2, 3_600_001, 4]");
        assert_eq!(path, "compensate.delays_ms[2]");
        assert!(reason.contains("the longest"), "{reason}");
        assert_eq!(only("[compensate]\ndelays_ms = [1, 0, 3, 4]").0, "compensate.delays_ms[1]");
        assert!(Rules::from_toml("[compensate]\ndelays_ms = [1, 2, 3]").is_err());
        let rules = Rules::from_toml("[compensate]\ndelays_ms = [50, 50, 3600000, 1]").unwrap();
        assert_eq!(rules.compensate.delays[2], Duration::from_secs(3_600));
    }

    #[test]
    fn a_charge_under_way_is_not_taken_for_one_that_nobody_makes() {
        let (path, reason) = only("[reconcile]\nlease_ms = 2020");
        assert_eq!(path, "reconcile.lease_ms");
        assert!(reason.contains("does not outlast"), "{reason}");
        assert!(Rules::from_toml("[reconcile]\nlease_ms = 2021").is_ok());
        assert_eq!(only("[reconcile]\nledger_interval_ms = 0").0, "reconcile.ledger_interval_ms");
        assert_eq!(only("[reconcile]\ndelays_ms = [1, 2, 3, 3_600_001]").0, "reconcile.delays_ms[3]");
    }

    #[test]
    fn an_inverted_timeout_hierarchy_is_refused_with_path_and_reason() {
        // gateway > order > payment > provider, each with its reserve.
        for (text, path, reason) in [
            ("[gateway]\ntimeout_ms = 3010", "route.\"POST /v1/orders\".timeout_ms", "gateway.timeout_ms"),
            (
                "[downstream.payment]\ntimeout_ms = 2990",
                "downstream.payment.timeout_ms",
                "route.\"POST /v1/orders\".timeout_ms",
            ),
            (
                "[downstream.provider]\ntimeout_ms = 2000",
                "downstream.provider.timeout_ms",
                "downstream.payment.timeout_ms",
            ),
            (
                "[route.\"PUT /v1/payments/{attempt_id}\"]\ntimeout_ms = 1510",
                "downstream.provider.timeout_ms",
                "route.\"PUT /v1/payments/{attempt_id}\".timeout_ms",
            ),
        ] {
            let found = refused(text);
            assert!(found.iter().any(|(p, r)| p == path && r.contains(reason)), "{text}: {found:?}");
        }
        // The reserve is part of it: 1 980 + 20 = 2 000 is the most.
        assert!(Rules::from_toml("[downstream.provider]\ntimeout_ms = 1980").is_ok());
        assert!(Rules::from_toml("[downstream.provider]\ntimeout_ms = 1981").is_err());
    }

    #[test]
    fn calls_one_after_the_other_have_to_fit_into_the_route() {
        let (path, reason) = only("[downstream.inventory]\ntimeout_ms = 900");
        assert_eq!(path, "downstream.payment.timeout_ms");
        assert!(reason.contains("inventory") && reason.contains("POST /v1/orders"), "{reason}");
        let (path, reason) = only("[downstream.provider_backup]\ntimeout_ms = 1800");
        assert_eq!(path, "downstream.provider_backup.timeout_ms");
        assert!(reason.contains("provider.connect_timeout_ms"), "{reason}");
    }

    #[test]
    fn a_bulkhead_above_its_pool_is_refused() {
        let (path, reason) = only("[downstream.payment]\npool = 30");
        assert_eq!(path, "downstream.payment.bulkhead.cap");
        assert!(reason.contains("downstream.payment.pool"), "{reason}");
        let (path, reason) = only("[service.payment]\nmax_in_flight = 39");
        assert_eq!(path, "downstream.payment.bulkhead.cap");
        assert!(reason.contains("service.payment.max_in_flight"), "{reason}");
    }

    #[test]
    fn a_connection_that_outlives_the_callees_patience_is_refused() {
        let (path, reason) = only("[downstream.coupon]\npool_idle_ms = 75000");
        assert_eq!(path, "downstream.coupon.pool_idle_ms");
        assert!(reason.contains("75s"), "{reason}");
        assert!(Rules::from_toml("[downstream.coupon]\npool_idle_ms = 74000").is_ok());
    }

    #[test]
    fn a_window_smaller_than_its_minimum_calls_is_refused() {
        let (path, _) = only("[downstream.coupon.breaker]\nwindow = { calls = 10 }");
        assert_eq!(path, "downstream.coupon.breaker.minimum_calls");
    }

    #[test]
    fn ratios_outside_zero_and_one_are_refused() {
        for (text, expected) in [
            ("[downstream.payment.breaker]\nfailure_ratio = 1.2", "downstream.payment.breaker.failure_ratio"),
            ("[downstream.payment.breaker]\nslow_ratio = -0.1", "downstream.payment.breaker.slow_ratio"),
            ("[downstream.payment.retry]\nbudget_ratio = 2", "downstream.payment.retry.budget_ratio"),
            ("[service.order]\nsheddable_share = 1.1", "service.order.sheddable_share"),
        ] {
            assert_eq!(only(text).0, expected);
        }
    }

    #[test]
    fn a_slow_threshold_at_or_above_the_attempt_timeout_is_refused() {
        let (path, reason) = only("[downstream.inventory.breaker]\nslow_threshold_ms = 150");
        assert_eq!(path, "downstream.inventory.breaker.slow_threshold_ms");
        assert!(reason.contains("attempt_timeout_ms"), "{reason}");
    }

    #[test]
    fn a_try_longer_than_its_call_is_refused() {
        assert_eq!(only("[downstream.coupon]\nattempt_timeout_ms = 151").0, "downstream.coupon.attempt_timeout_ms");
    }

    #[test]
    fn a_route_that_no_service_has_is_refused_with_the_nearest_one() {
        let (path, reason) = only("[route.\"POST /v1/order\"]\ntimeout_ms = 900");
        assert_eq!(path, "route.\"POST /v1/order\"");
        assert!(reason.contains("`POST /v1/orders`"), "{reason}");
    }

    #[test]
    fn a_quota_that_is_not_defined_is_refused() {
        let (path, reason) = only("[route.\"GET /v1/products\"]\nquota = \"pages\"");
        assert_eq!(path, "route.\"GET /v1/products\".quota");
        assert!(reason.contains("pages"), "{reason}");
    }

    #[test]
    fn a_name_that_would_break_a_header_or_a_label_is_refused() {
        assert_eq!(only("[quota.\"all orders\"]\nlimit = 9").0, "quota.\"all orders\"");
        assert!(Rules::from_toml("[quota.all-orders_2]\nlimit = 9").is_ok());
    }

    #[test]
    fn limits_that_would_admit_nothing_are_refused() {
        assert_eq!(only("[key_limits.user.default]\nburst = 0").0, "key_limits.user.default.burst");
        assert_eq!(
            only("[route.\"POST /v1/orders\".limit]\nper_second = 0").0,
            "route.\"POST /v1/orders\".limit.per_second"
        );
        assert_eq!(only("[quota.orders]\nlimit = 0").0, "quota.orders.limit");
        assert_eq!(only("[service.order]\nmax_in_flight = 0").0, "service.order.max_in_flight");
    }

    #[test]
    fn an_allow_list_with_nobody_on_it_is_refused() {
        assert_eq!(only("[degrade]\nadmission = \"allow_list\"").0, "degrade.allow_list");
        let one = "[degrade]\nadmission = \"allow_list\"\nallow_list = [\"0190a2b4-0000-7000-8000-000000000001\"]";
        assert_eq!(Rules::from_toml(one).unwrap().degrade.allow_list.len(), 1);
    }

    #[test]
    fn a_composite_rule_has_to_make_sense_and_its_feature_to_exist() {
        let rule = |action: &str, window: u32| {
            format!(
                "[composite.coupons]\nper = \"provider\"\naction = \"{action}\"\nconditions = [\n\
                 {{ metric = \"calls\", at_least = 20, window_ms = {window} }},\n\
                 {{ metric = \"failure_ratio\", at_least = 0.5, window_ms = 60000 }},\n]\n"
            )
        };
        assert!(Rules::from_toml(&rule("degrade:coupon", 60_000)).is_ok());
        assert_eq!(only(&rule("degrade:cuopon", 60_000)).0, "composite.coupons.action");
        assert_eq!(only(&rule("break", 15_000)).0, "composite.coupons.conditions[0].window_ms");
        assert_eq!(only(&rule("degrade:admission", 60_000)).0, "composite.coupons.action");
        let of = |line: &str| rule("break", 60_000).replace("per = \"provider\"", line);
        assert_eq!(only(&of("per = \"provider\"\nprovider = \"cuopon\"")).0, "composite.coupons.provider");
        assert_eq!(only(&of("per = \"api_provider\"\napi = \"POST /v1/order\"")).0, "composite.coupons.api");
        assert!(Rules::from_toml(&of("per = \"provider\"\nprovider = \"provider_backup\"")).is_ok());
    }

    #[test]
    fn a_zero_duration_is_refused() {
        assert_eq!(only("[recover]\ninterval_ms = 0").0, "recover.interval_ms");
        assert_eq!(only("[recover]\npending_max_age_ms = 0").0, "recover.pending_max_age_ms");
        assert_eq!(only("[recover]\nack_retry_max_ms = 9_999").0, "recover.ack_retry_max_ms");
        assert_eq!(only("[downstream.coupon]\nconnect_timeout_ms = 0").0, "downstream.coupon.connect_timeout_ms");
    }

    #[test]
    fn an_unknown_level_of_a_switch_is_refused_with_the_known_ones() {
        let (path, reason) = only("[degrade]\ncoupon = \"maybe\"");
        assert_eq!(path, "degrade.coupon");
        assert!(reason.contains("pending"), "{reason}");
    }
}
