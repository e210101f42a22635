//! The internal payment API.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    AttemptId, Currency, FieldError, Money, OrderId, RefundId,
    validate::{Validate, Violations},
};

/// `PUT /v1/payments/{attempt_id}`: charge once. Sent again it reports the attempt and never charges again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Charge {
    pub order_id: OrderId,
    #[schema(minimum = 1)]
    pub amount_minor: i64,
    pub currency: Currency,
    #[schema(min_length = 1, max_length = 64)]
    pub payment_method: String,
}

impl Charge {
    #[must_use]
    pub const fn amount(&self) -> Money {
        Money::new(self.amount_minor, self.currency)
    }
}

impl Validate for Charge {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut violations = Violations::default();
        violations.positive(self.amount(), "amount_minor");
        violations.code(&self.payment_method, "payment_method");
        violations.finish()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    Created,
    /// The intent to send is durable; the request may or may not have left.
    Dispatched,
    Approved,
    Declined,
    /// Sent, and no answer that decides.
    Unknown,
    /// Certainly not sent.
    NotDispatched,
    /// Will never be sent.
    Fenced,
    /// Waits for a person.
    Review,
}

impl AttemptState {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Dispatched => "dispatched",
            Self::Approved => "approved",
            Self::Declined => "declined",
            Self::Unknown => "unknown",
            Self::NotDispatched => "not_dispatched",
            Self::Fenced => "fenced",
            Self::Review => "review",
        }
    }
}

/// Where a charge is sent. The backup is asked only when the primary certainly was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    Primary,
    Backup,
}

impl Channel {
    /// In the order in which they are tried.
    pub const ALL: [Self; 2] = [Self::Primary, Self::Backup];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Backup => "backup",
        }
    }
}

/// What is known of an attempt: the answer to `PUT`, `GET` and `fence`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PaymentStatus {
    pub state: AttemptState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// The provider's id of the charge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decline_code: Option<String>,
}

/// An attempt that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PaymentReview {
    pub attempt_id: AttemptId,
    pub order_id: OrderId,
    pub amount_minor: i64,
    pub currency: Currency,
    /// Where it was sent last.
    pub channel: Option<Channel>,
    pub since: DateTime<Utc>,
    /// What came of it last, for people.
    pub last_answer: String,
    /// When the provider is asked again in any case.
    pub asked_again_at: Option<DateTime<Utc>>,
}

/// A refund that waits for a person: the provider said that it does not make it. It is sent again all the same, rarely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefundReview {
    pub refund_id: RefundId,
    /// Who is owed; `null` of a charge that was one too many, which no order knows of.
    pub order_id: Option<OrderId>,
    pub attempt_id: Option<AttemptId>,
    /// What is owed.
    pub amount_minor: i64,
    pub currency: Currency,
    /// The charge that it is taken from, where it was made and as the provider calls it.
    pub channel: Channel,
    pub provider_ref: String,
    /// Why it was asked for, for people.
    pub reason: String,
    pub since: DateTime<Utc>,
    /// How often it was sent.
    pub sends: i32,
    pub sent_again_at: DateTime<Utc>,
}

/// `POST /v1/payments/{attempt_id}/refunds`: give this much back, once a `refund_id`, however often it is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RefundCharge {
    pub refund_id: RefundId,
    #[schema(minimum = 1)]
    pub amount_minor: i64,
    /// For people.
    #[schema(min_length = 1, max_length = 64)]
    pub reason: String,
}

impl Validate for RefundCharge {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut violations = Violations::default();
        violations.require(self.amount_minor > 0, "amount_minor", "must be greater than 0");
        violations.code(&self.reason, "reason");
        violations.finish()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefundState {
    /// Durable, and not yet sent.
    Requested,
    /// It may have been made. Sent again with the same key until the provider says so.
    Sent,
    /// The provider said so.
    Refunded,
    /// The provider refuses it: a person has to look. It is still sent, seldom.
    Review,
}

impl RefundState {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Sent => "sent",
            Self::Refunded => "refunded",
            Self::Review => "review",
        }
    }
}

/// What is known of a refund.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefundStatus {
    pub refund_id: RefundId,
    pub state: RefundState,
    pub amount_minor: i64,
    pub currency: Currency,
}

/// Why a charge certainly did not leave: the `reason` member of `payment-not-dispatched`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotDispatchedReason {
    BreakerOpen,
    BulkheadFull,
    RateLimited,
    ConnectFailed,
    Deadline,
    Degraded,
}

impl NotDispatchedReason {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BreakerOpen => "breaker_open",
            Self::BulkheadFull => "bulkhead_full",
            Self::RateLimited => "rate_limited",
            Self::ConnectFailed => "connect_failed",
            Self::Deadline => "deadline",
            Self::Degraded => "degraded",
        }
    }
}
