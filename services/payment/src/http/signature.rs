//! Whether a webhook is the provider's: a signature over the time and the body, by any of the secrets in use.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};

/// How far the time of a signature may lie from ours, in either direction: an old one may be a replay, one from the
/// future may be kept to become one.
pub const TOLERANCE_SECONDS: i64 = 300;
/// More signatures than any rotation needs.
const MAX_SIGNATURES: usize = 8;

/// What the provider signs with: several while keys rotate.
#[derive(Clone)]
pub struct Secrets(Vec<String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    #[must_use]
    pub const fn new(secrets: Vec<String>) -> Self {
        Self(secrets)
    }

    /// Whether `header` (`t=<unix>,v1=<hex>`, the latter once a key) signs `body`, at `now` in unix seconds.
    #[must_use]
    pub fn sign(&self, header: &str, body: &[u8], now: i64) -> bool {
        let Some((time, signatures)) = parse(header) else { return false };
        if now.abs_diff(time) > TOLERANCE_SECONDS.unsigned_abs() {
            return false;
        }
        // All are compared, each in constant time, so that the time taken tells nothing about any of them.
        let mut good = Choice::from(0);
        for secret in &self.0 {
            let expected = expected(secret, time, body);
            for signature in &signatures {
                good |= expected.as_slice().ct_eq(signature);
            }
        }
        good.into()
    }
}

fn expected(secret: &str, time: i64, body: &[u8]) -> Vec<u8> {
    // HMAC takes keys of any length, so the error branch is never taken; what it gives equals no signature.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return Vec::new() };
    mac.update(time.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    mac.finalize().into_bytes().to_vec()
}

/// The time, and the signatures of the one version that we know. Others may stand beside them.
fn parse(header: &str) -> Option<(i64, Vec<Vec<u8>>)> {
    let (mut time, mut signatures) = (None, Vec::new());
    for part in header.split(',') {
        match part.trim().split_once('=')? {
            ("t", value) if time.is_none() => time = Some(value.parse().ok()?),
            ("t", _) => return None,
            ("v1", value) if signatures.len() < MAX_SIGNATURES => {
                signatures.push(hex::decode(value).ok().filter(|bytes| bytes.len() == 32)?);
            }
            ("v1", _) => return None,
            _ => {}
        }
    }
    Some((time?, signatures))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = br#"{"a":1}"#;
    const AT: i64 = 1_700_000_000;
    /// printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac whsec_test
    const GOOD: &str = "38877139021993b830af32feea6e18a8da83eb2f6e49ee50bd9e4cf4ca4d3789";

    fn secrets() -> Secrets {
        Secrets::new(vec!["whsec_new".to_owned(), "whsec_test".to_owned()])
    }

    #[test]
    fn a_signature_by_any_secret_in_use_is_good_and_others_may_stand_beside_it() {
        let other = "0".repeat(64);
        for header in
            [format!("t={AT},v1={GOOD}"), format!("t={AT},v1={other},v1={GOOD},v0=old"), format!("v1={GOOD}, t={AT}")]
        {
            assert!(secrets().sign(&header, BODY, AT), "{header}");
        }
        assert!(!Secrets::new(vec!["whsec_new".to_owned()]).sign(&format!("t={AT},v1={GOOD}"), BODY, AT));
    }

    #[test]
    fn another_body_another_time_and_anything_unreadable_are_refused() {
        let header = format!("t={AT},v1={GOOD}");
        assert!(!secrets().sign(&header, br#"{"a":2}"#, AT));
        assert!(!secrets().sign(&format!("t={},v1={GOOD}", AT + 1), BODY, AT));
        for bad in [
            "",
            "t=1700000000",
            &format!("v1={GOOD}"),
            &format!("t=now,v1={GOOD}"),
            &format!("t={AT},t={AT},v1={GOOD}"),
            &format!("t={AT},v1={}", &GOOD[2..]),
            &format!("t={AT},v1=xyz"),
            &format!("t={AT}{}", format!(",v1={GOOD}").repeat(9)),
        ] {
            assert!(!secrets().sign(bad, BODY, AT), "{bad}");
        }
    }

    #[test]
    fn a_signature_from_too_long_ago_or_from_the_future_is_refused() {
        let header = format!("t={AT},v1={GOOD}");
        for (now, good) in [(AT + 300, true), (AT - 300, true), (AT + 301, false), (AT - 301, false)] {
            assert_eq!(secrets().sign(&header, BODY, now), good, "{now}");
        }
        assert!(!secrets().sign(&format!("t={},v1={GOOD}", i64::MIN), BODY, AT));
    }

    #[test]
    fn secrets_are_not_in_the_debug_output() {
        assert_eq!(format!("{:?}", secrets()), "Secrets(2)");
    }
}
