//! What can happen to an order.

use contracts::{AttemptId, Currency, Problem, RefundId, event::CouponOutcome, payment::Channel};

use super::Line;

/// What somebody who knows has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Inventory holds the stock, at these names and prices.
    StockHeld {
        lines: Vec<Line>,
        currency: Currency,
    },
    /// A business no: out of stock, unknown product, released before.
    StockRefused(Box<Problem>),
    /// Inventory was certainly not asked.
    StockNotDispatched,
    /// Inventory was asked and gave no answer: it may hold the stock.
    StockUnknown,
    CouponHeld {
        discount_minor: i64,
    },
    /// The coupon service gave no answer: full price now, the discount is settled later.
    CouponPending,
    CouponRefused(Box<Problem>),
    /// There was no time left to begin a charge, or the run that should have done it died.
    Expired,
    /// The intent to charge under this attempt. Saved before the call.
    ChargeIntended(AttemptId),
    /// The provider has proven the charge, whenever that comes out.
    Approved {
        attempt: AttemptId,
        channel: Channel,
    },
    Declined {
        attempt: AttemptId,
        channel: Channel,
        code: String,
    },
    /// The charge did not reach the provider.
    NotDispatched {
        attempt: AttemptId,
        /// A request did leave this process towards payment, so that a copy of it may still arrive there.
        left: bool,
        reason: String,
        /// The largest total whose charge may wait until payment can send it, by the rules in force; none: no charge
        /// may.
        defer_up_to: Option<i64>,
    },
    /// The charge was sent, or its run died, and nobody here knows what came of it.
    PaymentUnknown {
        attempt: AttemptId,
    },
    /// The provider has not said what came of the charge for longer than anybody should wait.
    InReview {
        attempt: AttemptId,
    },
    /// The attempt will never be sent to the provider.
    Fenced {
        attempt: AttemptId,
    },
    /// The user takes the order back.
    CancelRequested,
    /// The provider has proven a refund.
    Refunded {
        refund: RefundId,
        amount_minor: i64,
    },
    /// What became of a coupon that was pending.
    CouponSettled(CouponOutcome),
}

impl Event {
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::StockHeld { .. } => "stock_held",
            Self::StockRefused(_) => "stock_refused",
            Self::StockNotDispatched => "stock_not_dispatched",
            Self::StockUnknown => "stock_unknown",
            Self::CouponHeld { .. } => "coupon_held",
            Self::CouponPending => "coupon_pending",
            Self::CouponRefused(_) => "coupon_refused",
            Self::Expired => "expired",
            Self::ChargeIntended(_) => "charge_intended",
            Self::Approved { .. } => "approved",
            Self::Declined { .. } => "declined",
            Self::NotDispatched { .. } => "not_dispatched",
            Self::PaymentUnknown { .. } => "payment_unknown",
            Self::InReview { .. } => "in_review",
            Self::Fenced { .. } => "fenced",
            Self::CancelRequested => "cancel_requested",
            Self::Refunded { .. } => "refunded",
            Self::CouponSettled(_) => "coupon_settled",
        }
    }

    /// The payment attempt that the event speaks of.
    #[must_use]
    pub const fn attempt(&self) -> Option<AttemptId> {
        match self {
            Self::Approved { attempt, .. }
            | Self::Declined { attempt, .. }
            | Self::NotDispatched { attempt, .. }
            | Self::PaymentUnknown { attempt }
            | Self::InReview { attempt }
            | Self::Fenced { attempt } => Some(*attempt),
            _ => None,
        }
    }
}
