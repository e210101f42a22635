//! The provider's own account of what it charged.

use chassis::{CallError, RequestContext};
use contracts::provider::Ledger;
use reqwest::Method;

use super::Provider;

impl Provider {
    /// All of it; `None` without a readable answer.
    pub async fn ledger(&self, context: &RequestContext) -> Option<Ledger> {
        let read = |status: u16, body: &[u8]| match status {
            200 => serde_json::from_slice(body).map_err(|error| CallError::Unknown(format!("unreadable: {error}"))),
            _ => Err(CallError::Unknown(format!("{status}"))),
        };
        match self.ledgers.call_judged(context, Method::GET, "/v1/ledger", None::<&()>, &[], read).await {
            Ok(ledger) => Some(ledger),
            Err(error) => {
                tracing::warn!(channel = self.channel.as_str(), %error, "a ledger cannot be read");
                None
            }
        }
    }
}
