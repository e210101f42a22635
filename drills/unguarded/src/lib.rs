//! The rules of a system whose builders never thought of guards, to be seen beside the one that has them: for
//! `./dev up --no-guards` and for the left half of `./dev drill --compare`.
//!
//! Made from the rules that would hold otherwise, so that what else they say (a small pool, a short interval) stays the
//! same on both sides of a comparison. Nothing refuses, nothing waits in line, no breaker opens, nobody gives up before
//! a client of the plainest kind would, and whoever fails tries again at once. The rules' own validation holds for these
//! as for all others; what it does not permit, such as calls without any end, is not done.
//!
//! What rules cannot switch off stays: idempotency, the outbox, and that a charge is never sent twice.

use std::time::Duration;

use resilience::{
    breaker::Forced,
    bulkhead::BulkheadConfig,
    rate_limit::{LimiterConfig, PerKeyConfig, Quota},
    retry::RetryConfig,
};
use rules::{Degrade, Downstream, ROUTES, Rules};

/// What somebody sets who sets one timeout for everything: as long as the users themselves wait.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of a call that is tried again.
const TRY: Duration = Duration::from_secs(2);
/// A charge has to end before the call that waits for it.
const CHARGE: Duration = Duration::from_millis(4_500);
/// The habit of three, where there is any retry at all.
const RETRIES: u32 = 3;
/// The most that validation lets be in flight, which is more than fits into this machine.
const NO_CAP: u32 = 100_000;
/// Likewise a second.
const NO_LIMIT: Quota = Quota::new(1_000_000.0, 1_000_000);
/// Likewise in a window, of the whole cluster.
const NO_QUOTA: u32 = 100_000_000;

/// The same rules with no guard in them.
#[must_use]
pub fn without_guards(mut rules: Rules) -> Rules {
    nobody_is_refused(&mut rules);
    nobody_is_left_off(&mut rules);
    everybody_waits(&mut rules);
    // Nothing is served with less.
    rules.composite.clear();
    rules.degrade = Degrade { defer_max_minor: 0, ..Degrade::default() };
    rules.cache.keep_stale = Duration::ZERO;
    rules
}

fn nobody_is_refused(rules: &mut Rules) {
    let services = &mut rules.service;
    for service in [
        &mut services.order,
        &mut services.inventory,
        &mut services.payment,
        &mut services.coupon,
        &mut services.recommendation,
    ] {
        (service.max_in_flight, service.sheddable_share) = (NO_CAP, 1.0);
    }
    // Also those that have the default.
    for name in ROUTES {
        let route = rules.route.entry((*name).to_owned()).or_default();
        (route.max_in_flight, route.max_waiting) = (None, NO_CAP);
        (route.limit, route.min_useful_budget) = (LimiterConfig::TokenBucket(NO_LIMIT), Duration::ZERO);
    }
    // A document cannot say that a route has none where the defaults give it one.
    for quota in rules.quota.values_mut() {
        (quota.limit, quota.max_lease) = (NO_QUOTA, None);
    }
    let keys = &mut rules.key_limits;
    unlimited(&mut keys.user);
    unlimited(&mut keys.poll);
    unlimited(&mut keys.tenant);
    unlimited(&mut keys.caller);
    unlimited(&mut keys.webhook);
}

fn unlimited<K>(keys: &mut PerKeyConfig<K>) {
    (keys.default, keys.overflow) = (NO_LIMIT, NO_LIMIT);
    for tier in keys.tiers.values_mut() {
        (tier.per_second, tier.burst) = (NO_LIMIT.per_second, NO_LIMIT.burst);
    }
    keys.overrides.values_mut().for_each(|quota| *quota = NO_LIMIT);
}

fn nobody_is_left_off(rules: &mut Rules) {
    // The most that validation permits.
    rules.chain.retries = 10;
    for callee in callees(rules) {
        callee.pool = NO_CAP;
        callee.bulkhead = BulkheadConfig { cap: NO_CAP, max_waiting: NO_CAP, ..callee.bulkhead.clone() };
        callee.limit = LimiterConfig::TokenBucket(NO_LIMIT);
        callee.breaker.forced = Some(Forced::Closed);
        let max_retries = if callee.retry.max_retries == 0 { 0 } else { callee.retry.max_retries.max(RETRIES) };
        callee.retry =
            RetryConfig { max_retries, budget_ratio: 1.0, budget_floor_per_second: 1_000_000, ..callee.retry };
    }
}

/// From the innermost outwards, since each has to outlast what it waits for.
fn everybody_waits(rules: &mut Rules) {
    let reserve = rules.network.reserve;
    let longer = |of: &mut Duration, than: Duration| *of = (*of).max(than);

    let callees = &mut rules.downstream;
    longer(&mut callees.provider.timeout, CHARGE);
    longer(&mut callees.provider_backup.timeout, CHARGE);
    let provider = callees.provider.timeout + reserve;
    let backup = callees.provider_backup.timeout + callees.provider.connect_timeout + 2 * reserve;
    let charge = PATIENCE.max(provider).max(backup);
    longer(&mut callees.payment.timeout, charge);
    for callee in [
        &mut callees.inventory,
        &mut callees.coupon,
        &mut callees.recommendation,
        &mut callees.payment_status,
        &mut callees.provider_status,
    ] {
        longer(&mut callee.timeout, PATIENCE);
    }
    let order = callees.inventory.timeout + callees.coupon.timeout + callees.payment.timeout + 3 * reserve;
    // Whoever has one timeout for everything waits for a charge to its end.
    longer(&mut callees.payment.attempt_timeout, charge);
    for callee in self::callees(rules) {
        let whole = callee.timeout;
        let one = if callee.retry.max_retries == 0 { whole } else { TRY.min(whole) };
        longer(&mut callee.attempt_timeout, one);
        longer(&mut callee.breaker.probe_lease, callee.attempt_timeout);
    }

    rules.route.values_mut().for_each(|route| longer(&mut route.timeout, PATIENCE));
    if let Some(route) = rules.route.get_mut(Rules::CHARGE) {
        longer(&mut route.timeout, charge);
    }
    if let Some(route) = rules.route.get_mut(Rules::PLACE_ORDER) {
        longer(&mut route.timeout, order);
    }
    let longest = rules.route.values().map(|route| route.timeout).max().unwrap_or(order) + reserve;
    longer(&mut rules.gateway.timeout, longest);
    longer(&mut rules.idempotency.lease, longest);
    longer(&mut rules.reconcile.lease, longest + reserve);
    longer(&mut rules.database.acquire_timeout, PATIENCE);
}

fn callees(rules: &mut Rules) -> [&mut Downstream; 9] {
    let all = &mut rules.downstream;
    [
        &mut all.inventory,
        &mut all.payment,
        &mut all.payment_status,
        &mut all.coupon,
        &mut all.recommendation,
        &mut all.provider,
        &mut all.provider_backup,
        &mut all.provider_status,
        &mut all.provider_ledger,
    ]
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// The rules of every drill that there is, and the defaults.
    fn documents() -> Vec<(String, String)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
        let mut documents = vec![("defaults".to_owned(), String::new())];
        for file in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let drill: toml::Table = fs::read_to_string(&file).unwrap().parse().unwrap();
            let rules = drill.get("stack").and_then(|stack| stack.get("rules"));
            let text = rules.map(|rules| toml::to_string(rules).unwrap()).unwrap_or_default();
            documents.push((file.display().to_string(), text));
        }
        documents
    }

    #[test]
    fn rules_without_guards_are_valid_whatever_they_are_made_from_and_survive_the_way_through_a_file() {
        for (name, document) in documents() {
            let open = without_guards(Rules::from_toml(&document).unwrap());
            assert_eq!(open.violations(), [], "{name}");
            assert_eq!(Rules::from_toml(&toml::to_string(&open).unwrap()).unwrap(), open, "{name}");
            assert_eq!(without_guards(open.clone()), open, "{name}: there is nothing left to take out");
        }
    }

    #[test]
    fn longer_timeouts_than_a_client_has_stay_and_what_waits_for_them_waits_longer() {
        let text = "[gateway]\ntimeout_ms = 40000\n[idempotency]\nlease_ms = 40000\n[downstream.provider]\n\
                    timeout_ms = 9000\nattempt_timeout_ms = 9000\n[downstream.payment]\ntimeout_ms = 9500\n\
                    [route.\"PUT /v1/payments/{attempt_id}\"]\ntimeout_ms = 9500\n\
                    [route.\"POST /v1/orders\"]\ntimeout_ms = 12000\n";
        let open = without_guards(Rules::from_toml(text).unwrap());
        assert_eq!(open.violations(), []);
        assert_eq!(open.downstream.provider.timeout, Duration::from_secs(9));
    }

    #[test]
    fn nothing_refuses_opens_or_gives_up_early() {
        let open = without_guards(Rules::default());
        for (name, service) in open.service.all() {
            assert_eq!((service.max_in_flight, service.sheddable_share), (NO_CAP, 1.0), "{name}");
        }
        for (name, callee) in open.downstream.all() {
            assert_eq!(callee.bulkhead.cap, NO_CAP, "{name}");
            assert_eq!(callee.limit, LimiterConfig::TokenBucket(NO_LIMIT), "{name}");
            assert_eq!(callee.breaker.forced, Some(Forced::Closed), "{name}");
            assert!(callee.timeout >= CHARGE && callee.attempt_timeout >= TRY, "{name}");
        }
        for name in ROUTES {
            let route = &open.route[*name];
            assert_eq!((route.limit, route.max_in_flight), (LimiterConfig::TokenBucket(NO_LIMIT), None), "{name}");
            assert!(route.timeout >= PATIENCE, "{name}");
        }
        assert_eq!(open.downstream.payment.attempt_timeout, open.downstream.payment.timeout, "a charge ends before");
        assert!(open.quota.values().all(|quota| quota.limit == NO_QUOTA));
        assert_eq!((open.key_limits.user.default, open.key_limits.caller.overflow), (NO_LIMIT, NO_LIMIT));
        assert_eq!(open.key_limits.user.tiers["vip"].burst, NO_LIMIT.burst);
    }

    #[test]
    fn retries_are_many_and_unbudgeted_where_there_were_any_and_a_charge_is_still_sent_once() {
        let open = without_guards(Rules::default());
        let inventory = &open.downstream.inventory.retry;
        assert_eq!((inventory.max_retries, inventory.budget_ratio), (RETRIES, 1.0));
        assert_eq!((open.chain.retries, open.downstream.payment.retry.max_retries), (10, RETRIES));
        assert_eq!(open.downstream.provider.retry.max_retries, 0);
    }

    #[test]
    fn what_the_rules_say_of_other_things_stays() {
        let text = "[database]\npool = 3\n[reconcile]\nsettle_ms = 700\n[downstream.payment.breaker]\nopen_ms = 3000\n";
        let open = without_guards(Rules::from_toml(text).unwrap());
        assert_eq!((open.database.connections(), open.reconcile.settle.as_millis()), (3, 700));
    }
}
