//! (9) No coupon was redeemed too often, and each redemption belongs to an order that got its discount.

use std::collections::BTreeMap;

use contracts::order::OrderCouponState;

use crate::{
    Verdict, World,
    report::Finding,
    world::{Coupon, Order, Redemption},
};

#[must_use]
pub fn within_limits(world: &World) -> Verdict {
    let mut found = Vec::new();
    let mut open: BTreeMap<&str, Vec<&Redemption>> = BTreeMap::new();
    for redemption in world.redemptions.values().filter(|r| matches!(r.state.as_str(), "held" | "committed")) {
        open.entry(redemption.code.as_deref().unwrap_or_default()).or_default().push(redemption);
        let order = world.orders.get(&redemption.order_id);
        found.extend(unbound(redemption, order).map(|what| Finding::order(redemption.order_id, what)));
    }
    for coupon in &world.coupons {
        let redemptions = open.get(coupon.code.as_str()).map(Vec::as_slice).unwrap_or_default();
        found.extend(over(coupon, redemptions));
    }
    for (id, order) in world.orders.iter().filter(|(_, order)| order.confirmed()) {
        let committed = world.redemptions.get(id).is_some_and(|redemption| redemption.state == "committed");
        let gets = order.coupon_is(OrderCouponState::Applied) || order.coupon_is(OrderCouponState::Refunded);
        if gets && !committed {
            found.push(Finding::order(id, format!("coupon {}, and no redemption is committed", order.coupon_state)));
        }
    }
    let manual = world.manual.iter().map(|(id, reason)| Finding::order(id, format!("a promised discount: {reason}")));
    let checked = world.coupons.len() + world.redemptions.len();
    Verdict::new(9, "coupons: within their limits, each bound to a confirmed order", checked)
        .with(found)
        .with_apart(manual.collect())
}

/// Why a redemption that counts should not.
fn unbound(redemption: &Redemption, order: Option<&Order>) -> Option<String> {
    let state = &redemption.state;
    let Some(order) = order else { return Some(format!("a coupon is {state}, and there is no such order")) };
    if order.dead() {
        return Some(format!("{}, and its coupon is {state}", order.status));
    }
    if order.coupon_code != redemption.code {
        return Some(format!("ordered with coupon {:?}, and {:?} is {state}", order.coupon_code, redemption.code));
    }
    if !order.confirmed() {
        return (state == "committed").then(|| format!("{}, and its coupon is committed", order.status));
    }
    if state == "held" {
        return Some("confirmed, and its coupon is only held".to_owned());
    }
    // Taken off before the charge, or paid back after it.
    let discount = order.discount_minor.saturating_add(order.refunded_minor);
    (discount != redemption.discount_minor)
        .then(|| format!("redeemed for {}, and {discount} was given", redemption.discount_minor))
}

fn over(coupon: &Coupon, open: &[&Redemption]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |what: String| found.push(Finding::new(format!("coupon {}", coupon.code), what));
    let count = i64::try_from(open.len()).unwrap_or(i64::MAX);
    if coupon.redeemed != count {
        add(format!("counts {} redemptions, and there are {count}", coupon.redeemed));
    }
    if coupon.total_limit.is_some_and(|limit| count > limit) {
        add(format!("redeemed {count} times, over its limit"));
    }
    if let Some(limit) = coupon.per_user_limit {
        let mut users: BTreeMap<_, i64> = BTreeMap::new();
        for redemption in open {
            *users.entry(redemption.user_id).or_default() += 1;
        }
        let over = users.iter().filter(|(_, count)| **count > limit);
        over.for_each(|(user, count)| {
            add(format!("redeemed {count} times by user {}", user.map(|user| user.to_string()).unwrap_or_default()));
        });
    }
    found
}
