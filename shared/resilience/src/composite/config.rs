//! What a composite rule says, and whether it makes sense.

use std::{fmt, num::NonZeroU32, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::millis;

/// The length of a bucket: windows are whole numbers of it.
pub const BUCKET: Duration = Duration::from_secs(10);
/// The longest window: thirty buckets for each key.
pub const LONGEST_WINDOW: Duration = Duration::from_secs(300);

/// One rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompositeConfig {
    /// What is counted and judged by itself.
    pub per: Granularity,
    /// Only calls by this consumer; unset: by any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// Only calls of this API, such as `POST /v1/orders`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// Only calls to this provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Whether all conditions have to hold, or any.
    #[serde(default)]
    pub join: Join,
    pub conditions: Vec<Condition>,
    pub action: Action,
    /// How long the action holds. Then counting begins anew, from nothing.
    #[serde(rename = "recover_after_ms", default = "recover_after", with = "millis")]
    pub recover_after: Duration,
    /// Keys that are watched at the same time, at most. Calls of further ones are not judged, and counted as such.
    #[serde(default = "max_keys")]
    pub max_keys: NonZeroU32,
}

/// Half a minute: long enough for a pool to drain and a process to restart, and no one is shut out for long by chance.
const fn recover_after() -> Duration {
    Duration::from_secs(30)
}

/// A thousand keys at five minutes of buckets are some megabytes.
const fn max_keys() -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(999)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Granularity {
    ConsumerApiProvider,
    ApiProvider,
    Provider,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    #[default]
    All,
    Any,
}

/// `metric ≥ at_least` over the last `window`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    pub metric: Metric,
    /// A number of calls, a ratio, milliseconds or bytes, as the metric has it.
    pub at_least: f64,
    #[serde(rename = "window_ms", with = "millis")]
    pub window: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    Calls,
    Failures,
    FailureRatio,
    MeanLatencyMs,
    P99LatencyMs,
    Bytes,
}

/// What happens while the conditions hold. In a document: `reject`, `break` or `degrade:<feature>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The consumer is refused, as by a limiter.
    Reject,
    /// The provider is not called, as by a breaker.
    Break,
    /// The feature begins below its normal level.
    Degrade(String),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reject => f.write_str("reject"),
            Self::Break => f.write_str("break"),
            Self::Degrade(feature) => write!(f, "degrade:{feature}"),
        }
    }
}

impl FromStr for Action {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "reject" => Ok(Self::Reject),
            None if text == "break" => Ok(Self::Break),
            Some(("degrade", feature)) if !feature.is_empty() => Ok(Self::Degrade(feature.to_owned())),
            _ => Err(format!("`{text}` is no action: reject, break or degrade:<feature>")),
        }
    }
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A field with a value that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct InvalidComposite {
    /// As in `conditions[1].window_ms`.
    pub field: String,
    pub reason: String,
}

impl CompositeConfig {
    pub fn validate(&self) -> Result<(), InvalidComposite> {
        let refuse = |field: &str, reason: String| Err(InvalidComposite { field: field.to_owned(), reason });
        if self.conditions.is_empty() {
            return refuse("conditions", "a rule without conditions would always hold".into());
        }
        for (index, condition) in self.conditions.iter().enumerate() {
            let field = |name: &str| format!("conditions[{index}].{name}");
            let window = condition.window;
            if window.is_zero() || window.as_millis() % BUCKET.as_millis() != 0 || window > LONGEST_WINDOW {
                let reason = format!("{window:?} is not a multiple of {BUCKET:?} up to {LONGEST_WINDOW:?}");
                return refuse(&field("window_ms"), reason);
            }
            if !condition.at_least.is_finite() || condition.at_least <= 0.0 {
                return refuse(&field("at_least"), format!("{} is not greater than 0", condition.at_least));
            }
            if condition.metric == Metric::FailureRatio && condition.at_least > 1.0 {
                return refuse(&field("at_least"), format!("a ratio is never {}", condition.at_least));
            }
        }
        // One failure of one call is a ratio of 1, and one slow call a p99.
        let alone =
            |c: &Condition| matches!(c.metric, Metric::FailureRatio | Metric::MeanLatencyMs | Metric::P99LatencyMs);
        if self.join == Join::Any && self.conditions.iter().any(alone) || self.conditions.iter().all(alone) {
            return refuse(
                "conditions",
                "a ratio or a latency needs a number of calls, failures or bytes beside it".into(),
            );
        }
        if self.recover_after.is_zero() {
            return refuse("recover_after_ms", "must be greater than 0".into());
        }
        if self.max_keys.get() > 10_000 {
            return refuse("max_keys", format!("{} is more than 10000", self.max_keys));
        }
        // Whom a rule chooses by what it does not judge by, it would shut out together with everybody else.
        let by_consumer = self.per == Granularity::ConsumerApiProvider;
        let by_api = by_consumer || self.per == Granularity::ApiProvider;
        for (field, chosen, judged_by) in [("consumer", &self.consumer, by_consumer), ("api", &self.api, by_api)] {
            if chosen.is_some() && !judged_by {
                return refuse(field, "is not part of what the rule judges by, see per".into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = r#"
        per = "api_provider"
        api = "POST /v1/orders"
        conditions = [
            { metric = "calls", at_least = 20, window_ms = 60000 },
            { metric = "failure_ratio", at_least = 0.5, window_ms = 60000 },
        ]
        action = "degrade:coupon"
    "#;

    fn refused(replace: &str, with: &str) -> String {
        assert!(SOUND.contains(replace), "{replace}");
        let config: CompositeConfig = toml::from_str(&SOUND.replace(replace, with)).unwrap();
        config.validate().unwrap_err().field
    }

    #[test]
    fn a_document_is_read_and_written_back_the_same() {
        let config: CompositeConfig = toml::from_str(SOUND).unwrap();
        assert_eq!(config.validate(), Ok(()));
        assert_eq!((config.join, config.recover_after), (Join::All, Duration::from_secs(30)));
        assert_eq!(config.action, Action::Degrade("coupon".into()));
        assert_eq!(toml::from_str::<CompositeConfig>(&toml::to_string(&config).unwrap()).unwrap(), config);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_field() {
        assert_eq!(
            refused("window_ms = 60000 },\n            { metric = \"f", "window_ms = 15000 },\n { metric = \"f"),
            "conditions[0].window_ms"
        );
        assert_eq!(refused("0.5, window_ms = 60000", "0.5, window_ms = 310000"), "conditions[1].window_ms");
        assert_eq!(refused("at_least = 0.5", "at_least = 50"), "conditions[1].at_least");
        assert_eq!(refused("at_least = 0.5", "at_least = nan"), "conditions[1].at_least");
        assert_eq!(refused("{ metric = \"calls\", at_least = 20, window_ms = 60000 },", ""), "conditions");
        assert_eq!(refused("action", "join = \"any\"\naction"), "conditions");
        assert_eq!(refused("action", "recover_after_ms = 0\naction"), "recover_after_ms");
        assert_eq!(refused("action", "max_keys = 20000\naction"), "max_keys");
        assert_eq!(refused("\"api_provider\"", "\"provider\""), "api");
    }

    #[test]
    fn an_unknown_action_says_what_there_is() {
        for bad in ["degrade:", "degrade", "stop", "break:coupon", ""] {
            let error = toml::from_str::<CompositeConfig>(&SOUND.replace("degrade:coupon", bad)).unwrap_err();
            assert!(error.to_string().contains("reject, break or degrade:<feature>"), "{error}");
        }
    }
}
