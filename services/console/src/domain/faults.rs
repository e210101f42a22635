//! The faults that a link can be told to have, as the page offers them, and those in force.
//!
//! What fits a link, the link itself decides; this is what a form is made of, and what keeps a slip of the finger from
//! being sent.

use contracts::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

/// One kind of fault.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Kind {
    pub kind: &'static str,
    /// `http`, `tcp`: the links that it is possible on.
    pub protocols: &'static [&'static str],
    pub settings: Vec<Setting>,
}

/// What a kind can be told.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Setting {
    pub name: &'static str,
    /// `integer`, `number` or `choice`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub unit: Option<&'static str>,
    /// Null where it may be left out.
    #[schema(value_type = Object)]
    pub default: Value,
    pub min: Option<f64>,
    pub max: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choices: Option<&'static [&'static str]>,
}

const BOTH: &[&str] = &["http", "tcp"];
const HTTP: &[&str] = &["http"];
const LONGEST_MS: f64 = 600_000.0;

/// In the order in which they are offered.
#[must_use]
pub fn kinds() -> Vec<Kind> {
    let latency = |default| integer("latency_ms", "ms", json!(default), 1.0, LONGEST_MS);
    let kind = |kind, protocols, settings: Vec<Setting>| {
        // A listener is open or it is not: that strikes all or nobody.
        let ratio = (kind != "refuse").then(ratio);
        Kind { kind, protocols, settings: settings.into_iter().chain(ratio).chain([for_ms()]).collect() }
    };
    vec![
        kind("latency", BOTH, vec![latency(1_000), integer("jitter_ms", "ms", json!(0), 0.0, LONGEST_MS), side()]),
        kind("refuse", BOTH, vec![]),
        kind("reset", BOTH, vec![]),
        kind("hang", BOTH, vec![]),
        kind("http_status", HTTP, vec![integer("status", "", json!(503), 200.0, 599.0)]),
        kind("lose_reply", BOTH, vec![]),
        kind("duplicate", HTTP, vec![integer("delay_ms", "ms", json!(0), 0.0, LONGEST_MS)]),
        kind("bandwidth", BOTH, vec![integer("bytes_per_second", "bytes/s", json!(1_024), 1.0, (1_u64 << 40) as f64)]),
        kind("bottleneck", HTTP, vec![integer("at_once", "", json!(5), 1.0, 10_000.0), latency(100)]),
    ]
}

fn integer(name: &'static str, unit: &'static str, default: Value, min: f64, max: f64) -> Setting {
    let unit = (!unit.is_empty()).then_some(unit);
    Setting { name, kind: "integer", unit, default, min: Some(min), max: Some(max), choices: None }
}

/// The share of requests, or on a TCP link of connections, that it strikes.
fn ratio() -> Setting {
    let (min, max) = (Some(0.01), Some(1.0));
    Setting { name: "ratio", kind: "number", unit: None, default: json!(1), min, max, choices: None }
}

/// After which it is over by itself.
fn for_ms() -> Setting {
    integer("for_ms", "ms", Value::Null, 1.0, LONGEST_MS)
}

fn side() -> Setting {
    let choices = Some(&["reply", "request"] as &[_]);
    Setting { name: "on", kind: "choice", unit: None, default: json!("reply"), min: None, max: None, choices }
}

/// What is wrong with a wish, as far as it can be told without the link.
pub fn check(kind: &str, settings: &Map<String, Value>) -> Result<(), FieldError> {
    let kinds = kinds();
    let Some(known) = kinds.iter().find(|known| known.kind == kind) else {
        let names: Vec<_> = kinds.iter().map(|known| known.kind).collect();
        return Err(FieldError::new("kind", format!("must be one of {}", names.join(", "))));
    };
    for (name, value) in settings {
        let field = || format!("settings.{name}");
        let Some(setting) = known.settings.iter().find(|setting| setting.name == name) else {
            return Err(FieldError::new(field(), format!("`{kind}` has no such setting")));
        };
        let range = setting.min.zip(setting.max);
        let fits = match (setting.choices, range) {
            (Some(choices), _) => value.as_str().is_some_and(|value| choices.contains(&value)),
            (None, Some((min, max))) => value.as_f64().is_some_and(|value| (min..=max).contains(&value)),
            (None, None) => true,
        };
        let is_whole = setting.kind != "integer" || value.is_u64();
        if !fits || !is_whole {
            let wanted = match (setting.choices, range) {
                (Some(choices), _) => format!("must be one of {}", choices.join(", ")),
                (None, Some((min, max))) => {
                    let kind = if setting.kind == "integer" { "a whole number" } else { "a number" };
                    format!("must be {kind} from {min} to {max}")
                }
                (None, None) => "is none".to_owned(),
            };
            return Err(FieldError::new(field(), wanted));
        }
    }
    Ok(())
}

/// What the links answer that lists their faults.
#[derive(Debug, Clone, Deserialize)]
pub struct Listed {
    pub items: Vec<InForce>,
}

/// A fault in force, as its link tells it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct InForce {
    pub id: u64,
    pub link: String,
    pub kind: String,
    pub applied: u64,
    /// Its settings, and what nobody set.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// A fault in force, as the page shows it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Shown {
    pub name: String,
    pub kind: String,
    #[schema(value_type = Object)]
    pub settings: Map<String, Value>,
    /// Requests, or connections, that have really met it.
    pub applied: u64,
}

impl InForce {
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}-{}", self.kind, self.id)
    }

    #[must_use]
    pub fn shown(&self) -> Shown {
        let mut settings = self.rest.clone();
        settings.retain(|name, _| name != "seed" && name != "active");
        Shown { name: self.name(), kind: self.kind.clone(), settings, applied: self.applied }
    }
}

/// The names of faults, each with its link.
#[must_use]
pub fn names(faults: &[InForce]) -> Vec<(String, String)> {
    faults.iter().map(|fault| (fault.link.clone(), fault.name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(kind: &str, settings: Value) -> Option<String> {
        check(kind, settings.as_object().unwrap()).err().map(|error| error.field)
    }

    #[test]
    fn a_wish_that_no_link_could_grant_is_refused_by_name() {
        assert_eq!(wrong("latency", json!({"latency_ms": 800, "jitter_ms": 0, "on": "request", "ratio": 0.5})), None);
        assert_eq!(wrong("refuse", json!({})), None);
        assert_eq!(wrong("earthquake", json!({})).as_deref(), Some("kind"));
        for (kind, settings, field) in [
            ("refuse", json!({"ratio": 0.5}), "settings.ratio"),
            ("latency", json!({"latency_ms": 0}), "settings.latency_ms"),
            ("latency", json!({"latency_ms": 1.5}), "settings.latency_ms"),
            ("latency", json!({"latency_ms": "800"}), "settings.latency_ms"),
            ("latency", json!({"on": "both"}), "settings.on"),
            ("http_status", json!({"status": 99}), "settings.status"),
            ("hang", json!({"link": "order->payment"}), "settings.link"),
        ] {
            assert_eq!(wrong(kind, settings).as_deref(), Some(field), "{kind}");
        }
    }

    #[test]
    fn every_default_is_a_setting_that_passes() {
        for kind in kinds() {
            let defaults = kind.settings.iter().filter(|setting| !setting.default.is_null());
            let defaults: Map<_, _> = defaults.map(|s| (s.name.to_owned(), s.default.clone())).collect();
            assert_eq!(check(kind.kind, &defaults), Ok(()), "{}", kind.kind);
        }
    }

    #[test]
    fn a_fault_in_force_is_shown_by_what_was_set() {
        let told = json!({"items": [{
            "id": 7, "link": "order->payment", "kind": "latency", "latency_ms": 800, "jitter_ms": 0, "on": "reply",
            "ratio": 1.0, "seed": 3, "applied": 12, "active": true
        }]});
        let listed: Listed = serde_json::from_value(told).unwrap();
        let shown = listed.items[0].shown();
        assert_eq!((shown.name.as_str(), shown.applied), ("latency-7", 12));
        assert_eq!(
            Value::Object(shown.settings),
            json!({"latency_ms": 800, "jitter_ms": 0, "on": "reply", "ratio": 1.0})
        );
        assert_eq!(names(&listed.items), [("order->payment".to_owned(), "latency-7".to_owned())]);
    }
}
