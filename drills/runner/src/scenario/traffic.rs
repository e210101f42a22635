//! What a drill's load is: when, of what, by whom.

use std::num::NonZeroU32;

use load::{Choice, Crowd, Mix, Outcome, Profile, Retry, Spike, Stage, profile::BadProfile};
use serde::Deserialize;

use super::Span;

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
    pub users: NonZeroU32,
    /// `tok_approve`, or `tok_approve=8,tok_decline=2`.
    #[serde(default = "default_method")]
    pub payment_method: String,
    /// `WELCOME10`, or `WELCOME10=1,none=1`.
    #[serde(default = "default_coupon")]
    pub coupon: String,
    /// The share of all requests that one user makes.
    pub hot_user: Option<f64>,
    pub hot_sku: Option<HotSkuSpec>,
    /// How many times each order is sent, all at once and with one key.
    pub copies: Option<u32>,
    /// What clients do about an answer that they do not accept.
    pub retry: Option<RetrySpec>,
    #[serde(default = "default_timeout")]
    pub timeout: Span,
    /// What clients tell the system that they wait, if that is not what they do: less is what a caller does that has a
    /// reserve, more is what a gateway says for customers who lose their patience.
    pub announce: Option<Span>,
    /// The first part of the run, which counts for nothing.
    #[serde(default = "default_warm_up")]
    pub warm_up: Span,
}

/// What everybody wants.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotSkuSpec {
    pub sku: String,
    /// The share of orders that are for one of it and nothing else.
    pub share: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetrySpec {
    /// After the first try, at most.
    pub times: u32,
    #[serde(default = "default_pause")]
    pub pause: Span,
    /// `503`, `5xx`, `timed_out`, `not_sent`, `broken` …
    pub on: Vec<String>,
    /// Whether the client starts over with a new key instead of asking after what it had.
    #[serde(default)]
    pub new_key: bool,
}

/// More would be a load test of its own.
const MOST_COPIES: u32 = 200;
const MOST_RETRIES: u32 = 100;

impl LoadSpec {
    /// The profile, or the key that is wrong and why.
    pub fn profile(&self) -> Result<Profile, (&'static str, String)> {
        let stages: Vec<Stage> = self
            .stages
            .iter()
            .map(|stage| stage.parse::<Stage>())
            .collect::<Result<_, _>>()
            .map_err(|e| ("stages", e.to_string()))?;
        let profile = match (self.rate, self.duration, stages.is_empty()) {
            (Some(rate), Some(duration), true) => {
                Profile::steady(rate, duration.0).map_err(|e| ("rate", e.to_string()))
            }
            (None, None, false) => Profile::new(stages).map_err(|e| ("stages", e.to_string())),
            _ => Err(("rate", "a load has rate and duration, or stages".to_owned())),
        }?;
        match self.spike().transpose().map_err(|e| ("spike", e.to_string()))? {
            Some(spike) => profile.with_spike(spike).map_err(|e| ("spike", e.to_string())),
            None => Ok(profile),
        }
    }

    pub fn spike(&self) -> Option<Result<Spike, BadProfile>> {
        self.spike.as_ref().map(|spike| spike.parse())
    }

    #[must_use]
    pub fn crowd(&self) -> Crowd {
        let retry = self.retry.as_ref().map(|retry| Retry {
            times: retry.times,
            pause: retry.pause.0,
            on: retry.on.clone(),
            new_key: retry.new_key,
        });
        Crowd { hot_user: self.hot_user.unwrap_or(0.0), copies: self.copies.unwrap_or(1), retry }
    }

    /// Whether there is something to see without any fault.
    #[must_use]
    pub fn is_unusual(&self) -> bool {
        self.spike.is_some()
            || !self.stages.is_empty()
            || self.hot_user.is_some()
            || self.hot_sku.is_some()
            || self.copies.is_some()
    }

    /// What is wrong beside the profile: key and reason.
    pub(super) fn mistakes(&self) -> Vec<(String, String)> {
        let mut wrong = Vec::new();
        let mut say = |key: &str, reason: String| wrong.push((format!("load.{key}"), reason));
        if let Err(reason) = self.mix.parse::<Mix>() {
            say("mix", reason.to_string());
        }
        for (key, text) in [("payment_method", &self.payment_method), ("coupon", &self.coupon)] {
            if let Err(reason) = text.parse::<Choice>() {
                say(key, reason.to_string());
            }
        }
        let share = |share: f64| share > 0.0 && share <= 1.0;
        if self.hot_user.is_some_and(|hot| !share(hot)) {
            say("hot_user", "must be above 0 and at most 1".into());
        }
        if self.hot_sku.as_ref().is_some_and(|hot| !share(hot.share)) {
            say("hot_sku.share", "must be above 0 and at most 1".into());
        }
        if self.copies.is_some_and(|copies| !(2..=MOST_COPIES).contains(&copies)) {
            say("copies", format!("must be between 2 and {MOST_COPIES}"));
        }
        if let Some(retry) = &self.retry {
            if !(1..=MOST_RETRIES).contains(&retry.times) {
                say("retry.times", format!("must be between 1 and {MOST_RETRIES}"));
            }
            if retry.on.is_empty() || !retry.on.iter().all(|name| Outcome::is_name(name)) {
                say("retry.on", super::check::OUTCOMES.into());
            }
        }
        wrong
    }
}

fn default_mix() -> String {
    "default".to_owned()
}

fn default_users() -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(199)
}

fn default_method() -> String {
    "tok_approve".to_owned()
}

fn default_coupon() -> String {
    load::shop::NO_COUPON.to_owned()
}

const fn default_pause() -> Span {
    Span(std::time::Duration::ZERO)
}

const fn default_timeout() -> Span {
    Span(std::time::Duration::from_secs(5))
}

const fn default_warm_up() -> Span {
    Span(std::time::Duration::from_secs(3))
}
