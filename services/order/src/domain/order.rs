//! The order as the workflow knows it.

use chrono::{DateTime, Utc};
use contracts::{
    AttemptId, Currency, Money, OrderId, Problem, UserId,
    money::MoneyError,
    order::{OrderCouponState, OrderPaymentState, OrderStatus, StatusReason, Suggestion},
    payment::Channel,
};

use super::{Refund, RefundPurpose, RefundReason, RefundState};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub id: OrderId,
    pub user_id: UserId,
    pub tenant: Option<String>,
    pub status: OrderStatus,
    pub reason: Option<StatusReason>,
    /// Raised by each event that is emitted about the order.
    pub version: i64,
    pub lines: Vec<Line>,
    pub price: Price,
    pub coupon: Coupon,
    pub payment_method: String,
    pub payment: Payment,
    /// The user wants it back, and whether it was charged is not known: what comes out decides how it ends.
    pub cancel_requested: bool,
    /// All that were ever asked for.
    pub refunds: Vec<Refund>,
    pub degraded: Vec<String>,
    pub suggestions: Vec<Suggestion>,
    /// What a rejected order is answered with.
    pub problem: Option<Problem>,
    pub traceparent: Option<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// So many units of one product. Name and price are fixed by the reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub sku: String,
    pub quantity: i64,
    pub named: Option<(String, i64)>,
}

/// All amounts are of one currency, and `total = subtotal − discount`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    pub currency: Currency,
    pub subtotal_minor: i64,
    pub discount_minor: i64,
    pub total_minor: i64,
}

impl Price {
    #[must_use]
    pub const fn unknown(currency: Currency) -> Self {
        Self { currency, subtotal_minor: 0, discount_minor: 0, total_minor: 0 }
    }

    /// The sum over the lines of a reservation.
    pub fn of(lines: &[Line], currency: Currency) -> Result<Self, MoneyError> {
        let mut sum = Money::zero(currency);
        for line in lines {
            let (_, unit_price) = line.named.as_ref().ok_or(MoneyError::Overflow)?;
            sum = sum.checked_add(Money::new(*unit_price, currency).checked_mul(line.quantity)?)?;
        }
        Ok(Self { currency, subtotal_minor: sum.amount_minor, discount_minor: 0, total_minor: sum.amount_minor })
    }

    /// The price with `discount_minor` off, if that leaves something to pay.
    #[must_use]
    pub fn discounted(self, discount_minor: i64) -> Option<Self> {
        let total_minor = self.subtotal_minor.checked_sub(discount_minor)?;
        (discount_minor >= 0 && total_minor > 0).then_some(Self { discount_minor, total_minor, ..self })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coupon {
    pub code: Option<String>,
    pub state: OrderCouponState,
}

impl Coupon {
    /// Whether the coupon service still has to be asked.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.code.is_some() && self.state == OrderCouponState::None
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    pub attempt_id: Option<AttemptId>,
    pub state: OrderPaymentState,
    pub channel: Option<Channel>,
    pub refunded_minor: i64,
}

impl Order {
    #[must_use]
    pub fn refund(&self, purpose: RefundPurpose) -> Option<&Refund> {
        self.refunds.iter().find(|refund| refund.reason.purpose() == purpose)
    }

    /// What has been asked to go back, whether or not it has gone yet.
    #[must_use]
    pub fn refunds_requested_minor(&self) -> i64 {
        self.refunds.iter().map(|refund| refund.amount_minor).sum()
    }

    #[must_use]
    pub fn has_open_refund(&self) -> bool {
        self.refunds.iter().any(|refund| refund.state == RefundState::Requested)
    }

    /// Whether the coupon service still owes this order an answer about a discount that it was promised.
    #[must_use]
    pub fn awaits_compensation(&self) -> bool {
        self.status == OrderStatus::Confirmed
            && self.coupon.state == OrderCouponState::Pending
            && self.refund(RefundPurpose::Coupon).is_none()
    }

    /// Asks for money back, unless that was asked for before or there is nothing left of the charge.
    pub(super) fn request_refund(&mut self, reason: RefundReason, wanted_minor: i64) -> bool {
        let amount_minor = wanted_minor.min(self.price.total_minor - self.refunds_requested_minor());
        let due = amount_minor > 0 && self.refund(reason.purpose()).is_none();
        if due {
            self.refunds.push(Refund::requested(self.id, reason, amount_minor));
        }
        due
    }

    #[must_use]
    pub fn total(&self) -> Money {
        Money::new(self.price.total_minor, self.price.currency)
    }
}
