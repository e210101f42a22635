//! What clients do, and everything that can go wrong, as long as the budget lasts.

use contracts::{order::OrderStatus, payment::AttemptState};

use crate::{
    Model,
    action::{Action, How},
    safeguards::Safeguard,
    world::{CallStep, KeyState, Packet, RunStep, World},
};

impl Model {
    /// What clients and misfortune do.
    pub fn disturbances(&self, w: &World, actions: &mut Vec<Action>) {
        for (key, row) in (0..).zip(&w.keys) {
            let may_send = row.requests > 0 && (self.setting.overlap || !self.is_at_work(w, key));
            let claims = match row.state {
                KeyState::Free => true,
                KeyState::Held { .. } => !self.is_held(w, key) || w.left.pauses > 0,
                KeyState::Done(_) => false,
            };
            if may_send && claims {
                actions.push(Action::Submit { key });
            }
            if self.lacks(Safeguard::KeysOutliveOrders) && matches!(row.state, KeyState::Done(_)) && row.requests > 0 {
                actions.push(Action::Prune { key });
            }
        }
        for (id, slot) in (0..).zip(&w.slots) {
            if w.left.cancels > 0 && slot.order.is_some_and(|order| order.status != OrderStatus::Rejected) {
                actions.push(Action::Cancel { id });
            }
            if w.left.pauses > 0 {
                if self.stands(w, id) && self.is_held(w, slot.key) {
                    actions.push(Action::TakeOver { id });
                }
                if slot.attempt.is_some_and(|attempt| attempt.state == AttemptState::Dispatched)
                    && w.calls.iter().any(|call| call.id == id)
                {
                    actions.push(Action::Sweep { id });
                }
            }
            if w.left.refusals > 0 && slot.attempt.is_some_and(|attempt| attempt.state == AttemptState::Unknown) {
                actions.push(Action::NobodyAnswers { id });
            }
        }
        if w.left.refusals > 0 {
            actions.extend(w.runs.iter().filter(|r| r.step == RunStep::Intended).map(|r| Action::PayIsNotSent(*r)));
            actions.extend(w.calls.iter().filter(|c| c.step == CallStep::Intended).map(|c| Action::IsNotSent(*c)));
        }
        if w.left.crashes > 0 {
            actions.extend(w.runs.iter().map(|run| Action::RunDies(*run)));
            actions.extend(w.calls.iter().map(|call| Action::CallDies(*call)));
        }
        for &packet in &w.net {
            if w.left.losses > 0 {
                actions.push(Action::Lose(packet));
                if is_answered_at_once(packet) {
                    actions.push(Action::Deliver(packet, How::WithoutAnswer));
                }
            }
            if w.left.duplicates > 0 && !is_absorbed(packet) {
                actions.push(Action::Deliver(packet, How::AndAgain));
            }
        }
    }
}

/// Calls whose answer is the end of their delivery.
const fn is_answered_at_once(packet: Packet) -> bool {
    matches!(packet, Packet::Reserve { .. } | Packet::Redeem { .. } | Packet::Charge { .. })
}

/// What a receiver tells from its copy for sure: an inbox knows the message, and an answer is read once.
const fn is_absorbed(packet: Packet) -> bool {
    !matches!(
        packet,
        Packet::Reserve { .. }
            | Packet::Redeem { .. }
            | Packet::Pay { .. }
            | Packet::Fence { .. }
            | Packet::Charge { .. }
            | Packet::Webhook { .. }
    )
}
