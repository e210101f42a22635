//! Refunds of a charge. The provider knows each by its key, so that sending one again makes it once.

use chassis::{CallError, RequestContext};
use contracts::{
    headers,
    provider::{RefundReply, RefundRequest},
};
use reqwest::Method;
use serde_json::Value;

use super::{Provider, is_word};
use crate::domain::refund::Refund;

/// What the provider says of a refund.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refunding {
    Made {
        provider_refund_ref: Option<String>,
    },
    Refused,
    /// No answer, or none that tells: it is sent again.
    Unanswered,
}

impl Provider {
    /// Sends a refund. To be called when it is durable that it may have been sent.
    pub async fn refund(&self, context: &RequestContext, refund: &Refund) -> Refunding {
        let path = format!("/v1/charges/{}/refunds", refund.provider_ref);
        let body = RefundRequest { amount_minor: refund.amount_minor };
        let key = refund.id.to_string();
        let key = [(headers::IDEMPOTENCY_KEY, key.as_str())];
        let sent = self.questions.call_judged(context, Method::POST, &path, Some(&body), &key, answer).await;
        sent.unwrap_or(Refunding::Unanswered)
    }
}

fn answer(status: u16, body: &[u8]) -> Result<Refunding, CallError> {
    let unknown = |why: &str| Err(CallError::Unknown(format!("{status}: {why}")));
    match status {
        200..300 => match serde_json::from_slice::<RefundReply>(body) {
            Ok(RefundReply { id, .. }) => {
                Ok(Refunding::Made { provider_refund_ref: Some(id).filter(|id| is_word(id)) })
            }
            Err(_) => unknown("an unreadable answer"),
        },
        // Too many, or too slow, is no word on the refund.
        408 | 425 | 429 => unknown("not now"),
        400..500 => match serde_json::from_slice(body) {
            Ok(Value::Object(_)) => Ok(Refunding::Refused),
            _ => unknown("not the provider's own word"),
        },
        _ => unknown("neither made nor refused"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_providers_own_word_ends_a_refund() {
        let said = |status, body: &str| answer(status, body.as_bytes()).ok();
        let made = Refunding::Made { provider_refund_ref: Some("re_1".into()) };
        assert_eq!(said(200, r#"{"id":"re_1","charge_id":"ch_1","amount_minor":5}"#), Some(made));
        assert_eq!(said(422, r#"{"type":"urn:problem:validation-failed"}"#), Some(Refunding::Refused));
        for (status, body) in [(200, ""), (404, "<html>"), (429, "{}"), (408, "{}"), (500, "{}"), (302, "{}")] {
            assert_eq!(said(status, body), None, "{status} {body}");
        }
    }
}
