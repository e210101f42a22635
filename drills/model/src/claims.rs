//! What must hold: in every reachable state, and in every state in which nothing is left to do. And what must be
//! reachable at all, so that a pass is not one of a world in which nothing happens.

use contracts::{
    order::{OrderCouponState, OrderPaymentState, OrderStatus, StatusReason},
    payment::AttemptState,
};
use stateright::Property;

use crate::{
    Model, is_dead,
    orders::OrderRow,
    step::{agrees, awaits_refund, paid_minor},
    world::{Charge, Holding, KeyState, Packet, Refund, Slot, World},
};

type Claim = (&'static str, fn(&Model, &World) -> bool);

/// In every reachable state.
const ALWAYS: [Claim; 9] = [
    ("at most one order of a key is ever charged", |m, w| {
        (0..m.setting.keys)
            .all(|key| w.slots.iter().filter(|s| s.key == key && charges(s).next().is_some()).count() <= 1)
    }),
    ("no attempt is charged on two channels", |m, w| {
        m.setting.connect_lies || w.slots.iter().all(|slot| charges(slot).count() <= 1)
    }),
    ("no more is refunded than was charged", |_, w| {
        w.slots.iter().flat_map(charges).all(|(minor, refunded)| refunded <= minor)
    }),
    ("a confirmed order was charged its total", |_, w| {
        ended(w).all(|(slot, order)| {
            order.status != OrderStatus::Confirmed || charges(slot).any(|(minor, _)| minor == order.price.total_minor)
        })
    }),
    ("no attempt is fenced over a charge that could be seen", |m, w| m.setting.connect_lies || !w.marks.overlooked),
    ("no unit is promised twice", |m, w| holders(w, |slot| slot.stock) <= usize::from(m.setting.stock)),
    ("no coupon is promised twice", |m, w| {
        m.setting.coupons.is_none_or(|coupons| holders(w, |slot| slot.coupon) <= usize::from(coupons))
    }),
    ("no ordinary message is a dead letter", |_, w| !w.marks.dead_letter),
    ("no retry meets its own hold", |_, w| !w.marks.met_own_hold),
];

/// In every state in which nothing is left to do.
const QUIET: [Claim; 7] = [
    ("quiet: no order is stuck", |_, w| w.slots.iter().filter_map(|s| s.order).all(|order| order.status.is_final())),
    ("quiet: charged less refunded is what the order says is paid", |_, w| {
        ended(w).all(|(slot, order)| charges(slot).map(|(minor, back)| minor - back).sum::<i64>() == paid_minor(order))
    }),
    ("quiet: a confirmed order has one charge that stands, a dead one has none", |_, w| {
        ended(w).all(|(slot, order)| {
            let stand = charges(slot).filter(|(minor, refunded)| refunded < minor).count();
            stand == usize::from(order.status == OrderStatus::Confirmed)
        })
    }),
    ("quiet: every refund has come back to its order", |_, w| ended(w).all(|(_, order)| !awaits_refund(order))),
    ("quiet: stock is sold to confirmed orders, and none is reserved", |_, w| {
        ended(w).all(|(slot, order)| agrees(slot.stock, order.status))
    }),
    ("quiet: coupons are used by confirmed orders, and none is held", |_, w| {
        ended(w).all(|(slot, order)| match order.coupon.state {
            OrderCouponState::Applied | OrderCouponState::Refunded => agrees(slot.coupon, order.status),
            // One that is still pending would be owed for ever.
            OrderCouponState::Pending => false,
            _ => is_free(slot.coupon),
        })
    }),
    ("quiet: an order that was taken back is dead", |_, w| {
        ended(w).all(|(slot, order)| !slot.taken_back || is_dead(order.status))
    }),
];

/// In some state, where the world has what it takes.
const SOMETIMES: [Claim; 10] = [
    ("seen: a late approval is refunded", |_, w| {
        ended(w).any(|(_, order)| {
            order.status == OrderStatus::Rejected && order.payment.state == OrderPaymentState::Refunded
        })
    }),
    ("seen: a fenced attempt is charged", |_, w| {
        w.slots.iter().any(|slot| {
            slot.attempt.is_some_and(|row| row.state == AttemptState::Fenced) && charges(slot).next().is_some()
        })
    }),
    ("seen: a webhook comes for what is settled", |_, w| {
        w.net.iter().any(|packet| matches!(*packet, Packet::Webhook { id, .. } if is_settled(w.slot(id))))
    }),
    ("seen: a lease is taken over from a run that lives", |_, w| {
        w.runs.iter().any(|run| {
            let key = w.keys[usize::from(w.slot(run.id).key)].state;
            matches!(key, KeyState::Held { id, attempt } if id == run.id && attempt > run.attempt)
        })
    }),
    ("seen: a cancel comes while the charge is in flight", |_, w| {
        w.slots
            .iter()
            .any(|slot| slot.taken_back && slot.order.is_some_and(|order| order.status == OrderStatus::PaymentInFlight))
    }),
    ("seen: a deferred charge is made", |_, w| {
        ended(w).any(|(_, order)| {
            order.status == OrderStatus::Confirmed && order.degraded.iter().any(|feature| feature == "payment")
        })
    }),
    ("seen: a discount that was promised is refunded", |_, w| {
        ended(w).any(|(_, order)| order.coupon.state == OrderCouponState::Refunded)
    }),
    ("seen: a charge too many is refunded", |_, w| {
        w.slots.iter().any(|slot| slot.extra.iter().any(|refund| matches!(refund, Refund::Made(_))))
    }),
    ("seen: a freed key makes a second order, and it is confirmed", |_, w| {
        w.slots.iter().enumerate().any(|(at, slot)| {
            slot.order.is_some_and(|order| order.status == OrderStatus::Confirmed)
                && w.slots[..at].iter().any(|earlier| earlier.key == slot.key)
        })
    }),
    ("seen: the last unit goes to one order, and another is without", |_, w| {
        ended(w).any(|(_, order)| order.status == OrderStatus::Confirmed)
            && ended(w).any(|(_, order)| order.reason == Some(StatusReason::OutOfStock))
    }),
];

#[must_use]
pub fn all() -> Vec<Property<Model>> {
    let always = ALWAYS.into_iter().map(|(name, holds)| Property::always(name, holds));
    let quiet = [
        Property::always(QUIET[0].0, |m: &Model, w| !m.is_quiet(w) || (QUIET[0].1)(m, w)),
        Property::always(QUIET[1].0, |m: &Model, w| !m.is_quiet(w) || (QUIET[1].1)(m, w)),
        Property::always(QUIET[2].0, |m: &Model, w| !m.is_quiet(w) || (QUIET[2].1)(m, w)),
        Property::always(QUIET[3].0, |m: &Model, w| !m.is_quiet(w) || (QUIET[3].1)(m, w)),
        Property::always(QUIET[4].0, |m: &Model, w| !m.is_quiet(w) || (QUIET[4].1)(m, w)),
        Property::always(QUIET[5].0, |m: &Model, w| !m.is_quiet(w) || (QUIET[5].1)(m, w)),
        Property::always(QUIET[6].0, |m: &Model, w| !m.is_quiet(w) || (QUIET[6].1)(m, w)),
    ];
    let sometimes = SOMETIMES.into_iter().map(|(name, seen)| Property::sometimes(name, seen));
    always.chain(quiet).chain(sometimes).collect()
}

/// What each attempt was charged, and how much of that went back.
fn charges(slot: &Slot) -> impl Iterator<Item = (i64, i64)> {
    slot.charges.iter().filter_map(|charge| match *charge {
        Charge::Approved { minor, refunded } => Some((minor, refunded)),
        Charge::None | Charge::Declined => None,
    })
}

fn ended(w: &World) -> impl Iterator<Item = (&Slot, OrderRow)> {
    w.slots.iter().filter_map(|slot| Some((slot, slot.order?))).filter(|(_, order)| order.status.is_final())
}

fn is_settled(slot: &Slot) -> bool {
    slot.attempt.is_some_and(|attempt| attempt.is_settled())
}

fn holders(w: &World, of: fn(&Slot) -> Holding) -> usize {
    w.slots.iter().filter(|slot| matches!(of(slot), Holding::Held | Holding::Committed)).count()
}

fn is_free(holding: Holding) -> bool {
    !matches!(holding, Holding::Held | Holding::Committed)
}
