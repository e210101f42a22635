//! The payment provider's API: the one party outside the system. The simulator in `drills/` speaks it.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    AttemptId, Currency, FieldError, Money,
    validate::{Validate, Violations},
};

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

impl Validate for ChargeRequest {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut violations = Violations::default();
        violations.positive(Money::new(self.amount_minor, self.currency), "amount_minor");
        violations.code(&self.payment_method, "payment_method");
        violations.code(&self.reference, "reference");
        violations.finish()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChargeState {
    Approved,
    Declined,
}

/// The answer to a charge: 200 for both states, with a decline code when it was declined.
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

impl Validate for RefundRequest {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut violations = Violations::default();
        violations.require(self.amount_minor > 0, "amount_minor", "must be greater than 0");
        violations.finish()
    }
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

/// How the simulator behaves: the answer to `GET /admin/behaviour`. It governs `POST /v1/charges` alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Behaviour {
    /// Time before a charge is decided.
    pub latency_ms: u64,
    /// Up to this much more, evenly spread.
    pub jitter_ms: u64,
    /// How many charges it works on at the same time; more wait in line, whether or not anybody still waits for them.
    /// 0: any number.
    #[serde(default)]
    pub at_once: u32,
    /// Share of requests that are answered 500 and charge nothing.
    pub error_ratio: f64,
    /// Share of charges that are declined.
    pub decline_ratio: f64,
    /// Share of requests that charge and are never answered.
    pub lose_reply_ratio: f64,
    /// Share of requests that charge nothing and are never answered.
    pub hang_ratio: f64,
    pub webhook: WebhookMode,
    /// The delay of a webhook in mode `late`.
    pub webhook_late_ms: u64,
    /// What the provider promises: a charge not found this long after it was sent will not appear any more. A latency
    /// above it breaks the promise, which is a drill too.
    pub settle_ms: u64,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            latency_ms: 0,
            jitter_ms: 0,
            at_once: 0,
            error_ratio: 0.0,
            decline_ratio: 0.0,
            lose_reply_ratio: 0.0,
            hang_ratio: 0.0,
            webhook: WebhookMode::On,
            webhook_late_ms: 5_000,
            settle_ms: 2_000,
        }
    }
}

impl Behaviour {
    /// The longest latency, and the longest jitter.
    pub const MAX_LATENCY_MS: u64 = 60_000;
    /// The longest delay of a webhook, and the longest settling time.
    pub const MAX_LATE_MS: u64 = 3_600_000;
}

impl Validate for Behaviour {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut violations = Violations::default();
        for (field, ratio) in [
            ("error_ratio", self.error_ratio),
            ("decline_ratio", self.decline_ratio),
            ("lose_reply_ratio", self.lose_reply_ratio),
            ("hang_ratio", self.hang_ratio),
        ] {
            violations.require((0.0..=1.0).contains(&ratio), field, "must lie between 0 and 1");
        }
        for (field, ms) in [("latency_ms", self.latency_ms), ("jitter_ms", self.jitter_ms)] {
            violations.require(ms <= Self::MAX_LATENCY_MS, field, "must be at most 60000");
        }
        for (field, ms) in [("webhook_late_ms", self.webhook_late_ms), ("settle_ms", self.settle_ms)] {
            violations.require(ms <= Self::MAX_LATE_MS, field, "must be at most 3600000");
        }
        violations.finish()
    }
}

/// `PUT /admin/behaviour`: what is left out takes the value that the simulator was started with, so that the outcome
/// does not depend on what was put before.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SetBehaviour {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decline_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lose_reply_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hang_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_late_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle_ms: Option<u64>,
}

impl SetBehaviour {
    #[must_use]
    pub fn over(self, start: &Behaviour) -> Behaviour {
        Behaviour {
            latency_ms: self.latency_ms.unwrap_or(start.latency_ms),
            jitter_ms: self.jitter_ms.unwrap_or(start.jitter_ms),
            at_once: self.at_once.unwrap_or(start.at_once),
            error_ratio: self.error_ratio.unwrap_or(start.error_ratio),
            decline_ratio: self.decline_ratio.unwrap_or(start.decline_ratio),
            lose_reply_ratio: self.lose_reply_ratio.unwrap_or(start.lose_reply_ratio),
            hang_ratio: self.hang_ratio.unwrap_or(start.hang_ratio),
            webhook: self.webhook.unwrap_or(start.webhook),
            webhook_late_ms: self.webhook_late_ms.unwrap_or(start.webhook_late_ms),
            settle_ms: self.settle_ms.unwrap_or(start.settle_ms),
        }
    }
}

impl Validate for SetBehaviour {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        self.clone().over(&Behaviour::default()).validate()
    }
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
