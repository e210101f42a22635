//! (4) Units are on hand or sold, none is lost, and sold is what confirmed orders took.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Verdict, World, report::Finding};

/// Of each product.
#[derive(Default)]
struct Units {
    /// Of confirmed orders.
    taken: i64,
    /// Of committed reservations.
    committed: i64,
    /// Of reservations that are held, and of those of orders that may still hold something.
    held: i64,
    rightly_held: i64,
}

#[must_use]
pub fn adds_up(world: &World) -> Verdict {
    let mut found = Vec::new();
    let mut units: BTreeMap<&str, Units> = BTreeMap::new();
    for order in world.orders.values().filter(|order| order.confirmed()) {
        for (sku, quantity) in &order.units {
            units.entry(sku).or_default().taken += quantity;
        }
    }
    for (id, reservation) in &world.reservations {
        let order = world.orders.get(id);
        match (reservation.state.as_str(), order) {
            ("held" | "committed", None) => {
                found.push(Finding::order(id, format!("{} units, and no such order", reservation.state)));
            }
            ("held" | "committed", Some(order)) if order.dead() => {
                found.push(Finding::order(id, format!("{}, and its stock is {}", order.status, reservation.state)));
            }
            (state @ ("held" | "released" | "returned"), Some(order)) if order.confirmed() => {
                found.push(Finding::order(id, format!("confirmed, and its stock is {state}")));
            }
            ("committed", Some(order)) if !order.confirmed() => {
                found.push(Finding::order(id, format!("{}, and its stock is committed", order.status)));
            }
            ("committed", Some(order)) if order.units != reservation.units => {
                found.push(Finding::order(id, "what was committed is not what was ordered"));
            }
            _ => {}
        }
        for (sku, quantity) in &reservation.units {
            let of_product = units.entry(sku).or_default();
            match reservation.state.as_str() {
                "committed" => of_product.committed += quantity,
                "held" => {
                    of_product.held += quantity;
                    if order.is_some_and(|order| !order.settled()) {
                        of_product.rightly_held += quantity;
                    }
                }
                _ => {}
            }
        }
    }
    for (id, _) in world.orders.iter().filter(|(_, order)| order.confirmed()) {
        if !world.reservations.contains_key(id) {
            found.push(Finding::order(id, "confirmed, and nothing was ever reserved"));
        }
    }
    let stocked: BTreeSet<&str> = world.stock.iter().map(|stock| stock.sku.as_str()).collect();
    for sku in units.keys().filter(|sku| !stocked.contains(*sku)) {
        found.push(Finding::new(format!("product {sku}"), "reserved or sold, and not in stock"));
    }
    let none = Units::default();
    for stock in &world.stock {
        let of_product = units.get(stock.sku.as_str()).unwrap_or(&none);
        let mut wrong = |is: bool, what: String| {
            if is {
                found.push(Finding::new(format!("product {}", stock.sku), what));
            }
        };
        let crate::world::Stock { on_hand, reserved, sold, received, .. } = *stock;
        let Units { taken, committed, held, rightly_held } = *of_product;
        wrong(received != on_hand + sold, format!("{received} received, {on_hand} on hand, {sold} sold"));
        wrong(
            on_hand < 0 || reserved < 0 || sold < 0 || reserved > on_hand,
            format!("{on_hand} on hand, {reserved} reserved, {sold} sold"),
        );
        wrong(sold != taken, format!("{sold} sold, and confirmed orders took {taken}"));
        wrong(sold != committed, format!("{sold} sold, and {committed} committed"));
        wrong(reserved != held, format!("{reserved} reserved, and {held} held"));
        wrong(reserved != rightly_held, format!("{reserved} reserved, {rightly_held} for orders that still wait"));
    }
    Verdict::new(4, "received = on hand + sold, nothing reserved, sold = confirmed", world.stock.len()).with(found)
}
