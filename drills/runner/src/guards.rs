//! Whether the system under drill has its guards, and what a drill may ask of one that has not.

use anyhow::{Context, Result};
use rules::Rules;
use serde::Serialize;
use unguarded::without_guards;

use crate::scenario::{Check, Scenario};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Guards {
    On,
    /// All of them taken out.
    Off,
    /// The one taken out that the drill is about, as its control says.
    TakenOut,
}

/// What guards say of themselves begins so, and there is nobody to say it where there are none.
const THEIRS: &str = "stability_";

impl Guards {
    /// The scenario as it is asked of such a system, rules included. Without guards a breaker that did not open proves
    /// nothing, so what proves the fault by a guard's own word is left out; and the drill goes on to its end however bad
    /// it looks, since that is what one wants to see. What is expected stays as it is.
    pub fn asks(self, scenario: &Scenario) -> Result<Scenario> {
        let mut scenario = scenario.clone();
        match self {
            Self::On => return Ok(scenario),
            Self::Off => {
                let document = toml::to_string(&scenario.stack.rules).context("cannot write the rules")?;
                let open = without_guards(Rules::from_toml(&document).context("the drill's own rules")?);
                scenario.stack.rules = toml::Table::try_from(open).context("cannot write the rules without guards")?;
            }
            Self::TakenOut => {
                let control = scenario.control.as_ref().context("the drill has no control")?;
                scenario.stack.rules = control.rules_on(&scenario.stack.rules);
                scenario.load.announce = control.announce.or(scenario.load.announce);
                if control.everywhere {
                    scenario.faults.iter_mut().for_each(|fault| fault.to.clear());
                }
            }
        }
        let theirs = |check: &Check| check.metric.as_ref().is_some_and(|metric| metric.starts_with(THEIRS));
        scenario.proof.retain(|check| !theirs(check));
        scenario.abort_if.clear();
        Ok(scenario)
    }

    /// Of such a run, in the name of a file.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::On => "",
            Self::Off => ".unguarded",
            Self::TakenOut => ".control",
        }
    }

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::On => "guards on",
            Self::Off => "guards off",
            Self::TakenOut => "guard taken out",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Scenario, read};

    /// Of what every drill has.
    const DRILL: &str = r#"
id = "a"
title = "t"
story = "s"
source = "x"
stack.rules.database.pool = 3
max_duration = "2m"
steady_state = [{ probe = "success_ratio", min = 0.99 }]
faults = [{ at = "10s", for = "10s", link = "order->payment", kind = "hang" }]
"#;

    fn drill(more: &str) -> Scenario {
        read("a.toml", &format!("{DRILL}{more}")).unwrap()
    }

    #[test]
    fn a_system_without_guards_is_asked_for_the_same_but_for_what_only_guards_can_show() {
        let text = r#"
load = { rate = 10, duration = "30s" }
proof = [
  { probe = "metric", service = "order", metric = "stability_breaker_open_total", min = 1 },
  { probe = "metric", service = "order", metric = "downstream_request_timeout_total", min = 1 },
  { probe = "fault_applied", link = "order->payment", min = 5 },
]
expect = [{ probe = "metric", service = "order", metric = "stability_breaker_open_total", min = 1 }]
abort_if = [{ probe = "success_ratio", max = 0.1 }]
"#;
        let scenario = drill(text);
        let counts = |s: &Scenario| (s.steady_state.len(), s.proof.len(), s.expect.len(), s.abort_if.len());
        assert_eq!(counts(&Guards::On.asks(&scenario).unwrap()), (1, 3, 1, 1));
        let open = Guards::Off.asks(&scenario).unwrap();
        assert_eq!(counts(&open), (1, 2, 1, 0));
        let rules = Rules::from_toml(&toml::to_string(&open.stack.rules).unwrap()).unwrap();
        assert_eq!(rules, without_guards(rules.clone()));
        assert_eq!(rules.database.connections(), 3, "what the drill says of other things holds for both");
    }

    #[test]
    fn a_control_takes_out_its_guard_alone_and_what_only_that_guard_could_show() {
        let text = r#"
load = { rate = 10, duration = "30s", announce = "600ms" }
proof = [{ probe = "metric", service = "order", metric = "stability_breaker_open_total", min = 1 }]
expect = [{ probe = "success_ratio", min = 0.5 }]
control = { without = "x", rules = { downstream = { payment = { breaker = { forced = "closed" } } } }, announce = "5s" }
"#;
        let scenario = drill(text);
        let taken_out = Guards::TakenOut.asks(&scenario).unwrap();
        let rules = Rules::from_toml(&toml::to_string(&taken_out.stack.rules).unwrap()).unwrap();
        assert!(rules.downstream.payment.breaker.forced.is_some() && rules.downstream.coupon.breaker.forced.is_none());
        assert_eq!(rules.database.connections(), 3);
        assert_eq!((taken_out.proof.len(), taken_out.expect.len()), (0, 1));
        assert_eq!(taken_out.load.announce.map(|span| span.0.as_secs()), Some(5));
        let without = Scenario { control: None, ..scenario };
        assert!(Guards::TakenOut.asks(&without).is_err());
    }

    #[test]
    fn without_the_canary_a_version_is_in_force_everywhere() {
        let text = r#"
load = { rate = 10, duration = "30s" }
expect = [{ probe = "success_ratio", min = 0.5 }]
stack.console = true
control = { without = "the canary", everywhere = true }
[[faults]]
at = "5s"
for = "5s"
publish = { chain = { retries = 1 } }
to = ["order-0"]
"#;
        let scenario = read("a.toml", &format!("{}{text}", DRILL.replace("faults = ", "# "))).unwrap();
        assert_eq!(Guards::On.asks(&scenario).unwrap().faults[0].to, ["order-0"]);
        let taken_out = Guards::TakenOut.asks(&scenario).unwrap();
        assert_eq!(taken_out.faults[0].to, [""; 0]);
        assert_eq!(taken_out.stack.rules, scenario.stack.rules);
    }
}
