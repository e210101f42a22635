//! Everything that can happen next.

use contracts::{
    order::{OrderPaymentState, OrderStatus},
    payment::AttemptState,
};

use crate::{
    Model,
    safeguards::Safeguard,
    world::{Call, CallStep, Charge, Id, KeyState, Packet, Purpose, Refund, Run, RunStep, Side, World},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    // Clients.
    Submit { key: u8 },
    Cancel { id: Id },
    // A run of order.
    Create(Run),
    Intend(Run),
    OutOfTime(Run),
    Pay(Run),
    PayIsNotSent(Run),
    GiveUp(Run),
    RunDies(Run),
    // A call of payment.
    Send(Call),
    IsNotSent(Call),
    CallGivesUp(Call),
    CallDies(Call),
    // The network and the broker.
    Deliver(Packet, How),
    Lose(Packet),
    // Jobs of order.
    TakeOver { id: Id },
    FencePending { id: Id },
    Walk { id: Id },
    Prune { key: u8 },
    // Jobs of payment.
    Sweep { id: Id },
    TellAgain { id: Id },
    Ask { id: Id },
    NobodyAnswers { id: Id },
    Drain { id: Id },
    ReadLedger { id: Id, side: Side },
    SendRefund { id: Id, purpose: Purpose },
    SendExtraRefund { id: Id, side: Side },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Plainly,
    /// The provider says no.
    Declining,
    /// A second copy stays on its way.
    AndAgain,
    /// It has its effect, and the answer is lost.
    WithoutAnswer,
}

impl Action {
    /// Says again what was said before.
    #[must_use]
    pub const fn is_reminder(self) -> bool {
        matches!(self, Self::FencePending { .. } | Self::Walk { .. } | Self::TellAgain { .. })
    }
}

impl Model {
    /// What the system does by itself. Where none of this changes anything, it is quiet.
    pub fn progress(&self, w: &World, actions: &mut Vec<Action>) {
        let timeouts = self.setting.timeouts;
        for &run in &w.runs {
            match run.step {
                RunStep::Claimed => actions.push(Action::Create(run)),
                RunStep::Ready => {
                    actions.push(Action::Intend(run));
                    if timeouts {
                        actions.push(Action::OutOfTime(run));
                    }
                }
                RunStep::Intended => actions.push(Action::Pay(run)),
                _ if timeouts => actions.push(Action::GiveUp(run)),
                _ => {}
            }
        }
        for &call in &w.calls {
            match call.step {
                CallStep::Intended => actions.push(Action::Send(call)),
                CallStep::AwaitsProvider if timeouts => actions.push(Action::CallGivesUp(call)),
                CallStep::AwaitsProvider => {}
            }
        }
        for &packet in &w.net {
            actions.push(Action::Deliver(packet, How::Plainly));
            if let Packet::Charge { id, side } = packet
                && self.setting.declines
                && w.slot(id).charges[side as usize] == Charge::None
            {
                actions.push(Action::Deliver(packet, How::Declining));
            }
        }
        for (id, _) in (0..).zip(&w.slots) {
            self.jobs(w, id, actions);
        }
    }

    fn jobs(&self, w: &World, id: Id, actions: &mut Vec<Action>) {
        let slot = w.slot(id);
        if let Some(order) = slot.order {
            if self.stands(w, id) && !self.is_held(w, slot.key) {
                actions.push(Action::TakeOver { id });
            }
            match order.status {
                OrderStatus::PaymentPending => actions.push(Action::FencePending { id }),
                status if status.is_final() => actions.push(Action::Walk { id }),
                _ => {}
            }
        }
        if let Some(attempt) = slot.attempt {
            let is_called = w.calls.iter().any(|call| call.id == id);
            match attempt.state {
                AttemptState::Unknown | AttemptState::Review => actions.push(Action::Ask { id }),
                AttemptState::Created | AttemptState::NotDispatched if attempt.deferred_at.is_some() => {
                    actions.push(Action::Drain { id });
                }
                AttemptState::Created | AttemptState::Dispatched | AttemptState::NotDispatched if !is_called => {
                    actions.push(Action::Sweep { id });
                }
                _ => {}
            }
        }
        // To an order that knows, it says nothing new.
        let knows = slot.order.is_some_and(|order| {
            use OrderPaymentState::{Approved, RefundDue, Refunded};
            matches!(order.payment.state, Approved | RefundDue | Refunded)
        });
        if slot.contradicted && !knows && !self.lacks(Safeguard::ContradictionsRepeated) {
            actions.push(Action::TellAgain { id });
        }
        for side in Side::ALL {
            if matches!(slot.charges[side as usize], Charge::Approved { .. }) {
                actions.push(Action::ReadLedger { id, side });
            }
            if matches!(slot.extra[side as usize], Refund::Requested(_)) {
                actions.push(Action::SendExtraRefund { id, side });
            }
        }
        for purpose in [Purpose::Full, Purpose::Coupon] {
            if matches!(slot.refunds[purpose as usize], Refund::Requested(_)) {
                actions.push(Action::SendRefund { id, purpose });
            }
        }
    }

    /// A state from which only a run can move the order, under a key that still has no outcome.
    pub(crate) fn stands(&self, w: &World, id: Id) -> bool {
        let slot = w.slot(id);
        let status = slot.order.map(|order| order.status);
        matches!(status, Some(OrderStatus::Created | OrderStatus::StockReserved | OrderStatus::PaymentInFlight))
            && matches!(w.keys[usize::from(slot.key)].state, KeyState::Held { id: held, .. } if held == id)
    }

    /// Whether the run that has the key's lease is alive.
    pub(crate) fn is_held(&self, w: &World, key: u8) -> bool {
        let KeyState::Held { id, attempt } = w.keys[usize::from(key)].state else { return false };
        w.runs.iter().any(|run| run.id == id && run.attempt == attempt)
    }

    /// Whether a request with this key has not been answered yet.
    pub(crate) fn is_at_work(&self, w: &World, key: u8) -> bool {
        w.runs.iter().any(|run| w.slot(run.id).key == key)
    }
}
