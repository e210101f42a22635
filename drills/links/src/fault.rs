//! What a link can be asked to do, and what is wrong with what it was asked.
//!
//! Drills write the same fields in their files, so the checks name fields and know nothing of HTTP.

use std::time::Duration;

use contracts::{FieldError, validate::Violations};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Http,
    Tcp,
}

/// A fault as it is asked for: what a kind does not use must be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRequest {
    pub link: String,
    pub kind: String,
    /// The share of requests (on TCP hops: of connections) that it strikes; 1 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Of its dice; if not given, one that follows from the process's seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// It removes itself after this, so that whoever asked for it may die.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Side>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u64>,
}

/// A fault that can be carried out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fault {
    #[serde(flatten)]
    pub effect: Effect,
    pub ratio: f64,
    #[serde(skip)]
    pub seed: Option<u64>,
    #[serde(skip)]
    pub lasts: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Effect {
    Latency { latency_ms: u64, jitter_ms: u64, on: Side },
    Refuse,
    Reset,
    Hang,
    HttpStatus { status: u16 },
    LoseReply,
    Duplicate { delay_ms: u64 },
    Bandwidth { bytes_per_second: u64 },
    Bottleneck { at_once: u64, latency_ms: u64 },
}

/// What waits. A late answer is news of work that was done; a late request is work that begins late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Request,
    #[default]
    Reply,
}

const LONGEST_MS: u64 = 600_000;
/// More at a time is no bottleneck.
const WIDEST: u64 = 10_000;

impl Effect {
    pub const KINDS: [&'static str; 9] =
        ["latency", "refuse", "reset", "hang", "http_status", "lose_reply", "duplicate", "bandwidth", "bottleneck"];

    /// The place of its kind in [`Self::KINDS`].
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Latency { .. } => 0,
            Self::Refuse => 1,
            Self::Reset => 2,
            Self::Hang => 3,
            Self::HttpStatus { .. } => 4,
            Self::LoseReply => 5,
            Self::Duplicate { .. } => 6,
            Self::Bandwidth { .. } => 7,
            Self::Bottleneck { .. } => 8,
        }
    }

    #[must_use]
    pub const fn kind(self) -> &'static str {
        Self::KINDS[self.index()]
    }
}

impl FaultRequest {
    /// The fault on a hop of this protocol, or everything that is wrong with the request.
    pub fn check(&self, protocol: Protocol) -> Result<Fault, Vec<FieldError>> {
        let mut bad = Violations::default();
        let effect = self.effect(&mut bad);
        if let Some(effect) = effect {
            self.check_fit(effect, protocol, &mut bad);
        }
        let ratio = self.ratio.unwrap_or(1.0);
        bad.require(ratio > 0.0 && ratio <= 1.0, "ratio", "must be above 0 and at most 1");
        let lasts = self.for_ms.is_none_or(|ms| (1..=LONGEST_MS).contains(&ms));
        bad.require(lasts, "for_ms", "must be from 1 to 600000");
        bad.finish()?;
        let lasts = self.for_ms.map(Duration::from_millis);
        // Without an effect there was a violation.
        effect.map(|effect| Fault { effect, ratio, seed: self.seed, lasts }).ok_or_else(Vec::new)
    }

    fn effect(&self, bad: &mut Violations) -> Option<Effect> {
        let mut needed = |value: Option<u64>, field: &str, range: std::ops::RangeInclusive<u64>| match value {
            Some(value) if range.contains(&value) => value,
            Some(_) => {
                bad.push(field, format!("must be from {} to {}", range.start(), range.end()));
                *range.start()
            }
            None => {
                bad.push(field, format!("is needed by `{}`", self.kind));
                *range.start()
            }
        };
        Some(match self.kind.as_str() {
            "latency" => {
                let latency_ms = needed(self.latency_ms, "latency_ms", 1..=LONGEST_MS);
                let jitter_ms = needed(self.jitter_ms.or(Some(0)), "jitter_ms", 0..=latency_ms);
                Effect::Latency { latency_ms, jitter_ms, on: self.on.unwrap_or_default() }
            }
            "refuse" => Effect::Refuse,
            "reset" => Effect::Reset,
            "hang" => Effect::Hang,
            "http_status" => {
                let status = needed(self.status.map(u64::from), "status", 200..=599);
                Effect::HttpStatus { status: u16::try_from(status).unwrap_or(503) }
            }
            "lose_reply" => Effect::LoseReply,
            "duplicate" => {
                Effect::Duplicate { delay_ms: needed(self.delay_ms.or(Some(0)), "delay_ms", 0..=LONGEST_MS) }
            }
            "bandwidth" => {
                let bytes_per_second = needed(self.bytes_per_second, "bytes_per_second", 1..=1 << 40);
                Effect::Bandwidth { bytes_per_second }
            }
            "bottleneck" => {
                let at_once = needed(self.at_once, "at_once", 1..=WIDEST);
                Effect::Bottleneck { at_once, latency_ms: needed(self.latency_ms, "latency_ms", 1..=LONGEST_MS) }
            }
            _ => {
                bad.push("kind", format!("must be one of {}", Effect::KINDS.join(", ")));
                return None;
            }
        })
    }

    fn check_fit(&self, effect: Effect, protocol: Protocol, bad: &mut Violations) {
        let bottleneck = matches!(effect, Effect::Bottleneck { .. });
        let http_alone = bottleneck || matches!(effect, Effect::HttpStatus { .. } | Effect::Duplicate { .. });
        if http_alone && protocol == Protocol::Tcp {
            bad.push("kind", format!("`{}` needs an HTTP hop, and this is a TCP hop", self.kind));
        }
        if effect == Effect::Refuse && self.ratio.is_some_and(|ratio| ratio < 1.0) {
            bad.push("ratio", "must be 1 for `refuse`: a listener is open or it is not");
        }
        let latency = matches!(effect, Effect::Latency { .. });
        let given = [
            ("latency_ms", self.latency_ms.is_some(), latency || bottleneck),
            ("jitter_ms", self.jitter_ms.is_some(), latency),
            ("on", self.on.is_some(), latency),
            ("status", self.status.is_some(), matches!(effect, Effect::HttpStatus { .. })),
            ("delay_ms", self.delay_ms.is_some(), matches!(effect, Effect::Duplicate { .. })),
            ("bytes_per_second", self.bytes_per_second.is_some(), matches!(effect, Effect::Bandwidth { .. })),
            ("at_once", self.at_once.is_some(), bottleneck),
        ];
        for (field, _, _) in given.iter().filter(|(_, given, used)| *given && !used) {
            bad.push(*field, format!("means nothing to `{}`", self.kind));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(kind: &str) -> FaultRequest {
        FaultRequest { link: "order->payment".into(), kind: kind.into(), ..FaultRequest::default() }
    }

    fn fields(request: &FaultRequest, protocol: Protocol) -> Vec<String> {
        request.check(protocol).unwrap_err().into_iter().map(|e| e.field).collect()
    }

    #[test]
    fn every_kind_can_be_asked_for_with_what_it_needs_alone() {
        let full = FaultRequest { latency_ms: Some(10), ..wanted("latency") };
        assert_eq!(
            full.check(Protocol::Tcp).unwrap().effect,
            Effect::Latency { latency_ms: 10, jitter_ms: 0, on: Side::Reply }
        );
        for kind in ["refuse", "reset", "hang", "lose_reply", "duplicate"] {
            assert_eq!(wanted(kind).check(Protocol::Http).unwrap().effect.kind(), kind);
        }
        let status = FaultRequest { status: Some(503), ratio: Some(0.5), ..wanted("http_status") };
        assert_eq!(status.check(Protocol::Http).unwrap().effect, Effect::HttpStatus { status: 503 });
        let slow = FaultRequest { bytes_per_second: Some(9), ..wanted("bandwidth") };
        assert_eq!(slow.check(Protocol::Tcp).unwrap().effect.kind(), "bandwidth");
        let narrow = FaultRequest { at_once: Some(2), latency_ms: Some(50), ..wanted("bottleneck") };
        let effect = narrow.check(Protocol::Http).unwrap().effect;
        assert_eq!(effect, Effect::Bottleneck { at_once: 2, latency_ms: 50 });
        assert_eq!(Effect::KINDS[effect.index()], "bottleneck");
    }

    #[test]
    fn what_is_wrong_is_named_all_at_once() {
        let bad = FaultRequest { ratio: Some(0.0), status: Some(503), for_ms: Some(0), ..wanted("latency") };
        assert_eq!(fields(&bad, Protocol::Http), ["latency_ms", "status", "ratio", "for_ms"]);
        assert_eq!(fields(&wanted("explode"), Protocol::Http), ["kind"]);
        let jittery = FaultRequest { latency_ms: Some(10), jitter_ms: Some(11), ..wanted("latency") };
        assert_eq!(fields(&jittery, Protocol::Http), ["jitter_ms"]);
        let shut = FaultRequest { at_once: Some(0), ..wanted("bottleneck") };
        assert_eq!(fields(&shut, Protocol::Http), ["at_once", "latency_ms"]);
        let wide = FaultRequest { at_once: Some(2), ..wanted("hang") };
        assert_eq!(fields(&wide, Protocol::Http), ["at_once"]);
    }

    #[test]
    fn what_only_http_has_is_refused_on_a_tcp_hop_and_half_a_refusal_everywhere() {
        assert_eq!(fields(&wanted("duplicate"), Protocol::Tcp), ["kind"]);
        let narrow = FaultRequest { at_once: Some(2), latency_ms: Some(50), ..wanted("bottleneck") };
        assert_eq!(fields(&narrow, Protocol::Tcp), ["kind"]);
        let half = FaultRequest { ratio: Some(0.5), ..wanted("refuse") };
        assert_eq!(fields(&half, Protocol::Http), ["ratio"]);
    }
}
