//! Coupon: degradable. Whatever it does not answer, the order goes on at full price.

use chassis::{CallError, Downstream, RequestContext};
use contracts::{
    ProblemType,
    coupon::{RedeemCoupon, Redemption},
};
use reqwest::Method;

use crate::domain::{Event, Order};

#[derive(Clone)]
pub struct Coupon(pub Downstream);

impl Coupon {
    /// Asks for the discount of an order whose subtotal is fixed.
    pub async fn redeem(&self, context: &RequestContext, order: &Order, code: &str) -> Event {
        let body = RedeemCoupon {
            code: code.to_owned(),
            user_id: order.user_id,
            subtotal_minor: order.price.subtotal_minor,
            currency: order.price.currency,
        };
        let path = format!("/v1/redemptions/{}", order.id);
        match self.0.call_repeatable::<_, Redemption>(context, Method::PUT, &path, Some(&body)).await {
            Ok(answer) => Event::CouponHeld { discount_minor: answer.body.discount_minor },
            Err(CallError::Refused(problem)) if is_business_no(problem.kind) => Event::CouponRefused(problem),
            Err(error) => {
                tracing::warn!(order_id = %order.id, %error, "the coupon is settled later");
                metrics::counter!("stability_degrade_hit_total", "feature" => "coupon").increment(1);
                Event::CouponPending
            }
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
