//! What a drill's file says. `docs/drills.md` explains every key.

mod check;
mod control;
mod fault;
mod overlay;
mod place;
mod read;
mod traffic;

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

pub use check::stack as stack_mistakes;
pub use control::ControlSpec;
pub use fault::{CHANNELS, FaultSpec, Target};
pub use place::line_of;
pub use read::{Mistake, read};
pub use traffic::{HotSkuSpec, LoadSpec, RetrySpec};

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
    /// The same drill without the guard that it is about, where rules can take it out.
    pub control: Option<ControlSpec>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StackSpec {
    pub replicas: BTreeMap<String, u16>,
    pub redis: bool,
    /// With the console, which otherwise does not run.
    pub console: bool,
    /// How a channel of the payment provider behaves from the start on, by its name: `primary`, `backup`.
    pub provider: BTreeMap<String, toml::Table>,
    /// A rules document: only what differs from the defaults.
    pub rules: toml::Table,
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
    /// Of the load's answers, those to the user who wants most and for what everybody wants, or those of all others.
    pub hot: Option<bool>,
    /// Of the load's answers, those with one of these outcomes: `201`, `2xx`, `timed_out`, `not_sent`, `broken`.
    #[serde(default)]
    pub outcomes: Vec<String>,
    /// Of `latency` and `charge_delay`: 50, 99, 99.9 …
    pub percentile: Option<f64>,
    pub service: Option<String>,
    pub metric: Option<String>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The metric for each one of this.
    pub per: Option<Counter>,
    pub link: Option<String>,
}

/// A counter, summed over all replicas and over all samples that have the labels.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counter {
    pub service: String,
    pub metric: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
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
    /// How often clients asked for each thing that they wanted.
    Tries,
    /// How long after an order's request left its charge was decided at the provider, in milliseconds.
    ChargeDelay,
    /// At how many crash points a process died.
    Crashes,
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

impl Default for StackSpec {
    fn default() -> Self {
        Self {
            replicas: BTreeMap::new(),
            redis: true,
            console: false,
            provider: BTreeMap::new(),
            rules: toml::Table::new(),
        }
    }
}

const fn one() -> u64 {
    1
}
