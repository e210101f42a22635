//! The payment provider's API: the one party outside the system. The simulator in `drills/` speaks it.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{AttemptId, Currency};

/// `POST /v1/charges`, with the attempt id as `idempotency-key`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChargeRequest {
    pub amount_minor: i64,
    pub currency: Currency,
    pub payment_method: String,
    /// Our order id, for people who compare ledgers.
    pub reference: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChargeState {
    Approved,
    Declined,
}

/// The answer to a charge: 200, or 402 with a decline code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChargeReply {
    pub id: String,
    pub state: ChargeState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decline_code: Option<String>,
}

/// `POST /v1/charges/{id}/refunds`, with the refund id as `idempotency-key`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RefundRequest {
    pub amount_minor: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefundReply {
    pub id: String,
    pub charge_id: String,
    pub amount_minor: i64,
}

/// One line of the ledger: a charge that was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerCharge {
    pub id: String,
    /// The idempotency key that came with it.
    pub key: String,
    pub reference: String,
    pub amount_minor: i64,
    pub currency: Currency,
    pub state: ChargeState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decline_code: Option<String>,
    pub at: DateTime<Utc>,
}

/// One line of the ledger: a refund that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerRefund {
    pub id: String,
    pub key: String,
    pub charge_id: String,
    pub amount_minor: i64,
    pub at: DateTime<Utc>,
}

/// `GET /v1/ledger`: what really happened to the money.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ledger {
    pub charges: Vec<LedgerCharge>,
    pub refunds: Vec<LedgerRefund>,
}

/// How the simulator treats webhooks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WebhookMode {
    #[default]
    On,
    Off,
    Late,
    Duplicate,
}

/// The body of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Webhook {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: WebhookKind,
    /// The idempotency key of the charge or refund that it speaks of.
    pub key: String,
    pub charge_id: String,
    pub amount_minor: i64,
    pub currency: Currency,
    pub occurred_at: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum WebhookKind {
    #[serde(rename = "charge.approved")]
    ChargeApproved,
    #[serde(rename = "charge.declined")]
    ChargeDeclined,
    #[serde(rename = "refund.succeeded")]
    RefundSucceeded,
}

/// The provider's idempotency key for an attempt: the same on every channel and every try.
#[must_use]
pub fn idempotency_key(attempt: AttemptId) -> String {
    attempt.to_string()
}
