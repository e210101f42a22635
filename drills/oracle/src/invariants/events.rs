//! (7) Every event left its outbox and took effect once with each of its consumers.
//!
//! That none took effect twice cannot be read from an inbox, whose key forbids it; it shows in what was counted. For
//! stock, money and coupons that is the business of their own invariants; here it is what recommendation learned.

use std::collections::{BTreeMap, HashSet};

use contracts::{
    Service,
    event::{
        CompensationDue, CouponCompensate, CouponSettled, EventData, OrderCancelled, OrderConfirmed, OrderRejected,
        PaymentApproved, PaymentDeclined, PaymentDeferred, PaymentFenced, PaymentRefundRequested, PaymentRefunded,
        PaymentReview, PaymentUnknown,
    },
    order::OrderStatus,
};

use crate::{
    Verdict, World,
    report::Finding,
    world::{OutboxEvent, Received},
};

const ORDER: &str = Service::Order.as_str();
const INVENTORY: &str = Service::Inventory.as_str();
const PAYMENT: &str = Service::Payment.as_str();
const COUPON: &str = Service::Coupon.as_str();
const RECOMMENDATION: &str = Service::Recommendation.as_str();
/// Coupon's name in its inbox for its own queue.
const COMPENSATION: &str = "coupon.compensate";

/// The names, in their inboxes, of those who must take an event in.
fn consumers(event: &OutboxEvent) -> &'static [&'static str] {
    match event.kind.as_str() {
        OrderConfirmed::TYPE if event.with_coupon => &[INVENTORY, COUPON, RECOMMENDATION],
        OrderConfirmed::TYPE => &[INVENTORY, RECOMMENDATION],
        OrderRejected::TYPE | OrderCancelled::TYPE => &[INVENTORY, COUPON],
        CouponCompensate::TYPE => &[COUPON],
        CompensationDue::TYPE => &[COMPENSATION],
        PaymentUnknown::TYPE | PaymentDeferred::TYPE | PaymentRefundRequested::TYPE => &[PAYMENT],
        PaymentApproved::TYPE | PaymentDeclined::TYPE | PaymentFenced::TYPE => &[ORDER],
        PaymentRefunded::TYPE | PaymentReview::TYPE | CouponSettled::TYPE => &[ORDER],
        // A question that somebody else asks, or that is answered, is dropped without a trace; whether an attempt is
        // settled does not show here.
        _ => &[],
    }
}

#[must_use]
pub fn applied_once(world: &World) -> Verdict {
    let mut found = under_way(world);
    // A confirmation that was not seen to take effect is told again, as an event of its own; and one of old is not in
    // the outbox any more.
    let mut told: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for event in &world.outbox {
        for sku in &event.skus {
            *told.entry((&event.subject, sku)).or_default() += 1;
        }
    }
    let mut taken: BTreeMap<&str, i64> = BTreeMap::new();
    for (id, order) in world.orders.iter().filter(|(_, order)| order.has_been(OrderStatus::Confirmed.as_str())) {
        let id = id.to_string();
        for sku in order.units.keys() {
            let told = told.get(&(id.as_str(), sku.as_str())).copied().unwrap_or_default();
            *taken.entry(sku).or_default() += told.max(1);
        }
    }
    for (sku, counted) in &world.counted {
        let orders = taken.get(sku.as_str()).copied().unwrap_or_default();
        if *counted > orders {
            let what = format!("recommendation counted {counted} orders, and was told of {orders}");
            found.push(Finding::new(format!("product {sku}"), what));
        }
    }
    let letters = world.letters.iter().filter(|letter| !letter.replayed).map(|letter| {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let what = format!("given up by {}: {}", text(&letter.group), text(&letter.detail));
        Finding::new(format!("{} {}", text(&letter.event_type), text(&letter.event_id)), what)
    });
    Verdict::new(7, "outboxes are empty, and every event was applied once", world.outbox.len())
        .with(found)
        .with_apart(letters.collect())
}

/// Events that are not published, or not applied by everybody who must.
#[must_use]
pub fn under_way(world: &World) -> Vec<Finding> {
    let given_up: HashSet<(&str, &str)> = world
        .letters
        .iter()
        .filter_map(|letter| Some((letter.event_id.as_deref()?, letter.group.as_deref()?)))
        .collect();
    let mut found = Vec::new();
    for event in &world.outbox {
        let subject = || format!("{} {}", event.kind, event.id);
        if !event.published {
            found.push(Finding::new(subject(), format!("of order {}: not published", event.subject)));
            continue;
        }
        // Its tier is what it waits in; the order or the attempt that it is about counts as standing meanwhile.
        if event.not_before.is_some_and(|due| due > world.at) {
            continue;
        }
        let id = event.id.to_string();
        for consumer in consumers(event) {
            let received = Received { consumer: (*consumer).to_owned(), event_id: event.id };
            if !world.inbox.contains(&received) && !given_up.contains(&(id.as_str(), *consumer)) {
                found.push(Finding::new(subject(), format!("of order {}: not applied by {consumer}", event.subject)));
            }
        }
    }
    found
}
