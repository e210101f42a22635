//! Versions of the rules: what services hear from the console and tell it, and what operators say to it.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    FieldError, Service,
    validate::{Validate, Violations},
};

/// The longest that a question for news may wait.
pub const MAX_WAIT_MS: u64 = 30_000;
/// The longest owner, in characters.
pub const MAX_OWNER: usize = 100;
/// The longest reason, in characters.
pub const MAX_REASON: usize = 200;
/// Instances that one canary may name.
pub const MAX_CANARIES: usize = 100;
/// Where rules can come from, as services call it.
pub const ORIGINS: [&str; 4] = ["console", "last_known_good", "file", "default"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VersionState {
    /// Written, and in force nowhere.
    Draft,
    /// In force on the instances that it names.
    Canary,
    /// In force everywhere else.
    Active,
    /// Was in force until a newer one was.
    Superseded,
    /// Taken back. Its number stays, and it does not come back.
    RolledBack,
}

impl VersionState {
    pub const ALL: [Self; 5] = [Self::Draft, Self::Canary, Self::Active, Self::Superseded, Self::RolledBack];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Canary => "canary",
            Self::Active => "active",
            Self::Superseded => "superseded",
            Self::RolledBack => "rolled_back",
        }
    }
}

/// The rules that an instance is to run on: `GET /v1/rules/current`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CurrentRules {
    pub version: i64,
    /// TOML, word for word as it was published.
    pub document: String,
    /// `canary` where the instance is one of those that try it out, `active` otherwise.
    pub state: VersionState,
}

/// What an instance runs on now: `POST /v1/rules/applied`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppliedRules {
    #[schema(value_type = String)]
    pub service: Service,
    #[schema(min_length = 1, max_length = 64)]
    pub instance: String,
    #[schema(minimum = 0)]
    pub version: i64,
    /// `console`, `last_known_good`, `file` or `default`.
    pub origin: String,
    /// Why the version that it was given last did not come into force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2000)]
    pub error: Option<String>,
}

impl AppliedRules {
    /// The longest error, in characters; a longer one is cut by whoever reports it.
    pub const MAX_ERROR: usize = 2_000;
}

impl Validate for AppliedRules {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut violations = Violations::default();
        violations.code(&self.instance, "instance");
        violations.require(self.version >= 0, "version", "must not be negative");
        let known = ORIGINS.contains(&self.origin.as_str());
        violations.require(known, "origin", "must be console, last_known_good, file or default");
        let fits = self.error.as_ref().is_none_or(|error| error.chars().count() <= Self::MAX_ERROR);
        violations.require(fits, "error", "must have at most 2000 characters");
        violations.finish()
    }
}

/// A version in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    pub version: i64,
    pub state: VersionState,
    /// Who published it.
    pub author: String,
    /// Whom to ask about it.
    pub owner: String,
    pub reason: String,
    pub created_at: DateTime<Utc>,
    /// When it came into force everywhere, the last time.
    pub activated_at: Option<DateTime<Utc>>,
    /// The instances that try it out.
    pub canary: Option<Vec<String>>,
    /// The newest version when it was written.
    pub based_on: Option<i64>,
}

/// `GET /v1/rules`: newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Versions {
    pub items: Vec<Version>,
    pub next_cursor: Option<String>,
    /// The version in force.
    pub active: Option<i64>,
}

/// `GET /v1/rules/{version}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VersionWithDocument {
    #[serde(flatten)]
    pub item: Version,
    pub document: String,
}

/// `POST /v1/rules/validate`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidateRules {
    pub document: String,
}

impl Validate for ValidateRules {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        Ok(())
    }
}

/// Something in a document that may not come into force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DocumentError {
    /// The key, as in the document; empty where the text is no document at all.
    pub path: String,
    /// From 1, where the document says it.
    pub line: Option<usize>,
    pub detail: String,
}

/// The answer to [`ValidateRules`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Validity {
    pub valid: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<DocumentError>,
}

/// `POST /v1/rules`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishRules {
    pub document: String,
    #[schema(min_length = 1, max_length = 100)]
    pub owner: String,
    #[schema(min_length = 1, max_length = 200)]
    pub reason: String,
    /// The newest version that the writer has seen; null where there was none. Another one since is a conflict.
    pub based_on: Option<i64>,
}

impl Validate for PublishRules {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut violations = Violations::default();
        line(&self.owner, MAX_OWNER, "owner", &mut violations);
        reason(&self.reason, &mut violations);
        violations.finish()
    }
}

/// `POST /v1/rules/{version}/canary`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartCanary {
    /// By name: `order-0`.
    #[schema(min_items = 1, max_items = 100)]
    pub instances: Vec<String>,
    #[schema(min_length = 1, max_length = 200)]
    pub reason: String,
}

impl Validate for StartCanary {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut violations = Violations::default();
        let fits = (1..=MAX_CANARIES).contains(&self.instances.len());
        violations.require(fits, "instances", "must be 1 to 100 names");
        for (index, instance) in self.instances.iter().enumerate() {
            violations.code(instance, &format!("instances[{index}]"));
            let again = self.instances[..index].contains(instance);
            violations.require(!again, &format!("instances[{index}]"), "is named before");
        }
        reason(&self.reason, &mut violations);
        violations.finish()
    }
}

/// The body of what needs nothing but a reason: `…/promote`, `…/rollback`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Because {
    #[schema(min_length = 1, max_length = 200)]
    pub reason: String,
}

impl Validate for Because {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut violations = Violations::default();
        reason(&self.reason, &mut violations);
        violations.finish()
    }
}

/// `GET /v1/rules/{version}/diff`, with what the documents leave out filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Difference {
    /// The version that it is held against; null where that is the built-in defaults.
    pub against: Option<i64>,
    pub changes: Vec<Changed>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Changed {
    pub path: String,
    /// Null where it said nothing and there is no default.
    #[schema(value_type = Option<serde_json::Value>)]
    pub before: serde_json::Value,
    #[schema(value_type = Option<serde_json::Value>)]
    pub after: serde_json::Value,
}

/// `GET /v1/rules/instances`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Instances {
    pub items: Vec<Instance>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Instance {
    pub service: String,
    pub instance: String,
    /// What it runs on.
    pub version: i64,
    pub origin: String,
    /// When it said so.
    pub at: DateTime<Utc>,
    pub error: Option<String>,
    /// What it should run on; null where no version is in force for it.
    pub expected: Option<i64>,
}

/// `GET /v1/switches`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Switches {
    pub items: Vec<Switch>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Switch {
    pub feature: String,
    /// Where it stands in the version in force.
    pub value: String,
    /// From normal to the last resort.
    pub values: Vec<String>,
    pub normal: String,
}

/// `POST /v1/switches`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TurnSwitch {
    pub feature: String,
    pub value: String,
    #[schema(min_length = 1, max_length = 200)]
    pub reason: String,
}

impl Validate for TurnSwitch {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut violations = Violations::default();
        reason(&self.reason, &mut violations);
        violations.finish()
    }
}

/// `GET /v1/audit`: newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Audit {
    pub items: Vec<OperatorAction>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OperatorAction {
    pub at: DateTime<Utc>,
    pub operator: String,
    pub action: String,
    pub target: String,
    pub reason: String,
}

/// Why somebody acts, for whoever reads the history.
pub fn reason(text: &str, violations: &mut Violations) {
    line(text, MAX_REASON, "reason", violations);
}

fn line(text: &str, most: usize, field: &str, violations: &mut Violations) {
    let fits = !text.trim().is_empty() && text.chars().count() <= most && !text.chars().any(char::is_control);
    violations.require(fits, field, &format!("must be one line of 1 to {most} characters"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_line_that_says_something() {
        let because = |reason: &str| Because { reason: reason.to_owned() }.validate().is_ok();
        assert!(because("the provider is down") && because(&"ü".repeat(200)));
        for bad in ["", "  ", "two\nlines", "nul\0", &"x".repeat(201)] {
            assert!(!because(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_canary_names_each_instance_once() {
        let named = |names: &[&str]| {
            let instances = names.iter().map(|name| (*name).to_owned()).collect();
            StartCanary { instances, reason: "try".to_owned() }.validate().is_ok()
        };
        assert!(named(&["order-0", "order-1"]));
        assert!(!named(&[]) && !named(&["order-0", "order-0"]) && !named(&["order 0"]));
    }
}
