//! Inventory and coupon, reduced to the states of a reservation: order alone lets go, and what was let go stays so.

use contracts::order::OrderStatus;

use super::Done;
use crate::{
    Model, is_dead,
    orders::OrderEvent,
    safeguards::Safeguard,
    world::{Compensation, Fate, Holding, Id, Packet, RunStep, World},
};

impl Model {
    /// `caller`: the attempt of the run that gets the answer.
    pub(super) fn reserve(&self, w: &mut World, id: Id, caller: Option<u8>) -> Done {
        let taken = w.slots.iter().filter(|slot| matches!(slot.stock, Holding::Held | Holding::Committed)).count();
        let event = match w.slot(id).stock {
            Holding::None if taken < usize::from(self.setting.stock) => {
                w.slot_mut(id).stock = Holding::Held;
                OrderEvent::StockHeld
            }
            Holding::None => {
                let key = w.slot(id).key;
                let own = w.slots.iter().any(|other| {
                    other.key == key
                        && other.stock == Holding::Held
                        && other.order.is_some_and(|order| is_dead(order.status))
                });
                if own && !self.lacks(Safeguard::NotSoldOutByItself) {
                    OrderEvent::StockUnknown
                } else {
                    w.marks.met_own_hold |= own;
                    OrderEvent::OutOfStock
                }
            }
            Holding::Held | Holding::Committed => OrderEvent::StockHeld,
            Holding::Released | Holding::Returned => OrderEvent::StockReleased,
        };
        self.answer_run(w, id, caller, RunStep::AwaitsStock, event)
    }

    pub(super) fn redeem(&self, w: &mut World, id: Id, caller: Option<u8>) -> Done {
        let event = match w.slot(id).coupon {
            Holding::None if self.has_coupon_left(w) => {
                w.slot_mut(id).coupon = Holding::Held;
                OrderEvent::CouponHeld
            }
            Holding::Held | Holding::Committed => OrderEvent::CouponHeld,
            Holding::None | Holding::Released | Holding::Returned => OrderEvent::CouponRefused,
        };
        self.answer_run(w, id, caller, RunStep::AwaitsCoupon, event)
    }

    fn answer_run(&self, w: &mut World, id: Id, caller: Option<u8>, step: RunStep, event: OrderEvent) -> Done {
        if let Some(run) = caller.and_then(|caller| w.run_at(id, caller, step)) {
            w.leave(run);
            self.go_on(w, run, event);
        }
        Done::Yes
    }

    fn has_coupon_left(&self, w: &World) -> bool {
        let taken = w.slots.iter().filter(|slot| matches!(slot.coupon, Holding::Held | Holding::Committed)).count();
        taken < usize::from(self.setting.coupons.unwrap_or(0))
    }

    pub(super) fn release_now(&self, w: &mut World, id: Id, caller: u8) -> Done {
        let stock = &mut w.slot_mut(id).stock;
        *stock = self.settled(*stock, Fate::Release);
        if let Some(run) = w.run_at(id, caller, RunStep::AwaitsRelease) {
            w.leave(run);
        }
        Done::Yes
    }

    pub(super) fn settle_stock(&self, w: &mut World, id: Id, fate: Fate) -> Done {
        let stock = &mut w.slot_mut(id).stock;
        *stock = self.settled(*stock, fate);
        Done::Yes
    }

    pub(super) fn settle_coupon(&self, w: &mut World, id: Id, fate: Fate) -> Done {
        let coupon = &mut w.slot_mut(id).coupon;
        *coupon = self.settled(*coupon, fate);
        Done::Yes
    }

    fn settled(&self, holding: Holding, fate: Fate) -> Holding {
        match (holding, fate) {
            (Holding::Held, Fate::Commit) => Holding::Committed,
            (Holding::Released, Fate::Commit) if self.lacks(Safeguard::NoCommitAfterRelease) => Holding::Committed,
            (holding, Fate::Commit) => holding,
            (Holding::None, Fate::Release) if self.lacks(Safeguard::Tombstones) => Holding::None,
            (Holding::None | Holding::Held, Fate::Release) => Holding::Released,
            (Holding::Committed, Fate::Release) => Holding::Returned,
            (holding, Fate::Release) => holding,
        }
    }

    /// A discount that was promised: redeemed for the order and committed at once, or not to be had.
    pub(super) fn compensate(&self, w: &mut World, id: Id) -> Done {
        let slot = *w.slot(id);
        let (coupon, outcome) = match (slot.compensation, slot.coupon) {
            (Compensation::None, Holding::Held | Holding::Committed) => (Holding::Committed, Compensation::Honoured),
            (Compensation::None, Holding::None) if self.has_coupon_left(w) => {
                (Holding::Committed, Compensation::Honoured)
            }
            (Compensation::None, coupon) => (coupon, Compensation::Refused),
            // Settled before; order is told once more.
            (outcome, coupon) => (coupon, outcome),
        };
        let slot = w.slot_mut(id);
        (slot.coupon, slot.compensation) = (coupon, outcome);
        w.send(Packet::CouponSettled { id, honoured: outcome == Compensation::Honoured });
        Done::Yes
    }
}

/// Whether what a sibling holds for an order that has ended like this is what it should hold.
#[must_use]
pub fn agrees(holding: Holding, status: OrderStatus) -> bool {
    match status {
        OrderStatus::Confirmed => holding == Holding::Committed,
        _ => matches!(holding, Holding::None | Holding::Released | Holding::Returned),
    }
}
