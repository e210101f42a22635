//! Header names, and the one header whose value has a grammar of its own: the idempotency key.

use std::fmt;

/// Milliseconds that the caller will still wait. Relative, so that clocks need not agree; Envoy's name, so that a
/// gateway sets it for us.
pub const EXPECTED_TIMEOUT_MS: &str = "x-envoy-expected-rq-timeout-ms";
/// Retries left for the whole chain of calls (request).
pub const RETRY_BUDGET: &str = "x-retry-budget";
/// What is left of the retry budget (answer, to internal callers only).
pub const RETRY_LEFT: &str = "x-retry-left";
/// `critical` or `sheddable`.
pub const CRITICALITY: &str = "x-criticality";
/// W3C Trace Context.
pub const TRACEPARENT: &str = "traceparent";
/// Echoed on every answer.
pub const REQUEST_ID: &str = "x-request-id";
/// Required on `POST /v1/orders`.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// `true` on an answer that repeats an earlier outcome.
pub const IDEMPOTENT_REPLAYED: &str = "idempotent-replayed";
/// The provider's signature over a webhook: `t=<unix>,v1=<hex hmac-sha256 of "t.body">`.
pub const PROVIDER_SIGNATURE: &str = "provider-signature";
/// The media type of a problem body (RFC 9457).
pub const PROBLEM_JSON: &str = "application/problem+json";

/// A client's idempotency key: 1 to 255 visible ASCII characters.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

/// The header's value is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an idempotency key is 1 to 255 visible ASCII characters, bare or as a quoted string")]
pub struct NotAnIdempotencyKey;

impl IdempotencyKey {
    pub const MAX_LEN: usize = 255;

    /// Reads the IETF draft's form, a quoted structured-field string, and the bare form that most clients send.
    /// Both spellings of one key are the same key.
    pub fn parse(value: &str) -> Result<Self, NotAnIdempotencyKey> {
        let value = value.trim_matches([' ', '\t']);
        let key = match value.strip_prefix('"') {
            Some(rest) => unquote(rest.strip_suffix('"').ok_or(NotAnIdempotencyKey)?)?,
            None => value.to_owned(),
        };
        let visible = key.bytes().all(|b| b.is_ascii_graphic());
        if visible && (1..=Self::MAX_LEN).contains(&key.len()) { Ok(Self(key)) } else { Err(NotAnIdempotencyKey) }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdempotencyKey({})", self.0)
    }
}

/// Undoes the two escapes of a structured-field string, `\"` and `\\`; anything else after a backslash is an error.
fn unquote(inner: &str) -> Result<String, NotAnIdempotencyKey> {
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('"' | '\\')) => out.push(escaped),
                _ => return Err(NotAnIdempotencyKey),
            },
            '"' => return Err(NotAnIdempotencyKey),
            other => out.push(other),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quoted_and_the_bare_spelling_are_one_key() {
        assert_eq!(IdempotencyKey::parse("\"abc-1\""), IdempotencyKey::parse("abc-1"));
        assert_eq!(IdempotencyKey::parse(r#""a\"b\\c""#).unwrap().as_str(), r#"a"b\c"#);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let long = "k".repeat(256);
        for bad in ["", "  ", "\"\"", "\"", "\"open", "a b", "\"a b\"", "ключ", r#""a"b""#, r#""a\n""#, long.as_str()]
        {
            assert_eq!(IdempotencyKey::parse(bad), Err(NotAnIdempotencyKey), "{bad:?}");
        }
        assert!(IdempotencyKey::parse(&"k".repeat(255)).is_ok());
    }
}
