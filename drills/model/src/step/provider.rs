//! The provider: charges once a key, and what payment learns from it.

use contracts::payment::AttemptState;

use super::Done;
use crate::{
    Model,
    attempts::AttemptEvent,
    safeguards::Safeguard,
    world::{CallStep, Charge, Id, News, Packet, Purpose, Refund, Side, World},
};

impl Model {
    /// A request arrives, perhaps long after its caller has given it up. The attempt is the key: the same answer again.
    pub(super) fn charge(&self, w: &mut World, id: Id, side: Side, declines: bool, answered: bool) -> Done {
        let minor = w.slot(id).attempt.and_then(|row| row.content.as_ref().map(|content| content.amount_minor));
        let charge = &mut w.slot_mut(id).charges[side as usize];
        if *charge == Charge::None {
            *charge =
                if declines { Charge::Declined } else { Charge::Approved { minor: minor.unwrap_or(0), refunded: 0 } };
            if self.setting.webhooks {
                w.send(Packet::Webhook { id, side });
            }
        }
        let waiting = w
            .calls
            .iter()
            .copied()
            .find(|call| call.id == id && call.side == side && call.step == CallStep::AwaitsProvider);
        if let (Some(call), true) = (waiting, answered) {
            let event = proof(w, id, side);
            self.call_is_answered(w, call, event);
        }
        Done::Yes
    }

    /// A webhook tells what the ledger has, once the call that it speaks of is over.
    pub(super) fn prove(&self, w: &mut World, id: Id, side: Side) -> Done {
        if w.slot(id).attempt.is_some_and(|row| row.state == AttemptState::Dispatched) {
            return Done::Later;
        }
        let event = proof(w, id, side);
        self.settle(w, id, event);
        Done::Yes
    }

    /// The ledger job: every charge that nothing accounts for.
    pub(super) fn read_ledger(&self, w: &mut World, id: Id, side: Side) {
        let slot = w.slot(id);
        let settles =
            slot.attempt.is_some_and(|row| row.state == AttemptState::Approved && row.channel == Some(side.channel()));
        let is_accounted_for = settles || slot.extra[side as usize] != Refund::None;
        if !is_accounted_for && !self.lacks(Safeguard::LedgerJob) {
            self.settle(w, id, AttemptEvent::Approved(side));
        }
    }

    /// A refund has its key, so that sending it again until it is acknowledged makes one of it: one step stands for all.
    pub(super) fn send_refund(w: &mut World, id: Id, purpose: Purpose) {
        let slot = w.slot_mut(id);
        let side = slot.attempt.and_then(|row| row.channel).map_or(Side::Primary, Side::from);
        if let (Refund::Requested(asked), Charge::Approved { minor, refunded }) =
            (slot.refunds[purpose as usize], slot.charges[side as usize])
        {
            slot.refunds[purpose as usize] = Refund::Made(asked);
            slot.charges[side as usize] = Charge::Approved { minor, refunded: refunded + asked };
            w.send(Packet::Paid { id, news: News::Refunded(purpose, asked) });
        }
    }

    pub(super) fn send_extra_refund(w: &mut World, id: Id, side: Side) {
        let slot = w.slot_mut(id);
        if let (Refund::Requested(asked), Charge::Approved { minor, refunded }) =
            (slot.extra[side as usize], slot.charges[side as usize])
        {
            slot.extra[side as usize] = Refund::Made(asked);
            slot.charges[side as usize] = Charge::Approved { minor, refunded: refunded + asked };
        }
    }
}

fn proof(w: &World, id: Id, side: Side) -> AttemptEvent {
    match w.slot(id).charges[side as usize] {
        Charge::Declined => AttemptEvent::Declined(side),
        Charge::None | Charge::Approved { .. } => AttemptEvent::Approved(side),
    }
}
