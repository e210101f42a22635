//! A drill's negative control: the same drill with the guard taken out that it is about. It has to fail, else the drill
//! would pass whatever the guard did.

use serde::Deserialize;

use super::{FaultSpec, Span, check::Wrong, overlay::overlaid};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlSpec {
    /// What is taken out, for people: `the breaker of payment`.
    pub without: String,
    /// On top of the stack's own rules.
    #[serde(default)]
    pub rules: toml::Table,
    /// What clients tell the system that they wait, instead of `load.announce`.
    pub announce: Option<Span>,
    /// What the drill publishes to some instances is in force on all of them: without the canary.
    #[serde(default)]
    pub everywhere: bool,
}

impl ControlSpec {
    /// The whole document that is in force without the guard.
    #[must_use]
    pub fn rules_on(&self, stack: &toml::Table) -> toml::Table {
        overlaid(stack, &self.rules)
    }

    /// What is wrong beside the rules: key and reason.
    pub(super) fn mistakes(&self, faults: &[FaultSpec]) -> Wrong {
        let mut wrong = Wrong::new();
        let mut say = |key: &str, reason: &str| wrong.push((key.to_owned(), reason.to_owned()));
        if self.rules.is_empty() && self.announce.is_none() && !self.everywhere {
            say("control", "takes nothing out: it needs rules, announce or everywhere");
        }
        if self.everywhere && faults.iter().all(|fault| fault.to.is_empty()) {
            say("control.everywhere", "needs a fault that is published to some instances");
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::read;

    const DRILL: &str = r#"
id = "a"
title = "t"
story = "s"
source = "x"
max_duration = "2m"
load = { rate = 10, duration = "30s", timeout = "2s" }
steady_state = [{ probe = "success_ratio", min = 0.99 }]
faults = [{ at = "10s", for = "10s", link = "order->payment", kind = "hang" }]
expect = [{ probe = "success_ratio", min = 0.5 }]
"#;

    fn wrong(control: &str) -> Vec<String> {
        let read = read("a.toml", &format!("{DRILL}[control]\nwithout = \"x\"\n{control}"));
        read.err().into_iter().flatten().map(|mistake| mistake.key).collect()
    }

    #[test]
    fn a_control_takes_something_out_that_there_is() {
        assert_eq!(wrong("rules = { downstream = { payment = { breaker = { forced = \"closed\" } } } }"), [""; 0]);
        assert_eq!(wrong("announce = \"1s\""), [""; 0]);
        assert_eq!(wrong(""), ["control"]);
        assert_eq!(wrong("everywhere = true"), ["control.everywhere"], "nothing is tried out on some");
        assert_eq!(wrong("announce = \"one second\""), ["control.announce"]);
        let unknown = wrong("rules = { downstream = { paiment = { timeout_ms = 5 } } }");
        assert!(unknown[0].starts_with("control.rules"), "{unknown:?}");
    }
}
