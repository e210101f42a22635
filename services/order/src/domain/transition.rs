//! What an event leads to, or why it leads to nothing.

use super::{Order, RefundPurpose};

/// What has to be told to others, as events of the same transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Stock and coupon are committed, recommendations learn.
    Confirmed,
    /// Stock and coupon are released, whatever is believed of them: an answer may have been lost, and a duplicate of
    /// the request to hold them may still arrive.
    Rejected,
    /// The same for an order that its user took back; what was committed is returned.
    Cancelled,
    /// Somebody has to find out what became of the charge.
    PaymentUnknown,
    /// Payment sends the charge when it can.
    PaymentDeferred,
    /// Money goes back: the record of this purpose says how much.
    RefundRequested(RefundPurpose),
    /// The discount that was promised is to be settled. Not before the order is confirmed: one that is settled while
    /// nothing was charged would be given to nobody.
    CompensateCoupon,
}

impl Effect {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Rejected => "rejected",
            Self::Cancelled => "cancelled",
            Self::PaymentUnknown => "payment_unknown",
            Self::PaymentDeferred => "payment_deferred",
            Self::RefundRequested(_) => "refund_requested",
            Self::CompensateCoupon => "compensate_coupon",
        }
    }
}

/// What becomes of the idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFate {
    /// The work goes on, or its outcome stands already.
    Keep,
    /// The order has an outcome that a repeated request is shown.
    Complete,
    /// A repeated request starts anew: no charge can ever have been sent for this order.
    Release,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    pub order: Order,
    pub effects: Vec<Effect>,
    pub key: KeyFate,
    /// For the history.
    pub detail: Option<String>,
}

/// Why an event changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It has taken effect before, or something that outranks it has: drop it.
    #[error("already so")]
    AlreadySo,
    /// It came too early: try again.
    #[error("not yet")]
    NotYet,
    /// It can never apply: somebody has to look at it.
    #[error("never")]
    Never,
}
