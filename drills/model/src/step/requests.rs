//! What order says to payment through the broker.

use contracts::payment::AttemptState;

use super::Done;
use crate::{
    Model,
    attempts::{self, AttemptEvent, AttemptRow},
    safeguards::Safeguard,
    world::{Id, News, Packet, Purpose, Refund, World},
};

impl Model {
    /// Order called and does not know what came of it.
    pub(super) fn hear_unknown(&self, w: &mut World, id: Id) -> Done {
        match w.slot(id).attempt {
            None => {
                w.slot_mut(id).attempt = Some(attempts::tombstone());
                w.send(Packet::Paid { id, news: News::Fenced });
            }
            Some(row) => match row.state {
                AttemptState::Created | AttemptState::NotDispatched => {
                    self.settle(w, id, AttemptEvent::Fence);
                }
                _ => tell_again(w, id, row),
            },
        }
        Done::Yes
    }

    /// The charge may wait. It says what to charge, since the request that would have may never have arrived.
    pub(super) fn hear_deferred(&self, w: &mut World, id: Id) -> Done {
        if w.slot(id).attempt.is_none() {
            let amount = w.slot(id).order.map_or(0, |order| order.price.total_minor);
            w.slot_mut(id).attempt = Some(attempts::created(amount));
        }
        if !self.settle(w, id, AttemptEvent::Defer)
            && let Some(row) = w.slot(id).attempt
        {
            tell_again(w, id, row);
        }
        Done::Yes
    }

    /// Order asks for money back only after it was told of the charge.
    pub(super) fn hear_refund(&self, w: &mut World, id: Id, purpose: Purpose, minor: i64) -> Done {
        if self.lacks(Safeguard::VersionsGateNoCommand) && w.slot(id).taken_back {
            return Done::Yes;
        }
        if w.slot(id).attempt.is_none_or(|row| row.state != AttemptState::Approved) {
            w.marks.dead_letter = true;
            return Done::Yes;
        }
        w.slot_mut(id).contradicted = false;
        let refund = &mut w.slot_mut(id).refunds[purpose as usize];
        match *refund {
            Refund::None => *refund = Refund::Requested(minor),
            Refund::Requested(_) => {}
            Refund::Made(made) => w.send(Packet::Paid { id, news: News::Refunded(purpose, made) }),
        }
        Done::Yes
    }
}

pub(super) fn tell_again(w: &mut World, id: Id, row: AttemptRow) {
    // A tombstone never learnt whose it is; whoever asks knows.
    let tombstone = (row.state == AttemptState::Fenced).then_some(News::Fenced);
    if let Some(news) = attempts::settlement(row).or(tombstone) {
        w.send(Packet::Paid { id, news });
    }
}
