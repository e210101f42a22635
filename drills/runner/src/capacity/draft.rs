//! The thresholds as rules: a document that can be put in force as it is, and says where its numbers come from. Pure.
//!
//! Two limits hold what was derived: a token bucket in each instance, which needs nobody and also holds for those that
//! are left when one is missing, and the quota of all of them together. Everything else is as the measured system had it.

use std::fmt::Write;

use anyhow::{Context, Result};
use rules::Rules;
use toml::{Table, Value};

use super::thresholds::{ADMITTED, OF_BREAKAGE, SAFE, Thresholds};

/// The seconds whose orders may come at once. What lies between the threshold and the inflection works them off in about
/// as long.
const BURST_SECONDS: f64 = 0.5;

/// The document, over the rules of the system that was measured. An error: these are no rules.
pub fn draft(thresholds: &Thresholds, measured: &Table, command: &str) -> Result<String> {
    let now = Rules::from_toml(&toml::to_string(measured)?).context("the rules of the measured system")?;
    let mut document = measured.clone();
    document.insert("version".to_owned(), Value::Integer(now.version.saturating_add(1)));

    let per_second = rounded_down(thresholds.threshold_each);
    let burst = (per_second * BURST_SECONDS).ceil().max(1.0) as i64;
    let mut limit = Table::new();
    limit.insert("kind".to_owned(), "token_bucket".into());
    limit.insert("per_second".to_owned(), per_second.into());
    limit.insert("burst".to_owned(), burst.into());
    // A limit of another kind has other keys, so it goes as a whole.
    table(table(&mut document, "route")?, Rules::PLACE_ORDER)?.insert("limit".to_owned(), limit.into());

    let route = now.route.get(Rules::PLACE_ORDER);
    if let Some((name, quota)) =
        route.and_then(|route| route.quota.as_ref()).and_then(|name| now.quota.get_key_value(name))
    {
        let all = (thresholds.threshold * quota.window.as_secs_f64()).floor().max(1.0) as i64;
        table(table(&mut document, "quota")?, name)?.insert("limit".to_owned(), all.into());
    }

    let text = format!("{}\n{}", heading(thresholds, command)?, toml::to_string(&document)?);
    Rules::from_toml(&text).context("the draft")?;
    Ok(text)
}

fn heading(thresholds: &Thresholds, command: &str) -> Result<String> {
    let Thresholds { instances, inflection_each, safe_each, threshold, threshold_each, .. } = thresholds;
    let [third, half] = thresholds.by_breakage;
    let mut text = String::new();
    writeln!(text, "# A draft, from a measurement: {command}")?;
    writeln!(text, "#")?;
    writeln!(text, "# One instance of order turned at {inflection_each:.1} orders a second.")?;
    writeln!(text, "# safe       {safe_each:.1} for each instance: × {SAFE}")?;
    writeln!(
        text,
        "# threshold  {threshold:.1} for all {instances}: × {instances} × {ADMITTED}, so {threshold_each:.1} for each"
    )?;
    let [by_three, by_two] = OF_BREAKAGE;
    writeln!(text, "# beside it  {third:.1} to {half:.1}: the breakage of all, ÷ {by_three} and ÷ {by_two}")?;
    let (admits, carries) = (thresholds.one_missing_admits, thresholds.one_missing_carries);
    let rest =
        if thresholds.can_miss_one() { "enough for the whole threshold" } else { "less than the whole threshold" };
    writeln!(text, "# Without one of them, the others let in {admits:.1} and carry {carries:.1}: {rest}.")?;
    Ok(text)
}

/// To a tenth, and never to nothing.
fn rounded_down(rate: f64) -> f64 {
    ((rate * 10.0).floor() / 10.0).max(0.1)
}

/// The table of that name, made where there is none.
fn table<'a>(parent: &'a mut Table, name: &str) -> Result<&'a mut Table> {
    let value = parent.entry(name).or_insert_with(|| Value::Table(Table::new()));
    value.as_table_mut().with_context(|| format!("{name} is no table"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use resilience::rate_limit::LimiterConfig;

    use super::*;
    use crate::capacity::reading::Reading;

    fn thresholds(inflection: f64) -> Thresholds {
        let of = |inflection: f64| Reading {
            unloaded_p99: 200.0,
            inflection,
            inflection_at: 1,
            breakage: inflection * 2.5,
            breakage_at: 3,
            noise: Vec::new(),
        };
        Thresholds::of(&of(inflection), &of(inflection / 2.0), 2)
    }

    fn drafted(inflection: f64, measured: &str) -> (String, Rules) {
        let text = draft(&thresholds(inflection), &measured.parse().unwrap(), "./dev capacity").unwrap();
        let rules = Rules::from_toml(&text).unwrap();
        (text, rules)
    }

    fn door(rules: &Rules) -> (f64, u32) {
        match rules.route[Rules::PLACE_ORDER].limit {
            LimiterConfig::TokenBucket(quota) => (quota.per_second, quota.burst),
            ref other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_instance_gets_a_limit_and_all_together_a_quota() {
        let (text, rules) = drafted(40.0, "");
        assert_eq!(door(&rules), (11.2, 6));
        assert_eq!(rules.quota["orders"].limit, 22);
        for said in [
            "./dev capacity",
            "turned at 20.0",
            "14.0 for each",
            "22.4 for all 2",
            "33.3 to 50.0",
            "less than the whole",
        ] {
            assert!(text.contains(said), "{said}\n{text}");
        }
    }

    #[test]
    fn the_rules_of_the_measured_system_stay_and_the_version_goes_up() {
        let measured = "version = 6\n[downstream.payment.bulkhead]\ncap = 5\n[quota.orders]\nwindow_ms = 10000\n";
        let (_, rules) = drafted(40.0, measured);
        assert_eq!((rules.version, rules.downstream.payment.bulkhead.cap), (7, 5));
        assert_eq!(rules.quota["orders"].limit, 224, "over ten seconds");
    }

    #[test]
    fn a_limit_of_another_kind_is_replaced_as_a_whole() {
        let measured = "[route.\"POST /v1/orders\"]\nmin_useful_budget_ms = 25\n[route.\"POST /v1/orders\".limit]\nkind = \"leaky_bucket\"\nper_second = 90.0\nmax_wait_ms = 50\n";
        let (_, rules) = drafted(40.0, measured);
        assert_eq!(door(&rules), (11.2, 6));
        assert_eq!(rules.route[Rules::PLACE_ORDER].min_useful_budget.as_millis(), 25);
    }

    #[test]
    fn what_are_no_rules_become_no_draft() {
        let refused = draft(&thresholds(40.0), &"[chain]\nretries = 99\n".parse().unwrap(), "x").unwrap_err();
        assert!(format!("{refused:#}").contains("chain.retries"), "{refused:#}");
    }

    proptest! {
        #[test]
        fn every_draft_is_accepted_and_lets_in_no_more_than_was_derived(inflection in 0.5..5_000.0_f64) {
            let (_, rules) = drafted(inflection, "");
            let derived = thresholds(inflection);
            prop_assert!(door(&rules).0 <= derived.threshold_each.max(0.1));
            prop_assert!(f64::from(rules.quota["orders"].limit) <= derived.threshold.max(1.0));
        }
    }
}
