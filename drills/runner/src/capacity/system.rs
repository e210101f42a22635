//! Which system is measured: the `[stack]` of a drill's file, or the one that stands beside this file. Pure but for
//! reading it.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use contracts::Service;
use serde::Deserialize;

use crate::scenario::{self, StackSpec};

/// Other tables of a drill's file are not looked at.
#[derive(Deserialize)]
struct File {
    stack: StackSpec,
}

const DEFAULT: &str = include_str!("system.toml");
/// One is to be missing in the end, and as many as there are ports for.
const REPLICAS: std::ops::RangeInclusive<u16> = 2..=contracts::service::MAX_REPLICAS;

/// The system of `file`, or the default one, with so many instances of order where that is said.
pub fn read(file: Option<&Path>, replicas: Option<u16>) -> Result<StackSpec> {
    match file {
        Some(file) => {
            let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            from(&text, replicas).with_context(|| file.display().to_string())
        }
        None => from(DEFAULT, replicas).context("the default system"),
    }
}

/// How many instances of order it has.
#[must_use]
pub fn instances(system: &StackSpec) -> u16 {
    system.replicas.get(Service::Order.as_str()).copied().unwrap_or(1)
}

fn from(text: &str, replicas: Option<u16>) -> Result<StackSpec> {
    let File { mut stack } = toml::from_str(text)?;
    if let Some(replicas) = replicas {
        stack.replicas.insert(Service::Order.to_string(), replicas);
    }
    let mistakes = scenario::stack_mistakes(&stack);
    if !mistakes.is_empty() {
        let lines: Vec<String> = mistakes.into_iter().map(|(key, reason)| format!("{key}: {reason}")).collect();
        bail!("{}", lines.join("; "));
    }
    if !REPLICAS.contains(&instances(&stack)) {
        bail!(
            "one instance of order is to be missing, so {} to {} are needed (--replicas)",
            REPLICAS.start(),
            REPLICAS.end()
        );
    }
    Ok(stack)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, replicas: Option<u16>) -> String {
        format!("{:#}", from(text, replicas).unwrap_err())
    }

    #[test]
    fn the_default_system_has_two_instances_whose_bulkhead_is_the_capacity() {
        let system = read(None, None).unwrap();
        assert_eq!(instances(&system), 2);
        let rules = rules::Rules::from_toml(&toml::to_string(&system.rules).unwrap()).unwrap();
        let (bulkhead, latency) = (rules.downstream.payment.bulkhead, &system.provider["primary"]["latency_ms"]);
        let each = f64::from(bulkhead.cap) * 1_000.0 / latency.as_integer().unwrap() as f64;
        assert_eq!(each * 2.0, 50.0);
    }

    #[test]
    fn as_many_instances_are_measured_as_are_asked_for() {
        assert_eq!(instances(&read(None, Some(3)).unwrap()), 3);
    }

    #[test]
    fn of_a_drill_s_file_only_the_system_is_taken() {
        let system =
            from("id = 'x'\n[stack]\nreplicas = { order = 2 }\nrules.chain.retries = 1\n[load]\nrate = 1\n", None);
        assert_eq!(system.unwrap().rules["chain"]["retries"].as_integer(), Some(1));
    }

    #[test]
    fn what_is_no_system_is_told_with_its_place() {
        assert!(told("[stak]", Some(2)).contains("stack"));
        assert!(told("[stack]\nreplica = 2", None).contains("replica"));
        let two = told("[stack.rules.chain]\nretries = 99\n[stack.provider.primary]\nlatency = 3", Some(2));
        assert!(two.contains("stack.rules.chain.retries") && two.contains("stack.provider.primary"), "{two}");
    }

    #[test]
    fn a_single_instance_cannot_be_missing() {
        assert!(told("[stack]", None).contains("2 to 10"));
        assert!(told("[stack]", Some(1)).contains("--replicas"));
        assert!(told("[stack]", Some(11)).contains("from 1 to 10"));
    }
}
