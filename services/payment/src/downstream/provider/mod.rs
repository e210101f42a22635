//! The payment provider: one call to charge, and what its end proves; `ask` for what became of it, `give_back` for
//! refunds, `ledger` for everything.
//!
//! Only two things prove an outcome: an answer that says `approved` or `declined`, and a refusal (4xx) that carries a
//! decline code. A 4xx without one may be a proxy's, or a complaint about a request whose first copy was charged; like
//! a 5xx, a timeout and an answer that cannot be read it leaves the outcome unknown. Only a request that was never
//! sent proves that nothing happened. Nothing is sent a second time from here.

mod ask;
mod give_back;
mod ledger;

pub use ask::Finding;
pub use give_back::Refunding;

use chassis::{CallError, Downstream, NotSent, RequestContext};
use contracts::{
    AttemptId, headers,
    payment::{Channel, Charge, NotDispatchedReason},
    provider::{ChargeReply, ChargeRequest, ChargeState, idempotency_key},
};
use reqwest::Method;
use serde::Deserialize;

/// One channel to the provider. What asks after charges has guards of its own, or it would be cut off with them just
/// when it is needed.
#[derive(Clone)]
pub struct Provider {
    channel: Channel,
    charges: Downstream,
    questions: Downstream,
    ledgers: Downstream,
}

/// Both channels.
#[derive(Clone)]
pub struct Providers {
    pub primary: Provider,
    pub backup: Provider,
}

impl Providers {
    #[must_use]
    pub fn at(&self, channel: Channel) -> &Provider {
        match channel {
            Channel::Primary => &self.primary,
            Channel::Backup => &self.backup,
        }
    }
}

/// What the end of a call proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    Approved { provider_ref: String },
    Declined { code: String, provider_ref: Option<String> },
    NotDispatched(NotDispatchedReason),
    Unknown,
}

/// The longest reference or code that is believed.
const MAX_WORD: usize = 255;
/// For a decline that gives no code.
pub const UNSPECIFIED: &str = "unspecified";

impl Provider {
    #[must_use]
    pub fn new(channel: Channel, charges: Downstream, questions: Downstream, ledgers: Downstream) -> Self {
        Self { channel, charges, questions, ledgers }
    }

    #[must_use]
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// No charge would get out now.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.charges.is_cut_off()
    }

    /// Charges once. To be called when the intent is durable, and at most once a dispatch.
    pub async fn charge(&self, context: &RequestContext, id: AttemptId, charge: &Charge) -> Evidence {
        let request = ChargeRequest {
            amount_minor: charge.amount_minor,
            currency: charge.currency,
            payment_method: charge.payment_method.clone(),
            reference: charge.order_id.to_string(),
        };
        let key = idempotency_key(id);
        let key = [(headers::IDEMPOTENCY_KEY, key.as_str())];
        let called =
            self.charges.call_judged(context, Method::POST, "/v1/charges", Some(&request), &key, verdict).await;
        match called {
            Ok(evidence) => evidence,
            Err(CallError::NotSent(why)) => Evidence::NotDispatched(match why {
                NotSent::BreakerOpen => NotDispatchedReason::BreakerOpen,
                NotSent::BulkheadFull => NotDispatchedReason::BulkheadFull,
                NotSent::RateLimited => NotDispatchedReason::RateLimited,
                NotSent::Connect => NotDispatchedReason::ConnectFailed,
                NotSent::Deadline => NotDispatchedReason::Deadline,
            }),
            Err(CallError::Refused(_) | CallError::Unknown(_)) => Evidence::Unknown,
        }
    }
}

/// A refusal with a decline code, whatever else is in it.
#[derive(Deserialize)]
struct Decline {
    decline_code: String,
    id: Option<String>,
    state: Option<ChargeState>,
}

/// Judges an answer that arrived whole.
fn verdict(status: u16, body: &[u8]) -> Result<Evidence, CallError> {
    let unknown = |why: &str| Err(CallError::Unknown(format!("{status}: {why}")));
    match status {
        200..300 => match serde_json::from_slice(body) {
            Ok(ChargeReply { id, state: ChargeState::Approved, .. }) if is_word(&id) => {
                Ok(Evidence::Approved { provider_ref: id })
            }
            Ok(ChargeReply { id, state: ChargeState::Declined, decline_code }) if is_word(&id) => match decline_code {
                Some(code) if !is_word(&code) => unknown("an unreadable decline code"),
                code => Ok(Evidence::Declined {
                    code: code.unwrap_or_else(|| UNSPECIFIED.to_owned()),
                    provider_ref: Some(id),
                }),
            },
            Ok(_) => unknown("an answer without a usable id"),
            Err(_) => unknown("an unreadable answer"),
        },
        400..500 => match serde_json::from_slice::<Decline>(body) {
            Ok(Decline { decline_code, id, state: None | Some(ChargeState::Declined) }) if is_word(&decline_code) => {
                Ok(Evidence::Declined { code: decline_code, provider_ref: id.filter(|id| is_word(id)) })
            }
            _ => unknown("refused without a decline code"),
        },
        _ => unknown("neither an approval nor a refusal"),
    }
}

/// What can be stored and shown: it comes from outside.
fn is_word(text: &str) -> bool {
    (1..=MAX_WORD).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: u16, body: &str) -> Option<Evidence> {
        verdict(status, body.as_bytes()).ok()
    }

    fn declined(code: &str, provider_ref: Option<&str>) -> Option<Evidence> {
        Some(Evidence::Declined { code: code.into(), provider_ref: provider_ref.map(str::to_owned) })
    }

    #[test]
    fn an_answer_that_names_its_charge_decides() {
        assert_eq!(
            judged(200, r#"{"id":"ch_1","state":"approved"}"#),
            Some(Evidence::Approved { provider_ref: "ch_1".into() })
        );
        let reply = r#"{"id":"ch_1","state":"declined","decline_code":"no_funds"}"#;
        assert_eq!(judged(200, reply), declined("no_funds", Some("ch_1")));
        assert_eq!(judged(200, r#"{"id":"ch_1","state":"declined"}"#), declined(UNSPECIFIED, Some("ch_1")));
    }

    #[test]
    fn a_refusal_decides_only_with_a_decline_code() {
        for status in [400, 402, 422, 499] {
            assert_eq!(judged(status, r#"{"decline_code":"stolen"}"#), declined("stolen", None), "{status}");
            let problem = r#"{"type":"urn:elsewhere:declined","title":"No","status":402,"decline_code":"stolen"}"#;
            assert_eq!(judged(status, problem), declined("stolen", None), "{status}");
            for body in ["", "{}", "null", "<html>", r#"{"decline_code":""}"#, r#"{"decline_code":null}"#] {
                assert_eq!(judged(status, body), None, "{status} {body}");
            }
        }
    }

    #[test]
    fn what_contradicts_itself_or_cannot_be_stored_decides_nothing() {
        for (status, body) in [
            (402, r#"{"state":"approved","decline_code":"x"}"#),
            (402, r#"{"decline_code":"x\u0000"}"#),
            (200, r#"{"id":"","state":"approved"}"#),
            (200, r#"{"id":"a\u0000b","state":"approved"}"#),
            (200, r#"{"id":"ch_1","state":"declined","decline_code":"a b"}"#),
            (200, r#"{"id":"ch_1","state":"pending"}"#),
            (200, r#"{"id":"ch_1"}"#),
            (204, ""),
            (307, r#"{"decline_code":"x"}"#),
            (500, r#"{"decline_code":"x"}"#),
            (503, r#"{"id":"ch_1","state":"approved"}"#),
        ] {
            assert_eq!(judged(status, body), None, "{status} {body}");
        }
    }
}
