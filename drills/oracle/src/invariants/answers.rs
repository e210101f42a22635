//! (6) What a client was told is what the database says, and has said.

use std::collections::BTreeMap;

use contracts::order::OrderStatus;
use uuid::Uuid;

use super::money::Books;
use crate::{Answer, Verdict, World, report::Finding, world::Order};

#[must_use]
pub fn agree(world: &World, books: &Books) -> Verdict {
    let mut found = Vec::new();
    let mut checked = 0;
    let mut promised: BTreeMap<(Uuid, &str), Uuid> = BTreeMap::new();
    for answer in &world.answers {
        let (Some(status), Some(id)) = (answer.status(), answer.order_id) else {
            if answer.places_order() && matches!(answer.status(), Some(200..=299)) {
                checked += 1;
                found.push(Finding::new(subject(answer), "an order without an id"));
            }
            continue;
        };
        checked += 1;
        let Some(order) = world.orders.get(&id.as_uuid()) else {
            found.push(Finding::order(id, format!("a client was told {status}, and there is no such order")));
            continue;
        };
        let wrong = wrong(answer, status, order, books.of_order(id.as_uuid()).iter().any(|charge| charge.open()));
        found.extend(
            wrong.into_iter().map(|what| Finding::order(id, format!("a client was told {status}, and {what}"))),
        );
        // One key, one order: but for those whose key was given back.
        if let (Some(key), true, 200..=299 | 402) = (&answer.key, answer.places_order(), status) {
            let first = *promised.entry((answer.user.as_uuid(), key)).or_insert(id.as_uuid());
            if first != id.as_uuid() {
                found.push(Finding::new(subject(answer), format!("answered with orders {first} and {id}")));
            }
        }
    }
    Verdict::new(6, "every answer agrees with the database and its history", checked).with(found)
}

fn subject(answer: &Answer) -> String {
    format!("{} {} of user {}", answer.method, answer.key.as_deref().unwrap_or(&answer.path), answer.user)
}

/// How the answer and the order differ.
fn wrong(answer: &Answer, status: u16, order: &Order, has_money: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut unless = |fine: bool, what: String| {
        if !fine {
            wrong.push(what);
        }
    };
    let now = || match &order.reason {
        Some(reason) => format!("it is {} ({reason})", order.status),
        None => format!("it is {}", order.status),
    };
    let rejected_for = |reasons: &[&str]| {
        order.status == OrderStatus::Rejected.as_str() && order.reason.as_deref().is_some_and(|r| reasons.contains(&r))
    };
    unless(order.user == answer.user.as_uuid(), "it is another user's".to_owned());
    if let Some(told) = &answer.order_status {
        unless(order.has_been(told), format!("it never was {told}"));
        let stays = match told.as_str() {
            "confirmed" => order.confirmed() || order.status == OrderStatus::Cancelled.as_str(),
            "rejected" | "cancelled" => order.status == *told,
            _ => true,
        };
        unless(stays, format!("{} after {told}", now()));
    }
    if answer.places_order() {
        match (status, answer.slug()) {
            (201, _) => {
                unless(order.has_been(OrderStatus::Confirmed.as_str()), format!("it never was confirmed: {}", now()));
            }
            (202, _) => unless(order.attempt.is_some(), "nothing was ever charged for it".to_owned()),
            (402, _) => unless(rejected_for(&["payment_declined"]), now()),
            (409, Some("out-of-stock")) => unless(rejected_for(&["out_of_stock"]), now()),
            (409, Some("coupon-expired" | "coupon-exhausted" | "coupon-already-used"))
            | (422, Some("coupon-unknown")) => {
                unless(rejected_for(&["coupon_refused"]), now());
            }
            (422, Some("unknown-sku")) => unless(rejected_for(&["unknown_sku"]), now()),
            // The order that such an answer names did not come about, and nothing was kept for it.
            (503 | 504, Some("payment-unavailable" | "inventory-unavailable" | "deadline-exceeded")) => {
                unless(order.status == OrderStatus::Rejected.as_str() && !has_money, now());
            }
            _ => {}
        }
    } else if answer.cancels() {
        match (status, answer.slug()) {
            (200, _) => unless(order.status == OrderStatus::Cancelled.as_str(), now()),
            // It is fenced first, and whatever comes of that, it is not delivered.
            (202, _) => unless(!order.confirmed(), now()),
            (409, Some("not-cancellable")) => unless(order.status == OrderStatus::Rejected.as_str(), now()),
            _ => {}
        }
    }
    wrong
}
