//! The typed rule set: everything that governs traffic and that an operator may want to change.
//!
//! An empty document is valid: each value has a default, with its reason beside it. [`Rules::from_toml`] reads a
//! document, refuses unknown keys, and validates it as a whole, so that a bad one never comes into force.

mod millis;
mod schema;
mod validate;

pub use schema::{Cache, Database, Downstream, Downstreams, Idempotency, Messaging, Network, Recover, Route, Rules};
pub use validate::Invalid;

/// Where the rules in force came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    File,
    Default,
}

/// A document that cannot come into force.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    #[error("not a rules document: {0}")]
    Syntax(#[from] toml::de::Error),
    #[error("the defaults cannot be written as TOML: {0}")]
    Defaults(#[from] toml::ser::Error),
    #[error("{}", list(.0))]
    Invalid(Vec<Invalid>),
}

fn list(violations: &[Invalid]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Lays `top` over `base`, table by table.
fn overlay(base: &mut toml::Table, top: toml::Table) {
    for (key, value) in top {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => overlay(below, above),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

impl Rules {
    /// Reads and validates a TOML document. What it does not say keeps its default, down to the single value.
    pub fn from_toml(text: &str) -> Result<Self, RulesError> {
        // Read once as it stands, so that an error points at a line of the document, and once laid over the defaults.
        toml::from_str::<Self>(text)?;
        let mut whole = toml::Table::try_from(Self::default())?;
        overlay(&mut whole, toml::from_str(text)?);
        let rules: Self = whole.try_into()?;
        let violations = validate::violations(&rules);
        if violations.is_empty() { Ok(rules) } else { Err(RulesError::Invalid(violations)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_document_is_valid_and_means_the_defaults() {
        assert_eq!(Rules::from_toml("").unwrap(), Rules::default());
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        let error = Rules::from_toml("[recover]\nintervall_ms = 5").unwrap_err().to_string();
        assert!(error.contains("intervall_ms"), "{error}");
        let error = Rules::from_toml("[downstream.mail]\ntimeout_ms = 5").unwrap_err().to_string();
        assert!(error.contains("mail"), "{error}");
    }

    #[test]
    fn a_value_can_be_overridden_alone() {
        let rules = Rules::from_toml("[downstream.payment]\ntimeout_ms = 1900").unwrap();
        assert_eq!(rules.downstream.payment.timeout.as_millis(), 1900);
        let rules = Rules::from_toml("[downstream.payment]\nconnect_timeout_ms = 100").unwrap();
        assert_eq!(rules.downstream.payment.timeout, Rules::default().downstream.payment.timeout);
        let rules = Rules::from_toml("[route.\"POST /v1/orders\"]\nmin_useful_budget_ms = 50").unwrap();
        assert_eq!(rules.route("POST", "/v1/orders").timeout.as_millis(), 3_000);
        assert_eq!(rules.downstream.inventory, Rules::default().downstream.inventory);
    }

    #[test]
    fn an_inverted_timeout_hierarchy_is_refused_with_path_and_reason() {
        let error = Rules::from_toml("[downstream.provider]\ntimeout_ms = 2000").unwrap_err().to_string();
        assert!(error.contains("downstream.provider.timeout_ms") && error.contains("downstream.payment"), "{error}");
        let error = Rules::from_toml("[downstream.payment]\ntimeout_ms = 2990").unwrap_err().to_string();
        assert!(error.contains("downstream.payment.timeout_ms") && error.contains("POST /v1/orders"), "{error}");
    }

    #[test]
    fn a_zero_duration_is_refused() {
        let error = Rules::from_toml("[recover]\ninterval_ms = 0").unwrap_err().to_string();
        assert!(error.contains("recover.interval_ms"), "{error}");
    }
}
