//! The internal coupon API.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    Currency, FieldError, Money, OrderId, UserId,
    validate::{Validate, Violations},
};

/// `PUT /v1/redemptions/{order_id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RedeemCoupon {
    #[schema(min_length = 1, max_length = 64)]
    pub code: String,
    pub user_id: UserId,
    #[schema(minimum = 1)]
    pub subtotal_minor: i64,
    pub currency: Currency,
}

impl Validate for RedeemCoupon {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut violations = Violations::default();
        violations.code(&self.code, "code");
        violations.positive(Money::new(self.subtotal_minor, self.currency), "subtotal_minor");
        violations.finish()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RedemptionState {
    Held,
    Committed,
    /// Never committed; also the tombstone of an order that was never seen here.
    Released,
    /// Committed, and given back since.
    Returned,
}

impl RedemptionState {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Committed => "committed",
            Self::Released => "released",
            Self::Returned => "returned",
        }
    }
}

/// The redemption of a coupon by an order; a tombstone has no code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Redemption {
    pub order_id: OrderId,
    pub state: RedemptionState,
    pub code: Option<String>,
    pub discount_minor: i64,
    pub currency: Currency,
}

/// What a coupon takes off a subtotal. A discount leaves at least one minor unit to pay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Discount {
    Percent { percent: u8 },
    Fixed { amount_minor: i64, currency: Currency },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Coupon {
    pub code: String,
    #[serde(flatten)]
    pub discount: Discount,
    /// Redemptions by everybody together; null is no limit.
    pub total_limit: Option<i64>,
    /// Redemptions by one user; null is no limit.
    pub per_user_limit: Option<i64>,
    /// Redemptions held or committed now.
    pub redeemed: i64,
    pub valid_from: DateTime<Utc>,
    pub valid_until: DateTime<Utc>,
}

/// A discount that was promised and could not be given, so that a person has to decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ManualCompensation {
    pub order_id: OrderId,
    pub user_id: UserId,
    pub code: String,
    pub subtotal_minor: i64,
    pub currency: Currency,
    pub reason: String,
    pub since: DateTime<Utc>,
}
