//! Payment: what it does with calls, messages, evidence and its jobs.

use contracts::payment::AttemptState;
use payment::domain::attempt::Refusal;

use super::Done;
use crate::{
    Model,
    attempts::{self, AttemptEvent, AttemptRow},
    safeguards::Safeguard,
    world::{Answer, Call, CallStep, Charge, Id, News, Packet, Refund, Side, World},
};

impl Model {
    /// Decides, and saves what follows in one step. Writes are conditional on what was read, so that a decision on the
    /// row as it is stands for reading, losing the race and deciding again.
    pub(super) fn settle(&self, w: &mut World, id: Id, event: AttemptEvent) -> bool {
        let Some(row) = w.slot(id).attempt else { return false };
        if self.lacks(Safeguard::ApprovedFromFenced)
            && row.state == AttemptState::Fenced
            && matches!(event, AttemptEvent::Approved(_))
        {
            return false;
        }
        if self.lacks(Safeguard::FenceCoversNotDispatched) && event == AttemptEvent::Fence {
            return false;
        }
        let decided = match attempts::decide(row, event) {
            Ok(decided) => decided,
            Err(Refusal::ExtraCharge) => {
                if let AttemptEvent::Approved(side) = event
                    && !self.lacks(Safeguard::ExtraChargeRefunded)
                {
                    give_back(w, id, side);
                }
                return false;
            }
            Err(_) => return false,
        };
        w.slot_mut(id).contradicted |= row.is_settled() && decided.row.state == AttemptState::Approved;
        self.save(w, id, decided.row);
        if let Some(news) = decided.news {
            w.send(Packet::Paid { id, news });
        }
        true
    }

    fn save(&self, w: &mut World, id: Id, row: AttemptRow) {
        if row.state == AttemptState::Fenced {
            let is_charged = |charge: &Charge| matches!(charge, Charge::Approved { .. });
            w.marks.overlooked |= w.slot(id).charges.iter().any(is_charged);
        }
        w.slot_mut(id).attempt = Some(row);
    }

    /// `PUT`: whoever makes the row sends, once; everybody else is told what the row says.
    pub(super) fn pay(&self, w: &mut World, id: Id, caller: u8) -> Done {
        let amount = w.slot(id).order.map_or(0, |order| order.price.total_minor);
        match w.slot(id).attempt {
            None => {
                w.slot_mut(id).attempt = Some(attempts::created(amount));
                if self.lacks(Safeguard::IntentBeforeSend) {
                    w.begin(Call {
                        id,
                        side: Side::Primary,
                        dispatch_no: 1,
                        caller: Some(caller),
                        step: CallStep::Intended,
                    });
                } else {
                    self.dispatch(w, id, Side::Primary, Some(caller));
                }
            }
            Some(row) if self.lacks(Safeguard::IntentBeforeSend) && row.state == AttemptState::Created => {
                // The row tells nothing of the call that is under way.
                for side in Side::ALL.into_iter().filter(|side| self.setting.backup || *side == Side::Primary) {
                    w.begin(Call { id, side, dispatch_no: 1, caller: Some(caller), step: CallStep::Intended });
                }
            }
            Some(row) if self.lacks(Safeguard::RefusedOnceAndForAll) && row.state == AttemptState::NotDispatched => {
                self.dispatch(w, id, Side::Primary, Some(caller));
            }
            Some(row) => tell(w, id, caller, answer(row)),
        }
        Done::Yes
    }

    /// The intent, durable before the first byte may leave.
    pub(super) fn dispatch(&self, w: &mut World, id: Id, side: Side, caller: Option<u8>) {
        if self.settle(w, id, AttemptEvent::Dispatch(side))
            && let Some(row) = w.slot(id).attempt
        {
            w.begin(Call { id, side, dispatch_no: row.dispatch_no, caller, step: CallStep::Intended });
        } else if let (Some(caller), Some(row)) = (caller, w.slot(id).attempt) {
            tell(w, id, caller, answer(row));
        }
    }

    /// The request of this call certainly did not leave.
    pub(super) fn call_did_not_leave(&self, w: &mut World, call: Call) {
        let is_its = w
            .slot(call.id)
            .attempt
            .is_some_and(|row| row.state == AttemptState::Dispatched && row.dispatch_no == call.dispatch_no);
        self.settle(w, call.id, AttemptEvent::NotDispatched { dispatch_no: call.dispatch_no });
        // In the same transaction, and only if the row is still as this call left it.
        if call.side == Side::Primary && self.setting.backup && is_its {
            self.dispatch(w, call.id, Side::Backup, call.caller);
        } else {
            self.answer_call(w, call);
        }
    }

    /// What the provider answered to the call, on record and told to whom waits for it.
    pub(super) fn call_is_answered(&self, w: &mut World, call: Call, event: AttemptEvent) {
        w.end(call);
        let is_told = |packet: &Packet| matches!(packet, Packet::Paid { id, .. } if *id == call.id);
        let told_before = w.net.iter().any(is_told);
        self.settle(w, call.id, event);
        if self.lacks(Safeguard::EverySettlementTells) && !told_before {
            w.net.retain(|packet| !is_told(packet));
        }
        self.answer_call(w, call);
    }

    pub(super) fn answer_call(&self, w: &mut World, call: Call) {
        if let (Some(caller), Some(row)) = (call.caller, w.slot(call.id).attempt) {
            tell(w, call.id, caller, answer(row));
        }
    }

    pub(super) fn fence(&self, w: &mut World, id: Id, caller: Option<u8>) -> Done {
        match w.slot(id).attempt {
            None => w.slot_mut(id).attempt = Some(attempts::tombstone()),
            Some(row) => match row.state {
                AttemptState::Dispatched | AttemptState::Unknown if self.lacks(Safeguard::FenceSparesUnknown) => {
                    self.save(
                        w,
                        id,
                        attempts::keep(payment::domain::attempt::Attempt {
                            state: AttemptState::Fenced,
                            ..(*row).clone()
                        }),
                    );
                    w.send(Packet::Paid { id, news: News::Fenced });
                }
                _ => {
                    self.settle(w, id, AttemptEvent::Fence);
                }
            },
        }
        if let Some(row) = w.slot(id).attempt {
            w.send(Packet::FenceAnswer { id, caller, answer: answer(row) });
        }
        Done::Yes
    }

    /// Reconciliation: every channel that was ever told is asked, after any request can still be on its way.
    pub(super) fn ask(&self, w: &mut World, id: Id) {
        let slot = *w.slot(id);
        let Some(row) = slot.attempt else { return };
        let told = |side: Side| row.intents.at(side.channel()).is_some();
        let one_alone = self.lacks(Safeguard::AskEveryChannel);
        for side in Side::ALL.into_iter().filter(|side| told(*side) && !(one_alone && *side == Side::Backup)) {
            match slot.charges[side as usize] {
                Charge::Approved { .. } => {
                    self.settle(w, id, AttemptEvent::Approved(side));
                }
                Charge::Declined => {
                    self.settle(w, id, AttemptEvent::Declined(side));
                }
                Charge::None => {}
            }
        }
        // A no is at least no charge.
        let silent =
            |side: Side| told(side) && (one_alone || !matches!(slot.charges[side as usize], Charge::Approved { .. }));
        let (primary, backup) = (silent(Side::Primary), silent(Side::Backup));
        self.settle(w, id, AttemptEvent::NotFound { primary, backup });
    }
}

fn answer(row: AttemptRow) -> Answer {
    let side = row.channel.map_or(Side::Primary, Side::from);
    match row.state {
        AttemptState::Approved => Answer::Approved(side),
        AttemptState::Declined => Answer::Declined(side),
        AttemptState::NotDispatched => Answer::NotDispatched,
        AttemptState::Fenced => Answer::Fenced,
        AttemptState::Created | AttemptState::Dispatched | AttemptState::Unknown | AttemptState::Review => {
            Answer::Unknown
        }
    }
}

/// An answer that nobody waits for any more is dropped where it arrives.
fn tell(w: &mut World, id: Id, caller: u8, answer: Answer) {
    if w.runs.iter().any(|run| run.id == id && run.attempt == caller) {
        w.send(Packet::PayAnswer { id, caller, answer });
    }
}

/// A charge that settles nothing goes back.
fn give_back(w: &mut World, id: Id, side: Side) {
    let slot = w.slot_mut(id);
    if let (Charge::Approved { minor, .. }, Refund::None) = (slot.charges[side as usize], slot.extra[side as usize]) {
        slot.extra[side as usize] = Refund::Requested(minor);
    }
}
