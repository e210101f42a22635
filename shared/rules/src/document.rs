//! From text to rules. A document says only what differs from the defaults, down to the single value; whatever is wrong
//! with it is told all at once, each with its path, its reason and its line.

use std::fmt;

use toml::{Table, Value, de::DeTable};

use crate::{
    Rules,
    path::{Path, line_at},
    validate,
};

/// A value that may not come into force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The key, as in the document. Empty where the text is no document at all.
    pub path: String,
    pub reason: String,
    /// From 1, where the document says it.
    pub line: Option<usize>,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.reason)
    }
}

/// A document that cannot come into force, with everything that is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", list(.violations))]
pub struct RulesError {
    pub violations: Vec<Invalid>,
}

fn list(violations: &[Invalid]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl Rules {
    /// Reads and validates a TOML document. What it does not say keeps its default, down to the single value.
    pub fn from_toml(text: &str) -> Result<Self, RulesError> {
        let mut violations = syntax(text);
        if !violations.is_empty() {
            return Err(RulesError { violations });
        }
        let rules = shape(text, &mut violations);
        if let Some(rules) = &rules {
            violations.extend(validate::violations(rules));
        }
        match rules {
            Some(rules) if violations.is_empty() => Ok(rules),
            _ => {
                for violation in violations.iter_mut().filter(|violation| violation.line.is_none()) {
                    violation.line = Path::parse(&violation.path).line(text);
                }
                // A document is corrected from top to bottom.
                violations.sort_by_key(|violation| violation.line.unwrap_or(usize::MAX));
                Err(RulesError { violations })
            }
        }
    }

    /// Everything that is wrong with rules that were put together in code.
    #[must_use]
    pub fn violations(&self) -> Vec<Invalid> {
        validate::violations(self)
    }
}

fn syntax(text: &str) -> Vec<Invalid> {
    let (_, errors) = DeTable::parse_recoverable(text);
    let violation = |error: toml::de::Error| Invalid {
        path: String::new(),
        reason: error.message().to_owned(),
        line: error.span().map(|span| line_at(text, span.start)),
    };
    errors.into_iter().map(violation).collect()
}

/// Unknown keys and wrong types. One that is found is told and taken out, and the rest is read again.
fn shape(text: &str, violations: &mut Vec<Invalid>) -> Option<Rules> {
    let mut refuse = |path: &Path, reason: &str| {
        violations.push(Invalid { path: path.to_string(), reason: reason.to_owned(), line: path.line(text) });
    };
    let nowhere = Path::parse("");
    let read = toml::from_str::<Table>(text).map_err(|error| error.message().to_owned());
    let defaults = Table::try_from(Rules::default()).map_err(|error| format!("the defaults are no TOML: {error}"));
    let (mut document, defaults) = match (read, defaults) {
        (Ok(document), Ok(defaults)) => (document, defaults),
        (Err(reason), _) | (_, Err(reason)) => {
            refuse(&nowhere, &reason);
            return None;
        }
    };
    // Ends, since every round takes something out of the document.
    loop {
        let mut whole = defaults.clone();
        overlay(&mut whole, document.clone());
        let error = match serde_path_to_error::deserialize::<_, Rules>(Value::Table(whole)) {
            Ok(rules) => return Some(rules),
            Err(error) => error,
        };
        let path = Path::of(error.path());
        refuse(&path, error.inner().message());
        if !path.remove_from(&mut document) {
            return None;
        }
    }
}

/// Lays `top` over `base`, table by table.
fn overlay(base: &mut Table, top: Table) {
    for (key, value) in top {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) if !replaces(&key, below, &above) => overlay(below, above),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Whether a table is one choice among several, and another choice than the default's: a limiter of another kind, or
/// a breaker's window that counts calls or time. Their fields do not mix.
fn replaces(key: &str, below: &Table, above: &Table) -> bool {
    let another_kind = above.get("kind").is_some_and(|kind| below.get("kind") != Some(kind));
    key == "window" || another_kind
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use resilience::{breaker::Window, rate_limit::LimiterConfig};

    use super::*;

    fn refused(text: &str) -> Vec<Invalid> {
        Rules::from_toml(text).unwrap_err().violations
    }

    #[test]
    fn an_empty_document_is_valid_and_means_the_defaults() {
        assert_eq!(Rules::from_toml("").unwrap(), Rules::default());
    }

    #[test]
    fn the_defaults_written_out_are_the_defaults() {
        let text = toml::to_string(&Rules::default()).unwrap();
        assert_eq!(Rules::from_toml(&text).unwrap(), Rules::default());
    }

    #[test]
    fn every_unknown_key_is_told_with_its_line() {
        let text = "[recover]\nintervall_ms = 5\n\n[downstream.mail]\ntimeout_ms = 5\n\n[downstream.payment.breaker]\nfailure_ration = 0.5\n";
        let told: Vec<_> = refused(text).into_iter().map(|v| (v.path, v.line)).collect();
        let expected =
            [("recover.intervall_ms", 2), ("downstream.mail", 4), ("downstream.payment.breaker.failure_ration", 8)];
        assert_eq!(told, expected.map(|(path, line)| (path.to_owned(), Some(line))));
    }

    #[test]
    fn wrong_types_and_bad_values_are_told_together() {
        let text = "[service.order]\nmax_in_flight = \"many\"\n[downstream.payment.breaker]\nslow_ratio = 1.5\n";
        let told: Vec<_> = refused(text).into_iter().map(|v| (v.path, v.line)).collect();
        let expected = [("service.order.max_in_flight", 2), ("downstream.payment.breaker.slow_ratio", 4)];
        assert_eq!(told, expected.map(|(path, line)| (path.to_owned(), Some(line))));
    }

    #[test]
    fn what_is_no_toml_is_told_with_its_line() {
        let told = refused("[recover]\ninterval_ms = \n");
        assert_eq!((told[0].path.as_str(), told[0].line), ("", Some(2)));
    }

    #[test]
    fn a_value_can_be_overridden_alone() {
        let rules = Rules::from_toml("[downstream.payment]\ntimeout_ms = 1900\nattempt_timeout_ms = 1900").unwrap();
        assert_eq!(rules.downstream.payment.timeout.as_millis(), 1900);
        assert_eq!(rules.downstream.payment.bulkhead, Rules::default().downstream.payment.bulkhead);
        let rules = Rules::from_toml("[downstream.payment]\nconnect_timeout_ms = 100").unwrap();
        assert_eq!(rules.downstream.payment.timeout, Rules::default().downstream.payment.timeout);
        let rules = Rules::from_toml("[route.\"POST /v1/orders\"]\nmin_useful_budget_ms = 50").unwrap();
        assert_eq!(rules.route("POST", "/v1/orders").timeout.as_millis(), 3_000);
        assert_eq!(rules.downstream.inventory, Rules::default().downstream.inventory);
        let rules = Rules::from_toml("[key_limits.user.default]\nper_second = 5").unwrap();
        assert_eq!((rules.key_limits.user.default.per_second, rules.key_limits.user.default.burst), (5.0, 20));
    }

    #[test]
    fn a_route_without_a_rule_of_its_own_can_be_given_one() {
        let rules = Rules::from_toml("[route.\"GET /v1/stock/{sku}\"]\ntimeout_ms = 300").unwrap();
        assert_eq!(rules.route("GET", "/v1/stock/{sku}").timeout, Duration::from_millis(300));
        assert_eq!(rules.route("GET", "/v1/stock"), &crate::Route::default());
    }

    #[test]
    fn another_kind_of_limiter_or_window_replaces_the_default_whole() {
        let text = "[route.\"POST /v1/orders\"]\nlimit = { kind = \"sliding_window\", limit = 300, window_ms = 1000 }\n\
                    [downstream.payment.breaker]\nwindow = { span_ms = 60000 }";
        let rules = Rules::from_toml(text).unwrap();
        assert!(matches!(rules.place_order_route().limit, LimiterConfig::SlidingWindow(_)));
        assert_eq!(rules.downstream.payment.breaker.window, Window::SpanMs(60_000));
        let rules = Rules::from_toml("[route.\"POST /v1/orders\".limit]\nper_second = 30").unwrap();
        match rules.place_order_route().limit {
            LimiterConfig::TokenBucket(quota) => assert_eq!((quota.per_second, quota.burst), (30.0, 450)),
            other => panic!("{other:?}"),
        }
    }
}
