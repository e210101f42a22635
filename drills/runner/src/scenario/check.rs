//! What a scenario of the right shape can still have wrong. Pure; a mistake is a path and a reason.

use std::time::Duration;

use contracts::Service;
use links::{Protocol, hops};
use load::{Kind, Mix, Profile, Spike, Stage};

use super::{Check, FaultSpec, LoadSpec, ProbeKind, Scenario};

type Wrong = Vec<(String, String)>;

/// What can be done to a process.
pub const PROCESS_KINDS: [&str; 3] = ["kill", "stop", "restart"];

pub fn all(scenario: &Scenario) -> Wrong {
    let mut wrong = Wrong::new();
    let mut say = |key: &str, reason: String| wrong.push((key.to_owned(), reason));
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if scenario.id.is_empty() || !scenario.id.bytes().all(plain) {
        say("id", "must be lower-case letters, digits and hyphens".into());
    }
    for (service, count) in &scenario.stack.replicas {
        if service.parse::<Service>().is_err() || !(1..=contracts::service::MAX_REPLICAS).contains(count) {
            say(&format!("stack.replicas.{service}"), "must be a service and a number from 1 to 10".into());
        }
    }
    let ends = match scenario.load.profile() {
        Ok(profile) => profile.duration(),
        Err((key, reason)) => {
            say(&format!("load.{key}"), reason);
            Duration::MAX
        }
    };
    if let Err(reason) = scenario.load.mix.parse::<Mix>() {
        say("load.mix", reason.to_string());
    }
    if scenario.steady_state.is_empty() {
        say("steady_state", "must have at least one check, else nothing says that the system was well before".into());
    }
    if scenario.expect.is_empty() {
        say("expect", "must have at least one check, else the drill cannot fail".into());
    }
    if scenario.faults.is_empty() && scenario.load.spike.is_none() && scenario.load.stages.is_empty() {
        say("faults", "must have one, unless the load itself is what is unusual".into());
    }
    wrong.extend(rules(scenario));
    for (index, fault) in scenario.faults.iter().enumerate() {
        let found = faulty(fault, ends);
        wrong.extend(found.into_iter().map(|(key, reason)| (format!("faults[{index}].{key}"), reason)));
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

fn rules(scenario: &Scenario) -> Wrong {
    let Ok(text) = toml::to_string(&scenario.stack.rules) else { return Wrong::new() };
    match rules::Rules::from_toml(&text) {
        Ok(_) => Wrong::new(),
        Err(error) => error.violations.into_iter().map(|v| (format!("stack.rules.{}", v.path), v.reason)).collect(),
    }
}

fn faulty(fault: &FaultSpec, ends: Duration) -> Wrong {
    let mut wrong = Wrong::new();
    let mut say = |key: &str, reason: String| wrong.push((key.to_owned(), reason));
    if fault.at.0 + fault.lasts.0 > ends {
        say("for", "must end before the load does".into());
    }
    match (&fault.link, &fault.process) {
        (Some(link), None) => match hops::find(link) {
            None => {
                let names: Vec<&str> = hops::ALL.iter().map(|hop| hop.name).collect();
                say("link", format!("there is no such link; there are {}", names.join(", ")));
            }
            Some(hop) => {
                for error in fault.request(0).check(hop.protocol).err().into_iter().flatten() {
                    let key = if error.field == "for_ms" { "for" } else { &error.field };
                    say(key, error.detail);
                }
            }
        },
        (None, Some(_)) => {
            if !PROCESS_KINDS.contains(&fault.kind.as_str()) {
                say("kind", format!("must be one of {} for a process", PROCESS_KINDS.join(", ")));
            }
            // What belongs to links means nothing here.
            let bare = FaultSpec { link: Some(hops::ALL[0].name.into()), kind: "hang".into(), ..fault.clone() };
            for error in bare.request(0).check(Protocol::Http).err().into_iter().flatten() {
                say(&error.field, "means nothing to a process".into());
            }
        }
        _ => say("link", "a fault has a link or a process, and not both".into()),
    }
    wrong
}

fn unsound(check: &Check) -> Wrong {
    let mut wrong = Wrong::new();
    let mut say = |key: &str, reason: &str| wrong.push((key.to_owned(), reason.to_owned()));
    if [check.min, check.max, check.max_times_before, check.min_times_before].iter().all(Option::is_none) {
        say("", "needs a bound: min, max, min_times_before or max_times_before");
    }
    if check.request.as_ref().is_some_and(|name| !Kind::ALL.iter().any(|kind| kind.as_str() == name)) {
        say("request", "must be one of place_order, read_order, list_orders, product_page, list_products");
    }
    let known = |o: &String| {
        o.parse::<u16>().is_ok() || ["2xx", "4xx", "5xx", "timed_out", "not_sent", "broken"].contains(&o.as_str())
    };
    if !check.outcomes.iter().all(known) {
        say("outcomes", "are statuses, 2xx, 4xx, 5xx, timed_out, not_sent or broken");
    }
    if matches!(check.probe, ProbeKind::Answers | ProbeKind::Share) && check.outcomes.is_empty() {
        say("outcomes", "is needed by this probe");
    }
    match (check.probe, check.percentile) {
        (ProbeKind::Latency, Some(p)) if p > 0.0 && p <= 100.0 => {}
        (ProbeKind::Latency, _) => say("percentile", "must be above 0 and at most 100"),
        (_, Some(_)) => say("percentile", "belongs to latency"),
        _ => {}
    }
    let of_metrics = matches!(check.probe, ProbeKind::Metric | ProbeKind::Gauge);
    if of_metrics && check.metric.is_none() {
        say("metric", "is needed by this probe");
    }
    if of_metrics && check.service.as_ref().is_none_or(|service| service.parse::<Service>().is_err()) {
        say("service", "must be a service");
    }
    if check.probe == ProbeKind::FaultApplied && check.link.as_ref().is_none_or(|link| hops::find(link).is_none()) {
        say("link", "must be a link");
    }
    wrong
}

impl LoadSpec {
    /// The profile, or the key that is wrong and why.
    pub fn profile(&self) -> Result<Profile, (&'static str, String)> {
        let stages: Vec<Stage> = self
            .stages
            .iter()
            .map(|stage| stage.parse::<Stage>())
            .collect::<Result<_, _>>()
            .map_err(|e| ("stages", e.to_string()))?;
        let profile = match (self.rate, self.duration, stages.is_empty()) {
            (Some(rate), Some(duration), true) => {
                Profile::steady(rate, duration.0).map_err(|e| ("rate", e.to_string()))
            }
            (None, None, false) => Profile::new(stages).map_err(|e| ("stages", e.to_string())),
            _ => Err(("rate", "a load has rate and duration, or stages".to_owned())),
        }?;
        let Some(spike) = &self.spike else { return Ok(profile) };
        let spike: Spike = spike.parse().map_err(|e: load::profile::BadProfile| ("spike", e.to_string()))?;
        profile.with_spike(spike).map_err(|e| ("spike", e.to_string()))
    }
}
