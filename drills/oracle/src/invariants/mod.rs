//! The nine invariants of DESIGN, section 14. Each is a function of the world; those about one subject share a file.

pub mod answers;
pub mod coupons;
pub mod events;
pub mod keys;
pub mod money;
pub mod standing;
pub mod stock;

use crate::{Verdict, World};

/// All nine, in order.
#[must_use]
pub fn judge(world: &World) -> Vec<Verdict> {
    let books = money::Books::of(world);
    vec![
        money::paid_is_charged(world, &books),
        money::confirmed_has_one_charge(world, &books),
        money::dead_has_none(world, &books),
        stock::adds_up(world),
        keys::one_charged_order_each(world, &books),
        answers::agree(world, &books),
        events::applied_once(world),
        standing::nothing_stands(world),
        coupons::within_limits(world),
    ]
}
