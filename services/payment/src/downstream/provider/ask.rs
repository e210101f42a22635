//! Questions after a charge, and what the answers prove.
//!
//! "Not found" is evidence too, so it is believed only from the provider itself: a 404 without a JSON body may be a
//! proxy's. What it proves is decided elsewhere, with the time at which it was asked.

use chassis::{CallError, RequestContext};
use contracts::{AttemptId, provider::idempotency_key};
use reqwest::Method;
use serde_json::Value;

use super::{Evidence, Provider, verdict};

/// What a channel says of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    Approved {
        provider_ref: String,
    },
    Declined {
        code: String,
        provider_ref: Option<String>,
    },
    NotFound,
    /// No answer, or none that tells.
    Unanswered,
}

impl Provider {
    /// Asks the channel what became of an attempt. It has no effect there.
    pub async fn ask(&self, context: &RequestContext, id: AttemptId) -> Finding {
        let path = format!("/v1/charges/by-key/{}", idempotency_key(id));
        let asked = self.questions.call_judged(context, Method::GET, &path, None::<&()>, &[], answer).await;
        asked.unwrap_or(Finding::Unanswered)
    }
}

fn answer(status: u16, body: &[u8]) -> Result<Finding, CallError> {
    let unknown = |why: &str| Err(CallError::Unknown(format!("{status}: {why}")));
    match status {
        200 => match verdict(status, body)? {
            Evidence::Approved { provider_ref } => Ok(Finding::Approved { provider_ref }),
            Evidence::Declined { code, provider_ref } => Ok(Finding::Declined { code, provider_ref }),
            Evidence::NotDispatched(_) | Evidence::Unknown => unknown("no answer to the question"),
        },
        404 => match serde_json::from_slice(body) {
            Ok(Value::Object(_)) => Ok(Finding::NotFound),
            _ => unknown("not the provider's own word"),
        },
        _ => unknown("no answer to the question"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_providers_own_word_is_taken_and_nobody_elses() {
        let said = |status, body: &str| answer(status, body.as_bytes()).ok();
        let approved = Finding::Approved { provider_ref: "ch_1".into() };
        assert_eq!(said(200, r#"{"id":"ch_1","state":"approved"}"#), Some(approved));
        let declined = Finding::Declined { code: "no_funds".into(), provider_ref: Some("ch_1".into()) };
        assert_eq!(said(200, r#"{"id":"ch_1","state":"declined","decline_code":"no_funds"}"#), Some(declined));
        assert_eq!(said(404, r#"{"type":"urn:problem:not-found"}"#), Some(Finding::NotFound));
        for (status, body) in [
            (404, ""),
            (404, "<html>"),
            (404, "null"),
            (200, "{}"),
            (402, r#"{"decline_code":"no_funds"}"#),
            (410, "{}"),
            (500, r#"{"id":"ch_1","state":"approved"}"#),
        ] {
            assert_eq!(said(status, body), None, "{status} {body}");
        }
    }
}
