//! What a scenario of the right shape can still have wrong. Pure; a mistake is a path and a reason.

use std::time::Duration;

use contracts::Service;
use links::hops;
use load::{Kind, Outcome};

use super::{Check, ProbeKind, Scenario, StackSpec, fault};

/// Keys, and why what stands there cannot be.
pub type Wrong = Vec<(String, String)>;

/// Names of outcomes, for those who have written something else.
pub(super) const OUTCOMES: &str = "are statuses, 2xx, 4xx, 5xx, timed_out, not_sent or broken";

pub fn all(scenario: &Scenario) -> Wrong {
    let mut wrong = stack(&scenario.stack);
    let mut say = |key: &str, reason: String| wrong.push((key.to_owned(), reason));
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if scenario.id.is_empty() || !scenario.id.bytes().all(plain) {
        say("id", "must be lower-case letters, digits and hyphens".into());
    }
    let ends = match scenario.load.profile() {
        Ok(profile) => profile.duration(),
        Err((key, reason)) => {
            say(&format!("load.{key}"), reason);
            Duration::MAX
        }
    };
    if scenario.steady_state.is_empty() {
        say("steady_state", "must have at least one check, else nothing says that the system was well before".into());
    }
    if scenario.expect.is_empty() {
        say("expect", "must have at least one check, else the drill cannot fail".into());
    }
    if scenario.faults.is_empty() && !scenario.load.is_unusual() {
        say("faults", "must have one, unless the load itself is what is unusual".into());
    }
    wrong.extend(scenario.load.mistakes());
    for (index, fault) in scenario.faults.iter().enumerate() {
        if fault.rules.is_some() {
            wrong.extend(rules(&format!("faults[{index}].rules"), &fault.rules_on(&scenario.stack.rules)));
        }
        if fault.publish.is_some() {
            wrong.extend(rules(&format!("faults[{index}].publish"), &fault.rules_on(&scenario.stack.rules)));
            if !scenario.stack.console {
                wrong.push((format!("faults[{index}].publish"), "needs the console: stack.console = true".into()));
            }
        }
        let found = fault.mistakes(ends);
        wrong.extend(found.into_iter().map(|(key, reason)| (format!("faults[{index}].{key}"), reason)));
    }
    if let Some(control) = &scenario.control {
        wrong.extend(rules("control.rules", &control.rules_on(&scenario.stack.rules)));
        wrong.extend(control.mistakes(&scenario.faults));
    }
    for (name, checks) in [
        ("steady_state", &scenario.steady_state),
        ("proof", &scenario.proof),
        ("expect", &scenario.expect),
        ("abort_if", &scenario.abort_if),
    ] {
        for (index, check) in checks.iter().enumerate() {
            let at = format!("{name}[{index}]");
            let key = |key: String| if key.is_empty() { at.clone() } else { format!("{at}.{key}") };
            wrong.extend(unsound(check).into_iter().map(|(k, reason)| (key(k), reason)));
        }
    }
    wrong
}

/// What is wrong with a system, whatever is then done to it.
pub fn stack(stack: &StackSpec) -> Wrong {
    let mut wrong = Wrong::new();
    for (service, count) in &stack.replicas {
        let known = Service::ALL.iter().any(|known| known.as_str() == service);
        if !known || !(1..=contracts::service::MAX_REPLICAS).contains(count) {
            wrong.push((format!("stack.replicas.{service}"), "must be a service and a number from 1 to 10".into()));
        }
    }
    for (channel, behaviour) in &stack.provider {
        if let Err(reason) = fault::behaves(channel, behaviour) {
            wrong.push((format!("stack.provider.{channel}"), reason));
        }
    }
    wrong.extend(rules("stack.rules", &stack.rules));
    wrong
}

fn rules(at: &str, document: &toml::Table) -> Wrong {
    let Ok(text) = toml::to_string(document) else { return Wrong::new() };
    match rules::Rules::from_toml(&text) {
        Ok(_) => Wrong::new(),
        Err(error) => error.violations.into_iter().map(|v| (format!("{at}.{}", v.path), v.reason)).collect(),
    }
}

fn unsound(check: &Check) -> Wrong {
    let mut wrong = Wrong::new();
    let mut say = |key: &str, reason: &str| wrong.push((key.to_owned(), reason.to_owned()));
    if [check.min, check.max, check.max_times_before, check.min_times_before].iter().all(Option::is_none) {
        say("", "needs a bound: min, max, min_times_before or max_times_before");
    }
    if check.request.as_ref().is_some_and(|name| !Kind::ALL.iter().any(|kind| kind.as_str() == name)) {
        say("request", &format!("must be one of {}", Kind::ALL.map(Kind::as_str).join(", ")));
    }
    if !check.outcomes.iter().all(|name| Outcome::is_name(name)) {
        say("outcomes", OUTCOMES);
    }
    if matches!(check.probe, ProbeKind::Answers | ProbeKind::Share) && check.outcomes.is_empty() {
        say("outcomes", "is needed by this probe");
    }
    match (check.probe, check.percentile) {
        (ProbeKind::Latency | ProbeKind::ChargeDelay, Some(p)) if p > 0.0 && p <= 100.0 => {}
        (ProbeKind::Latency | ProbeKind::ChargeDelay, _) => say("percentile", "must be above 0 and at most 100"),
        (_, Some(_)) => say("percentile", "belongs to latency and charge_delay"),
        _ => {}
    }
    let of_metrics = matches!(check.probe, ProbeKind::Metric | ProbeKind::Gauge);
    if of_metrics && check.metric.is_none() {
        say("metric", "is needed by this probe");
    }
    if of_metrics && check.service.as_ref().is_none_or(|service| service.parse::<Service>().is_err()) {
        say("service", "must be a service");
    }
    if let Some(per) = &check.per {
        if check.probe != ProbeKind::Metric {
            say("per", "belongs to metric");
        } else if per.service.parse::<Service>().is_err() {
            say("per.service", "must be a service");
        }
    }
    if check.probe == ProbeKind::FaultApplied && check.link.as_ref().is_none_or(|link| hops::find(link).is_none()) {
        say("link", "must be a link");
    }
    wrong
}
