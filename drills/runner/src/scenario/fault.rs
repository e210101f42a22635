//! What is broken, when and for how long.

use std::{fmt, time::Duration};

use contracts::{provider::SetBehaviour, validate::Validate};
use links::{FaultRequest, Protocol, Side, hops};
use serde::{Deserialize, Serialize};

use super::{Span, overlay::overlaid};

/// Something to break: a link, with the fields of the links' own API; a process; a channel of the payment provider; or
/// the rules, in their file or as a version of the console's.
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
    /// Of a link or a process.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// `primary` or `backup`, which then behaves as `behaviour` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behaviour: Option<toml::Table>,
    /// On top of the stack's own rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<toml::Table>,
    /// On top of the stack's own rules, as a version that is taken back at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish: Option<toml::Table>,
    /// Of `publish`: the instances that try it out; none are all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// Of `crash_at`: where the process dies, one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<String>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u64>,
}

/// What a fault is done to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target<'a> {
    Link(&'a str),
    Process(&'a str),
    Provider(&'a str, &'a toml::Table),
    Rules(&'a toml::Table),
    Published(&'a toml::Table),
}

/// What can be done to a process.
pub const PROCESS_KINDS: [&str; 4] = ["kill", "stop", "restart", "crash_at"];
pub const CHANNELS: [&str; 2] = ["primary", "backup"];

impl FaultSpec {
    /// `None` if the file names none, or more than one.
    #[must_use]
    pub fn target(&self) -> Option<Target<'_>> {
        match (&self.link, &self.process, &self.provider, &self.rules, &self.publish) {
            (Some(link), None, None, None, None) => Some(Target::Link(link)),
            (None, Some(process), None, None, None) => Some(Target::Process(process)),
            (None, None, Some(channel), None, None) => Some(Target::Provider(channel, self.behaviour.as_ref()?)),
            (None, None, None, Some(rules), None) => Some(Target::Rules(rules)),
            (None, None, None, None, Some(rules)) => Some(Target::Published(rules)),
            _ => None,
        }
    }

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
            at_once: self.at_once,
        }
    }

    /// The whole document that is in force while it lasts.
    #[must_use]
    pub fn rules_on(&self, stack: &toml::Table) -> toml::Table {
        overlaid(stack, self.rules.as_ref().or(self.publish.as_ref()).unwrap_or(&toml::Table::new()))
    }

    #[must_use]
    pub fn end(&self) -> Duration {
        self.at.0 + self.lasts.0
    }

    /// What is wrong with it in a load that `ends` then: key and reason. The rules are looked at elsewhere.
    pub(super) fn mistakes(&self, ends: Duration) -> Vec<(String, String)> {
        let mut wrong = Vec::new();
        let mut say = |key: &str, reason: String| wrong.push((key.to_owned(), reason));
        if self.end() > ends {
            say("for", "must end before the load does".into());
        }
        let is_link = matches!(self.target(), Some(Target::Link(_)));
        match self.target() {
            Some(Target::Link(link)) => match hops::find(link) {
                None => {
                    let names: Vec<&str> = hops::ALL.iter().map(|hop| hop.name).collect();
                    say("link", format!("there is no such link; there are {}", names.join(", ")));
                }
                Some(hop) => {
                    for error in self.request(0).check(hop.protocol).err().into_iter().flatten() {
                        let key = if error.field == "for_ms" { "for" } else { &error.field };
                        say(key, error.detail);
                    }
                }
            },
            Some(Target::Process(_)) if !PROCESS_KINDS.contains(&self.kind.as_str()) => {
                say("kind", format!("must be one of {} for a process", PROCESS_KINDS.join(", ")));
            }
            Some(Target::Process(_)) => {}
            Some(Target::Provider(channel, behaviour)) => {
                if let Err(reason) = behaves(channel, behaviour) {
                    say("behaviour", reason);
                }
            }
            Some(Target::Rules(_) | Target::Published(_)) => {}
            None if self.provider.is_some() && self.behaviour.is_none() => {
                say("behaviour", "is what the provider is asked for".into());
            }
            None => {
                say("link", "a fault has a link, a process, a provider, rules or publish, and one of them alone".into())
            }
        }
        if !is_link && self.target().is_some() {
            // What belongs to links means nothing elsewhere.
            let bare = Self { link: Some(hops::ALL[0].name.into()), kind: "hang".into(), ..self.clone() };
            for error in bare.request(0).check(Protocol::Http).err().into_iter().flatten() {
                say(&error.field, "belongs to links".into());
            }
        }
        if self.process.is_none() && !is_link && !self.kind.is_empty() {
            say("kind", "belongs to links and processes".into());
        }
        if (self.kind == "crash_at" && self.process.is_some()) == self.points.is_empty() {
            say("points", "are what crash_at needs, and nothing else".into());
        }
        if self.publish.is_none() && !self.to.is_empty() {
            say("to", "belongs to publish".into());
        }
        wrong
    }
}

/// Whether a channel can be asked to behave so.
pub(super) fn behaves(channel: &str, behaviour: &toml::Table) -> Result<(), String> {
    if !CHANNELS.contains(&channel) {
        return Err(format!("there is no such channel; there are {}", CHANNELS.join(", ")));
    }
    let wanted: SetBehaviour = behaviour.clone().try_into().map_err(|e: toml::de::Error| e.message().to_owned())?;
    wanted.validate().map_err(|wrong| {
        let all: Vec<String> = wrong.iter().map(|error| format!("{} {}", error.field, error.detail)).collect();
        all.join(", ")
    })
}

impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.target() {
            Some(Target::Link(name) | Target::Process(name)) => write!(f, "{name} {}", self.kind),
            Some(Target::Provider(channel, behaviour)) => {
                let said: Vec<String> = behaviour.iter().map(|(name, value)| format!("{name} {value}")).collect();
                write!(f, "provider {channel}: {}", said.join(", "))
            }
            Some(Target::Rules(_)) => f.write_str("other rules"),
            Some(Target::Published(_)) if self.to.is_empty() => f.write_str("other rules, published"),
            Some(Target::Published(_)) => write!(f, "other rules, published to {}", self.to.join(", ")),
            None => f.write_str("nothing"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> Vec<(String, String)> {
        let fault: FaultSpec = toml::from_str(&format!("at = \"1s\"\nfor = \"2s\"\n{text}")).unwrap();
        fault.mistakes(Duration::from_secs(10))
    }

    fn keys(text: &str) -> Vec<String> {
        wrong(text).into_iter().map(|(key, _)| key).collect()
    }

    #[test]
    fn each_target_takes_what_is_its_own() {
        for good in [
            "link = 'order->payment'\nkind = 'latency'\nlatency_ms = 5",
            "link = 'order->inventory'\nkind = 'bottleneck'\nat_once = 2\nlatency_ms = 50",
            "process = 'order:1'\nkind = 'kill'",
            "process = 'payment'\nkind = 'crash_at'\npoints = ['payment.swept']",
            "provider = 'backup'\nbehaviour = { latency_ms = 100, webhook = 'duplicate' }",
            "rules = { database = { pool = 2 } }",
            "publish = { chain = { retries = 1 } }\nto = ['order-0']",
        ] {
            assert_eq!(wrong(good), [], "{good}");
        }
        for (bad, expected) in [
            ("link = 'order->payment'\nprocess = 'order'\nkind = 'kill'", vec!["link"]),
            ("process = 'order'\nkind = 'hang'", vec!["kind"]),
            ("process = 'order'\nkind = 'kill'\nlatency_ms = 5", vec!["latency_ms"]),
            ("link = '->redis'\nkind = 'bottleneck'\nat_once = 2\nlatency_ms = 50", vec!["kind"]),
            ("process = 'order'\nkind = 'crash_at'", vec!["points"]),
            ("process = 'order'\nkind = 'kill'\npoints = ['order.created']", vec!["points"]),
            ("rules = { database = { pool = 2 } }\nto = ['order-0']", vec!["to"]),
            ("publish = {}\nrules = {}", vec!["link"]),
            ("provider = 'primary'", vec!["behaviour"]),
            ("provider = 'third'\nbehaviour = { latency_ms = 1 }", vec!["behaviour"]),
            ("provider = 'primary'\nbehaviour = { latency = 1 }", vec!["behaviour"]),
            ("provider = 'primary'\nkind = 'kill'\nbehaviour = { latency_ms = 1 }", vec!["kind"]),
        ] {
            assert_eq!(keys(bad), expected, "{bad}");
        }
    }
}
