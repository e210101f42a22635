//! What an order that has ended still has to tell.
//!
//! Problem: an event that was published is not an event that took effect. A broker that loses its data loses a release,
//! a confirmation or a refund with it, and nobody would ever ask again.
//!
//! Rule: an order stays on a list until inventory and coupon show that what it told them took effect, payment has told
//! of every refund, and the coupon service of every discount that it owes. Whatever is missing is told again; all of it
//! is idempotent by order or refund.

use contracts::order::{OrderCouponState, OrderStatus};

use super::{Effect, Order, RefundState};

/// Which siblings have shown that an order's end took effect with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Acknowledged {
    pub stock: bool,
    pub coupon: bool,
}

impl Order {
    /// Whether the coupon service may hold something for an order that ended like this. It was never asked if there is
    /// no code, and it holds nothing for one that is confirmed without its coupon. What it owes is another matter.
    #[must_use]
    pub fn has_coupon_to_settle(&self) -> bool {
        self.coupon.code.is_some()
            && (self.status != OrderStatus::Confirmed || self.coupon.state == OrderCouponState::Applied)
    }
}

/// What to emit again; nothing, once the order has no more to tell.
#[must_use]
pub fn outstanding(order: &Order, acknowledged: Acknowledged) -> Vec<Effect> {
    let mut effects = Vec::new();
    if !acknowledged.stock || (!acknowledged.coupon && order.has_coupon_to_settle()) {
        effects.extend(match order.status {
            OrderStatus::Confirmed => Some(Effect::Confirmed),
            OrderStatus::Rejected => Some(Effect::Rejected),
            OrderStatus::Cancelled => Some(Effect::Cancelled),
            _ => None,
        });
    }
    if order.awaits_compensation() {
        effects.push(Effect::CompensateCoupon);
    }
    let open = order.refunds.iter().filter(|refund| refund.state == RefundState::Requested);
    effects.extend(open.map(|refund| Effect::RefundRequested(refund.reason.purpose())));
    effects
}
