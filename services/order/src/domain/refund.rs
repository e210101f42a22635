//! Money that goes back, each as a record with a state of its own.

use contracts::{OrderId, RefundId};
use serde::{Deserialize, Serialize};

/// What a refund is for. An order has one of each purpose at most, so that no purpose is paid out twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundPurpose {
    /// All that was charged, less what other refunds have asked for.
    Full,
    /// The discount of a coupon that was settled after the charge.
    Coupon,
}

impl RefundPurpose {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Coupon => "coupon",
        }
    }
}

/// Why, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundReason {
    Cancelled,
    /// The charge was proven after the order had died.
    LateApproval,
    Coupon,
}

impl RefundReason {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::LateApproval => "late_approval",
            Self::Coupon => "coupon",
        }
    }

    #[must_use]
    pub const fn purpose(self) -> RefundPurpose {
        match self {
            Self::Cancelled | Self::LateApproval => RefundPurpose::Full,
            Self::Coupon => RefundPurpose::Coupon,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundState {
    /// Asked for, and asked for again until payment has told that it was made.
    Requested,
    Refunded,
}

impl RefundState {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Refunded => "refunded",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Refund {
    pub id: RefundId,
    pub reason: RefundReason,
    pub amount_minor: i64,
    pub state: RefundState,
}

impl Refund {
    /// Under the same id however often it is asked for.
    #[must_use]
    pub fn requested(order: OrderId, reason: RefundReason, amount_minor: i64) -> Self {
        let id = RefundId::derive(order, reason.purpose().as_str());
        Self { id, reason, amount_minor, state: RefundState::Requested }
    }
}
