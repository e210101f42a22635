//! W3C Trace Context: which trace a piece of work belongs to, across HTTP and Kafka.

use std::{fmt, str::FromStr};

use uuid::Uuid;

/// The parsed `traceparent` header, version 00.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: u128,
    span_id: u64,
    flags: u8,
}

impl TraceContext {
    /// A new trace, sampled.
    #[must_use]
    pub fn root() -> Self {
        Self { trace_id: Uuid::new_v4().as_u128(), span_id: random_span_id(), flags: 1 }
    }

    /// The same trace, one span further in.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { span_id: random_span_id(), ..*self }
    }

    /// The 32 hex digits that logs and traces are searched by.
    #[must_use]
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace_id)
    }

    /// The 16 hex digits of this span, by which those within it name it as their parent.
    #[must_use]
    pub fn span_id(&self) -> String {
        format!("{:016x}", self.span_id)
    }

    /// The ids of the trace and of this span as numbers, for whoever writes them in a form of its own.
    #[must_use]
    pub const fn numbers(&self) -> (u128, u64) {
        (self.trace_id, self.span_id)
    }

    /// Whether whoever began the trace wants it recorded.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }
}

/// The lower half of a v4 UUID: 62 random bits and the fixed variant bits, so never the forbidden zero.
fn random_span_id() -> u64 {
    Uuid::new_v4().as_u64_pair().1
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The value does not follow the W3C grammar; whoever reads it starts a new trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent")]
pub struct NotATraceparent;

impl FromStr for TraceContext {
    type Err = NotATraceparent;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower_hex = |part: &str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let parts: Vec<&str> = text.split('-').collect();
        let [version, trace, span, flags, rest @ ..] = parts.as_slice() else { return Err(NotATraceparent) };
        let well_formed = version.len() == 2 && trace.len() == 32 && span.len() == 16 && flags.len() == 2;
        // A later version may append fields; version 00 may not, and ff is forbidden.
        let version_ok = *version != "ff" && (*version != "00" || rest.is_empty());
        if !well_formed || !version_ok || !parts.iter().take(4).all(|p| lower_hex(p)) {
            return Err(NotATraceparent);
        }
        let trace_id = u128::from_str_radix(trace, 16).map_err(|_| NotATraceparent)?;
        let span_id = u64::from_str_radix(span, 16).map_err(|_| NotATraceparent)?;
        let flags = u8::from_str_radix(flags, 16).map_err(|_| NotATraceparent)?;
        if trace_id == 0 || span_id == 0 { Err(NotATraceparent) } else { Ok(Self { trace_id, span_id, flags }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_example_of_the_standard_round_trips() {
        let example = EXAMPLE.parse::<TraceContext>().unwrap();
        assert_eq!(example.to_string(), EXAMPLE);
        assert_eq!((example.span_id().as_str(), example.is_sampled()), ("00f067aa0ba902b7", true));
        assert_eq!(example.numbers(), (0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7));
    }

    #[test]
    fn a_child_keeps_the_trace_and_changes_the_span() {
        let parent: TraceContext = EXAMPLE.parse().unwrap();
        let child = parent.child();
        assert_eq!(child.trace_id(), parent.trace_id());
        assert_ne!(child, parent);
    }

    #[test]
    fn malformed_values_are_refused() {
        for bad in [
            "",
            "00",
            "00-0-0-0",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-extra",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(bad.parse::<TraceContext>(), Err(NotATraceparent), "{bad}");
        }
    }
}
