//! `RateLimit-Policy` and `RateLimit` of the IETF draft: lists of structured fields, one member a policy.
//!
//! `"user";q=20;w=2`: 20 are earned in 2 s. `"user";r=5;t=2`: 5 are left, and all are back in 2 s. Times are rounded up,
//! as `Retry-After` is, so that who obeys one never comes too early for the other.

use std::{fmt::Write, time::Duration};

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use resilience::rate_limit::{Admitted, RateLimited};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The limits that a request passed.
#[derive(Debug, Default)]
pub(super) struct Governed {
    policies: String,
    limits: String,
}

impl Governed {
    /// The one limit that refused. The others are left out: their reset may lie behind this refusal's `Retry-After`.
    pub fn by(policy: &str, limited: &RateLimited) -> Self {
        let mut governed = Self::default();
        governed.push(policy, limited.limit, limited.window, limited.remaining, limited.reset);
        governed
    }

    pub fn add(&mut self, policy: &str, admitted: &Admitted) {
        self.push(policy, admitted.limit, admitted.window, admitted.remaining, admitted.reset);
    }

    pub fn write(&self, headers: &mut HeaderMap) {
        for (name, text) in [(POLICY, &self.policies), (LIMIT, &self.limits)] {
            if let Ok(value) = HeaderValue::from_str(text)
                && !text.is_empty()
            {
                headers.insert(name, value);
            }
        }
    }

    pub fn push(&mut self, policy: &str, limit: u32, window: Duration, remaining: u32, reset: Duration) {
        let comma = if self.limits.is_empty() { "" } else { ", " };
        // Writing into a string does not fail.
        let _ = write!(self.policies, "{comma}\"{policy}\";q={limit};w={}", seconds(window).max(1));
        let _ = write!(self.limits, "{comma}\"{policy}\";r={remaining};t={}", seconds(reset));
    }
}

fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_a_member_and_times_are_rounded_up() {
        let admitted = |limit, reset| Admitted { limit, window: Duration::from_millis(1_500), remaining: 4, reset };
        let mut governed = Governed::default();
        governed.add("user", &admitted(20, Duration::from_millis(1)));
        governed.add("route", &admitted(450, Duration::ZERO));
        let mut headers = HeaderMap::new();
        governed.write(&mut headers);
        assert_eq!(headers.get(POLICY).unwrap(), "\"user\";q=20;w=2, \"route\";q=450;w=2");
        assert_eq!(headers.get(LIMIT).unwrap(), "\"user\";r=4;t=1, \"route\";r=4;t=0");
        let mut none = HeaderMap::new();
        Governed::default().write(&mut none);
        assert!(none.is_empty());
    }
}
