//! (8) No order stands still in a state that is no end.

use contracts::{
    order::{OrderCouponState, OrderPaymentState},
    payment::{AttemptState, RefundState},
};

use crate::{Verdict, World, report::Finding, world::Refund};

#[must_use]
pub fn nothing_stands(world: &World) -> Verdict {
    let review = world.orders.iter().filter(|(_, order)| !order.settled() && world.in_review(order));
    let review = review.map(|(id, _)| Finding::order(id, "its attempt is in review"));
    let refunds = world.refunds.iter().filter(|refund| refund.is(RefundState::Review));
    let refunds = refunds.map(|refund| Finding::new(format!("refund {}", refund.id), "in review"));
    Verdict::new(8, "no order is stuck", world.orders.len())
        .with(under_way(world))
        .with_apart(review.chain(refunds).collect())
}

/// What somebody still has to move.
#[must_use]
pub fn under_way(world: &World) -> Vec<Finding> {
    let mut found = Vec::new();
    for (id, order) in &world.orders {
        if !order.settled() && !world.in_review(order) {
            found.push(Finding::order(id, format!("{}, payment {}", order.status, order.payment_state)));
        }
        let with_a_person =
            || world.refunds.iter().any(|refund| refund.order_id == Some(*id) && refund.is(RefundState::Review));
        if order.settled() && order.payment_is(OrderPaymentState::RefundDue) && !with_a_person() {
            found.push(Finding::order(id, format!("{}, with a refund due", order.status)));
        }
        if order.confirmed() && order.coupon_is(OrderCouponState::Pending) && !world.manual.contains_key(id) {
            found.push(Finding::order(id, "confirmed, and its coupon is not settled"));
        }
    }
    let open = [AttemptState::Created, AttemptState::Dispatched, AttemptState::Unknown, AttemptState::NotDispatched];
    for attempt in world.attempts.values().filter(|attempt| open.iter().any(|state| attempt.is(*state))) {
        found.push(Finding::new(format!("attempt {}", attempt.id), attempt.state.clone()));
    }
    let moving = |refund: &&Refund| refund.is(RefundState::Requested) || refund.is(RefundState::Sent);
    for refund in world.refunds.iter().filter(moving) {
        found.push(Finding::new(format!("refund {}", refund.id), refund.state.clone()));
    }
    for event in &world.unread {
        found.push(Finding::new(format!("webhook {event}"), "not acted upon"));
    }
    for compensation in world.compensations.values().filter(|compensation| compensation.state == "waiting") {
        found.push(Finding::order(compensation.order_id, "its promised discount is still tried for"));
    }
    found
}
