//! (5) A client that sends again with its key is charged for one order.
//!
//! A freed key leaves no row behind, so the log of answers is asked as well: it knows every order that a key was ever
//! answered with.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::money::Books;
use crate::{Verdict, World, report::Finding};

#[must_use]
pub fn one_charged_order_each(world: &World, books: &Books) -> Verdict {
    let mut orders: BTreeMap<(Uuid, &str), BTreeSet<Uuid>> = BTreeMap::new();
    for key in &world.keys {
        orders.entry((key.user_id, &key.key)).or_default().insert(key.resource_id);
    }
    for answer in world.answers.iter().filter(|answer| answer.places_order()) {
        if let (Some(key), Some(order)) = (&answer.key, answer.order_id) {
            orders.entry((answer.user.as_uuid(), key)).or_default().insert(order.as_uuid());
        }
    }
    let charged = |orders: &BTreeSet<Uuid>| {
        let charged = orders.iter().filter(|order| !books.of_order(**order).is_empty());
        charged.map(Uuid::to_string).collect::<Vec<_>>()
    };
    let found = orders.iter().filter_map(|((user, key), orders)| {
        let charged = charged(orders);
        let subject = || format!("key {key} of user {user}");
        (charged.len() > 1).then(|| Finding::new(subject(), format!("charged for orders {}", charged.join(", "))))
    });
    Verdict::new(5, "at most one order a key was ever charged", orders.len()).with(found.collect())
}
