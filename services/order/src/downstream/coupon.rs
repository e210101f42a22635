//! Coupon: degradable. Whatever it does not answer, the order goes on at full price.

use chassis::{CallError, Degradable, Downstream, RequestContext};
use contracts::{
    ProblemType,
    coupon::{RedeemCoupon, Redemption, RedemptionState},
    order::OrderStatus,
};
use reqwest::Method;

use crate::domain::{Event, Order};

/// One a process.
pub struct Coupon {
    callee: Downstream,
    switch: Degradable,
}

impl Coupon {
    #[must_use]
    pub fn new(callee: Downstream, switch: Degradable) -> Self {
        Self { callee, switch }
    }

    #[must_use]
    pub fn switch(&self) -> &Degradable {
        &self.switch
    }

    /// Whether an order with a coupon that is placed now goes on without it, for good. Says so once per order: counted
    /// by asking.
    #[must_use]
    pub fn is_left_out(&self, context: &RequestContext) -> bool {
        let off = self.switch.level(context) == "off";
        if off {
            self.switch.serve((), "off");
        }
        off
    }

    /// Asks for the discount of an order whose subtotal is fixed.
    pub async fn redeem(&self, context: &RequestContext, order: &Order, code: &str) -> Event {
        // Also when it was switched off after this order was placed: the order has a coupon that is to be settled.
        if self.switch.level(context) != "on" {
            return self.switch.serve(Event::CouponPending, "pending").value;
        }
        let body = RedeemCoupon {
            code: code.to_owned(),
            user_id: order.user_id,
            subtotal_minor: order.price.subtotal_minor,
            currency: order.price.currency,
        };
        let path = format!("/v1/redemptions/{}", order.id);
        match self.callee.call_repeatable::<_, Redemption>(context, Method::PUT, &path, Some(&body)).await {
            Ok(answer) => Event::CouponHeld { discount_minor: answer.body.discount_minor },
            Err(CallError::Refused(problem)) if is_business_no(problem.kind) => Event::CouponRefused(problem),
            Err(error) => {
                tracing::warn!(order_id = %order.id, %error, "the coupon is settled later");
                self.switch.serve(Event::CouponPending, "pending").value
            }
        }
    }

    /// Whether the order's end has taken effect on its coupon; `None`: the coupon service gave no answer.
    pub async fn has_settled(&self, context: &RequestContext, order: &Order) -> Option<bool> {
        match self.callee.get::<Redemption>(context, &format!("/v1/redemptions/{}", order.id)).await {
            Ok(answer) => Some(match answer.body.state {
                RedemptionState::Held => false,
                RedemptionState::Committed => order.status == OrderStatus::Confirmed,
                RedemptionState::Returned | RedemptionState::Released => order.status != OrderStatus::Confirmed,
            }),
            // Not even a tombstone: the release has not arrived.
            Err(CallError::Refused(problem)) if problem.kind == ProblemType::NotFound => Some(false),
            Err(_) => None,
        }
    }
}

fn is_business_no(kind: ProblemType) -> bool {
    matches!(
        kind,
        ProblemType::CouponExhausted
            | ProblemType::CouponAlreadyUsed
            | ProblemType::CouponExpired
            | ProblemType::CouponUnknown
    )
}
