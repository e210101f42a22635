//! The payment methods that the simulator knows: what a test puts in an order to choose how its payment goes.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Approve,
    Decline,
    LostReply,
    LostRequest,
    Slow(Duration),
    Error(u16),
}

impl Method {
    const MAX_SLOW_MS: u64 = 60_000;

    /// `None` for a method that does not exist, or one whose number is out of its range.
    #[must_use]
    pub fn parse(token: &str) -> Option<Self> {
        match token.strip_prefix("tok_")? {
            "approve" => Some(Self::Approve),
            "decline" => Some(Self::Decline),
            "lost_reply" => Some(Self::LostReply),
            "lost_request" => Some(Self::LostRequest),
            other => {
                if let Some(ms) = other.strip_prefix("slow_") {
                    let ms = number(ms).filter(|ms| *ms <= Self::MAX_SLOW_MS)?;
                    Some(Self::Slow(Duration::from_millis(ms)))
                } else {
                    let status = number(other.strip_prefix("error_")?).and_then(|n| u16::try_from(n).ok())?;
                    (400..=599).contains(&status).then_some(Self::Error(status))
                }
            }
        }
    }
}

/// Digits alone: Rust's own parser also takes a leading `+`.
fn number(digits: &str) -> Option<u64> {
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_method_is_known() {
        assert_eq!(Method::parse("tok_approve"), Some(Method::Approve));
        assert_eq!(Method::parse("tok_decline"), Some(Method::Decline));
        assert_eq!(Method::parse("tok_lost_reply"), Some(Method::LostReply));
        assert_eq!(Method::parse("tok_lost_request"), Some(Method::LostRequest));
        assert_eq!(Method::parse("tok_slow_250"), Some(Method::Slow(Duration::from_millis(250))));
        assert_eq!(Method::parse("tok_error_503"), Some(Method::Error(503)));
    }

    #[test]
    fn anything_else_is_no_method() {
        for bad in [
            "",
            "tok_",
            "approve",
            "tok_Approve",
            "tok_slow_",
            "tok_slow_+5",
            "tok_slow_-1",
            "tok_slow_60001",
            "tok_slow_99999999999999999999",
            "tok_error_200",
            "tok_error_600",
            "tok_error_66036",
        ] {
            assert_eq!(Method::parse(bad), None, "{bad}");
        }
    }
}
