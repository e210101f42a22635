//! What a drill's file says. `docs/drills.md` explains every key.

mod check;
mod place;
mod read;

use std::{collections::BTreeMap, time::Duration};

use links::{FaultRequest, Side};
use serde::{Deserialize, Serialize};

pub use place::line_of;
pub use read::{Mistake, read};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its file's name.
    pub id: String,
    pub title: String,
    /// What happens and why it matters, for people.
    pub story: String,
    /// Where the story comes from.
    pub source: String,
    /// The page of the pattern that it is about.
    pub pattern: Option<String>,
    #[serde(default = "one")]
    pub seed: u64,
    /// Of everything, the start of the system included.
    pub max_duration: Span,
    #[serde(default)]
    pub stack: StackSpec,
    pub load: LoadSpec,
    /// Holds before anything is broken.
    pub steady_state: Vec<Check>,
    #[serde(default)]
    pub faults: Vec<FaultSpec>,
    /// Shows that what was broken was felt.
    #[serde(default)]
    pub proof: Vec<Check>,
    pub expect: Vec<Check>,
    /// How long after the last fault the steady state may take to hold again, and to go on holding.
    pub recovery_within: Option<Span>,
    /// Ends the drill early.
    #[serde(default)]
    pub abort_if: Vec<Check>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StackSpec {
    pub replicas: BTreeMap<String, u16>,
    pub redis: bool,
    /// A rules document: only what differs from the defaults.
    pub rules: toml::Table,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// Requests a second, with `duration`; or `stages`.
    pub rate: Option<f64>,
    pub duration: Option<Span>,
    /// `10s:50`, `5s:50..200`.
    #[serde(default)]
    pub stages: Vec<String>,
    /// `16x@20s+5s`.
    pub spike: Option<String>,
    #[serde(default = "default_mix")]
    pub mix: String,
    #[serde(default = "default_users")]
    pub users: std::num::NonZeroU32,
    #[serde(default = "default_method")]
    pub payment_method: String,
    #[serde(default = "default_timeout")]
    pub timeout: Span,
    /// The first part of the run, which counts for nothing.
    #[serde(default = "default_warm_up")]
    pub warm_up: Span,
}

/// Something to break: a link, with the fields of the links' own API, or a process.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    /// From the start of the load.
    pub at: Span,
    #[serde(rename = "for")]
    pub lasts: Span,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// `payment`, `order:1`, `provider-primary`, `redis`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<Side>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
}

/// A figure and its bounds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    pub probe: ProbeKind,
    pub window: Option<Window>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// At most so many times what the same probe says of the time before.
    pub max_times_before: Option<f64>,
    pub min_times_before: Option<f64>,
    /// Of the load's answers, those to requests of this kind.
    pub request: Option<String>,
    /// Of the load's answers, those with one of these outcomes: `201`, `2xx`, `timed_out`, `not_sent`, `broken`.
    #[serde(default)]
    pub outcomes: Vec<String>,
    /// Of `latency`: 50, 99, 99.9 …
    pub percentile: Option<f64>,
    pub service: Option<String>,
    pub metric: Option<String>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    pub link: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// 2xx of all answers.
    #[default]
    SuccessRatio,
    /// 2xx a second.
    Goodput,
    /// How many answers have one of `outcomes`.
    Answers,
    /// Their share.
    Share,
    /// In milliseconds, from the intended start.
    Latency,
    /// By how much a counter rose, over all replicas.
    Metric,
    /// The highest value of a gauge.
    Gauge,
    /// How many requests or connections met the faults of `link`.
    FaultApplied,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    Before,
    During,
    After,
    Whole,
}

/// `500ms`, `10s`, `2m`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(pub Duration);

impl TryFrom<String> for Span {
    type Error = load::profile::BadProfile;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        load::profile::duration(&text).map(Self)
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        format!("{}ms", span.0.as_millis())
    }
}

impl FaultSpec {
    /// What the links are asked for. It removes itself some time after its end, should nobody be left to do so.
    #[must_use]
    pub fn request(&self, seed: u64) -> FaultRequest {
        const RESERVE: Duration = Duration::from_secs(10);
        FaultRequest {
            link: self.link.clone().unwrap_or_default(),
            kind: self.kind.clone(),
            ratio: self.ratio,
            seed: Some(seed),
            for_ms: u64::try_from((self.lasts.0 + RESERVE).as_millis()).ok(),
            latency_ms: self.latency_ms,
            jitter_ms: self.jitter_ms,
            on: self.on,
            status: self.status,
            delay_ms: self.delay_ms,
            bytes_per_second: self.bytes_per_second,
        }
    }

    #[must_use]
    pub fn end(&self) -> Duration {
        self.at.0 + self.lasts.0
    }
}

impl Default for StackSpec {
    fn default() -> Self {
        Self { replicas: BTreeMap::new(), redis: true, rules: toml::Table::new() }
    }
}

const fn one() -> u64 {
    1
}

fn default_mix() -> String {
    "default".to_owned()
}

fn default_users() -> std::num::NonZeroU32 {
    std::num::NonZeroU32::MIN.saturating_add(199)
}

fn default_method() -> String {
    "tok_approve".to_owned()
}

const fn default_timeout() -> Span {
    Span(Duration::from_secs(5))
}

const fn default_warm_up() -> Span {
    Span(Duration::from_secs(3))
}
