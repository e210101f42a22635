//! Order: what its workflow does with an event, whoever brings it, and its jobs.

use contracts::{
    order::{OrderCouponState, OrderPaymentState, OrderStatus, StatusReason},
    payment::AttemptState,
};
use order::domain::{Acknowledged, Effect, KeyFate, Refusal, outstanding};

use super::Done;
use crate::{
    Model, is_dead,
    orders::{self, OrderEvent, OrderRow},
    safeguards::Safeguard,
    world::{Answer, Fate, Holding, Id, KeyState, News, Packet, Purpose, Refund, World},
};

impl Model {
    /// Decides, and saves what follows in one step, as the shell does in one transaction.
    pub(super) fn apply(&self, w: &mut World, id: Id, event: OrderEvent) -> Result<(), Refusal> {
        let row = w.slot(id).order.ok_or(Refusal::NotYet)?;
        if self.lacks(Safeguard::LateApprovalRefunds) && is_dead(row.status) && matches!(event, OrderEvent::Approved(_))
        {
            return Err(Refusal::AlreadySo);
        }
        if self.lacks(Safeguard::CancelIsState)
            && event == OrderEvent::CancelRequested
            && matches!(row.status, OrderStatus::PaymentInFlight | OrderStatus::PaymentPending)
        {
            return Ok(());
        }
        let decided = orders::decide(row, event)?;
        w.slot_mut(id).order = Some(decided.row);
        for effect in &decided.effects {
            self.emit(w, id, *effect);
        }
        if self.lacks(Safeguard::CompensationAfterConfirmation)
            && event == OrderEvent::PaymentUnknown
            && row.coupon.state == OrderCouponState::Pending
        {
            w.send(Packet::Compensate { id });
        }
        let key = usize::from(w.slot(id).key);
        let is_its = matches!(w.keys[key].state, KeyState::Held { id: held, .. } if held == id);
        match decided.key {
            _ if self.lacks(Safeguard::KeyKeptAfterDispatch) && event == OrderEvent::Fenced => {
                w.keys[key].state = KeyState::Free;
            }
            KeyFate::Complete if is_its => w.keys[key].state = KeyState::Done(id),
            KeyFate::Release if is_its => w.keys[key].state = KeyState::Free,
            KeyFate::Keep | KeyFate::Complete | KeyFate::Release => {}
        }
        Ok(())
    }

    fn emit(&self, w: &mut World, id: Id, effect: Effect) {
        let Some(order) = w.slot(id).order else { return };
        match effect {
            Effect::Confirmed => {
                w.send(Packet::Stock { id, fate: Fate::Commit });
                if order.coupon.state == OrderCouponState::Applied {
                    w.send(Packet::Coupon { id, fate: Fate::Commit });
                }
            }
            Effect::Rejected | Effect::Cancelled => self.release(w, id, order),
            Effect::PaymentUnknown => w.send(Packet::Unknown { id }),
            Effect::PaymentDeferred => w.send(Packet::Deferred { id }),
            Effect::RefundRequested(purpose) => {
                let Some(refund) = order.refund(purpose) else { return };
                let whole = self.lacks(Safeguard::FullRefundIsTheRest) && Purpose::from(purpose) == Purpose::Full;
                let minor = if whole { order.price.total_minor } else { refund.amount_minor };
                w.send(Packet::Refund { id, purpose: purpose.into(), minor });
            }
            Effect::CompensateCoupon => w.send(Packet::Compensate { id }),
        }
    }

    fn release(&self, w: &mut World, id: Id, order: OrderRow) {
        let never_held =
            self.lacks(Safeguard::ReleaseAfterStockRefused) && order.reason == Some(StatusReason::OutOfStock);
        if !never_held {
            w.send(Packet::Stock { id, fate: Fate::Release });
        }
        // The coupon of an order that ended without an answer about it.
        let believed_free = self.lacks(Safeguard::DeadOrdersAlwaysRelease) && order.price.discount_minor == 0;
        if order.coupon.code.is_some() && !believed_free {
            w.send(Packet::Coupon { id, fate: Fate::Release });
        }
    }

    /// An event that a message brings.
    pub(super) fn hear(&self, w: &mut World, id: Id, event: OrderEvent) -> Done {
        match self.apply(w, id, event) {
            Ok(()) => Done::Yes,
            Err(Refusal::AlreadySo) => {
                w.marks.dead_letter |= self.lacks(Safeguard::DuplicatesAreNotNever);
                Done::Yes
            }
            // The next hop has an id of its own, so that the inbox does not take it for the first.
            Err(Refusal::NotYet) if !self.lacks(Safeguard::OwnIdPerHop) => Done::Later,
            Err(Refusal::NotYet) => Done::Yes,
            Err(Refusal::Never) => {
                w.marks.dead_letter = true;
                Done::Yes
            }
        }
    }

    pub(super) fn hear_news(&self, w: &mut World, id: Id, news: News) -> Done {
        let event = match news {
            News::Approved(side) => OrderEvent::Approved(side),
            News::Declined(side) => OrderEvent::Declined(side),
            News::Fenced => OrderEvent::Fenced,
            News::Review => OrderEvent::InReview,
            News::Refunded(purpose, minor) => OrderEvent::Refunded(purpose, minor),
        };
        self.hear(w, id, event)
    }

    pub(super) fn cancel(&self, w: &mut World, id: Id) {
        w.left.cancels -= 1;
        if self.apply(w, id, OrderEvent::CancelRequested).is_err() {
            return;
        }
        w.slot_mut(id).taken_back = true;
        let status = w.slot(id).order.map(|order| order.status);
        if matches!(status, Some(OrderStatus::PaymentInFlight | OrderStatus::PaymentPending)) {
            w.send(Packet::Fence { id, caller: None });
        }
    }

    /// The answer to a fence that no run waits for.
    pub(super) fn hear_fence_alone(&self, w: &mut World, id: Id, answer: Answer) -> Done {
        let event = match answer {
            Answer::Approved(side) => OrderEvent::Approved(side),
            Answer::Declined(side) => OrderEvent::Declined(side),
            Answer::Fenced => OrderEvent::Fenced,
            // What is in flight has a run that will say more than "unknown".
            Answer::NotDispatched | Answer::Unknown => {
                if w.slot(id).order.is_none_or(|order| order.status != OrderStatus::PaymentPending) {
                    return Done::Yes;
                }
                OrderEvent::PaymentUnknown
            }
        };
        // Refused: it is known by now, by another way.
        let _refused = self.apply(w, id, event);
        Done::Yes
    }

    /// A payment that is pending for too long. Asking about one that payment itself is at work on changes nothing, and
    /// is left out.
    pub(super) fn fence_pending(&self, w: &mut World, id: Id) {
        let under_way = w.net.iter().any(|packet| match *packet {
            Packet::Fence { id: of, caller: None } | Packet::FenceAnswer { id: of, caller: None, .. } => of == id,
            _ => false,
        });
        let changes_nothing = w.slot(id).attempt.is_some_and(|attempt| {
            matches!(attempt.state, AttemptState::Dispatched | AttemptState::Unknown | AttemptState::Review)
        });
        if !under_way && !changes_nothing && !self.lacks(Safeguard::PendingMaxAge) {
            w.send(Packet::Fence { id, caller: None });
        }
    }

    /// Tells again what an order that has ended has told without effect.
    pub(super) fn walk(&self, w: &mut World, id: Id) {
        let slot = *w.slot(id);
        let Some(order) = slot.order.filter(|_| !self.lacks(Safeguard::FinalOrdersWalked)) else { return };
        let took_effect = |holding: Holding| match order.status {
            OrderStatus::Confirmed => holding == Holding::Committed,
            _ => matches!(holding, Holding::Released | Holding::Returned),
        };
        let acknowledged = Acknowledged { stock: took_effect(slot.stock), coupon: took_effect(slot.coupon) };
        for effect in outstanding(&order, acknowledged) {
            // What is under way or being done needs no other message; it would change nothing.
            let under_way = match effect {
                Effect::CompensateCoupon => {
                    w.net.iter().any(|p| matches!(*p, Packet::CouponSettled { id: of, .. } if of == id))
                }
                Effect::RefundRequested(purpose) => {
                    let purpose = Purpose::from(purpose);
                    matches!(slot.refunds[purpose as usize], Refund::Requested(_))
                        || w.net.iter().any(|p| {
                            matches!(*p, Packet::Paid { id: of, news: News::Refunded(what, _) }
                                if of == id && what == purpose)
                        })
                }
                _ => false,
            };
            if !under_way {
                self.emit(w, id, effect);
            }
        }
    }

    /// The recoverer: brings an order to an end whose run stands still.
    pub(super) fn take_over(&self, w: &mut World, id: Id) {
        let key = usize::from(w.slot(id).key);
        let KeyState::Held { attempt, .. } = w.keys[key].state else { return };
        if w.runs.iter().any(|run| run.id == id && run.attempt == attempt) {
            w.left.pauses -= 1;
        }
        w.keys[key].state = KeyState::Held { id, attempt: attempt + 1 };
        self.recover(w, id, attempt + 1);
    }
}

/// What an order says that its customer has paid.
#[must_use]
pub fn paid_minor(order: OrderRow) -> i64 {
    let returned: i64 = order.refunds.iter().map(|refund| refund.amount_minor).sum();
    match order.status {
        OrderStatus::Confirmed => order.price.total_minor - returned,
        _ => 0,
    }
}

/// Whether the order waits for money that is on its way back.
#[must_use]
pub fn awaits_refund(order: OrderRow) -> bool {
    order.has_open_refund() || order.payment.state == OrderPaymentState::RefundDue
}
