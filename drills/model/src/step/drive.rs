//! Order's loop: from where an order stands to an outcome, as `workflow/drive.rs` has it.

use contracts::order::{OrderPaymentState, OrderStatus};

use super::{Done, at};
use crate::{
    Model,
    orders::OrderEvent,
    safeguards::Safeguard,
    world::{Answer, Charge, Compensation, Holding, Id, KeyState, Packet, Refund, Run, RunStep, Slot, World},
};

impl Model {
    /// A client's request: claims the key, or takes over what a dead run left.
    pub(super) fn submit(&self, w: &mut World, key: u8) {
        w.keys[usize::from(key)].requests -= 1;
        let (id, attempt) = match w.keys[usize::from(key)].state {
            KeyState::Held { id, attempt } => {
                if w.runs.iter().any(|run| run.id == id && run.attempt == attempt) {
                    w.left.pauses -= 1;
                }
                if self.lacks(Safeguard::ClaimFixesOrder) { (new_slot(w, key), 1) } else { (id, attempt + 1) }
            }
            KeyState::Free | KeyState::Done(_) => (new_slot(w, key), 1),
        };
        w.keys[usize::from(key)].state = KeyState::Held { id, attempt };
        let run = Run { id, attempt, step: RunStep::Claimed };
        if w.slot(id).order.is_some() { self.drive(w, run) } else { w.enter(run) }
    }

    /// Whether the run is still the one that may write; asked in the transaction of every phase.
    pub(super) fn still_held(&self, w: &World, run: Run) -> bool {
        let key = &w.keys[usize::from(w.slot(run.id).key)];
        self.lacks(Safeguard::AttemptFencing) || key.state == KeyState::Held { id: run.id, attempt: run.attempt }
    }

    pub(super) fn apply_in_run(&self, w: &mut World, run: Run, event: OrderEvent) -> bool {
        self.still_held(w, run) && self.apply(w, run.id, event).is_ok()
    }

    /// Applies what the run has learnt, and does what is next. A run whose event is refused was overtaken, and tells its
    /// client what somebody else has made of the order.
    pub(super) fn go_on(&self, w: &mut World, run: Run, event: OrderEvent) {
        if self.apply_in_run(w, run, event) {
            self.drive(w, run);
        } else {
            self.answer(w, run);
        }
    }

    /// What is next for an order that stands like this.
    pub(super) fn drive(&self, w: &mut World, run: Run) {
        let Some(order) = w.slot(run.id).order else { return };
        let (id, caller) = (run.id, run.attempt);
        match order.status {
            OrderStatus::Created => {
                w.send(Packet::Reserve { id, caller });
                w.enter(at(run, RunStep::AwaitsStock));
            }
            OrderStatus::StockReserved if order.coupon.is_open() => {
                w.send(Packet::Redeem { id, caller });
                w.enter(at(run, RunStep::AwaitsCoupon));
            }
            OrderStatus::StockReserved => w.enter(at(run, RunStep::Ready)),
            OrderStatus::PaymentInFlight if order.payment.state == OrderPaymentState::NotDispatched => {
                w.send(Packet::Fence { id, caller: Some(caller) });
                w.enter(at(run, RunStep::AwaitsFence));
            }
            // Found so: the run that saved the intent died, before or after it sent the request.
            OrderStatus::PaymentInFlight => self.go_on(w, run, OrderEvent::PaymentUnknown),
            OrderStatus::PaymentPending | OrderStatus::Confirmed | OrderStatus::Rejected | OrderStatus::Cancelled => {
                self.answer(w, run)
            }
        }
    }

    /// The end of a run. A client that is told to come again must not meet its own hold.
    fn answer(&self, w: &mut World, run: Run) {
        let Some(order) = w.slot(run.id).order else { return };
        let invites = order.problem.as_ref().is_some_and(|problem| problem.retryable);
        if order.status == OrderStatus::Rejected && invites && !self.lacks(Safeguard::ReleaseBeforeRetry) {
            w.send(Packet::ReleaseNow { id: run.id, caller: run.attempt });
            w.enter(at(run, RunStep::AwaitsRelease));
        }
    }

    pub(super) fn give_up(&self, w: &mut World, run: Run) {
        w.leave(run);
        match run.step {
            RunStep::AwaitsStock => self.go_on(w, run, OrderEvent::StockUnknown),
            RunStep::AwaitsCoupon => self.go_on(w, run, OrderEvent::CouponPending),
            RunStep::AwaitsPayment if self.lacks(Safeguard::PendingAfterIntent) => {
                self.go_on(w, run, OrderEvent::NotDispatched { left: false, may_wait: false });
            }
            RunStep::AwaitsPayment | RunStep::AwaitsFence => self.go_on(w, run, OrderEvent::PaymentUnknown),
            RunStep::Claimed | RunStep::Ready | RunStep::Intended | RunStep::AwaitsRelease => {}
        }
    }

    /// The recoverer's way through the same loop: nobody waits, so what was not charged is brought to an end.
    pub(super) fn recover(&self, w: &mut World, id: Id, attempt: u8) {
        let run = Run { id, attempt, step: RunStep::Claimed };
        match w.slot(id).order.map(|order| order.status) {
            Some(OrderStatus::Created | OrderStatus::StockReserved) => self.go_on(w, run, OrderEvent::Expired),
            Some(_) => self.drive(w, run),
            None => {}
        }
    }

    /// Payment's answer to a run that waits for it.
    pub(super) fn hear_payment(&self, w: &mut World, id: Id, caller: u8, answer: Answer) -> Done {
        let Some(run) = w.run_at(id, caller, RunStep::AwaitsPayment) else { return Done::Yes };
        w.leave(run);
        let event = match answer {
            Answer::NotDispatched => OrderEvent::NotDispatched {
                left: !self.lacks(Safeguard::RefusedOnceAndForAll),
                may_wait: self.setting.deferral,
            },
            answer => said_by(answer),
        };
        self.go_on(w, run, event);
        Done::Yes
    }

    pub(super) fn hear_fence(&self, w: &mut World, id: Id, caller: Option<u8>, answer: Answer) -> Done {
        let Some(caller) = caller else { return self.hear_fence_alone(w, id, answer) };
        let Some(run) = w.run_at(id, caller, RunStep::AwaitsFence) else { return Done::Yes };
        w.leave(run);
        self.go_on(w, run, said_by(answer));
        Done::Yes
    }
}

const fn said_by(answer: Answer) -> OrderEvent {
    match answer {
        Answer::Approved(side) => OrderEvent::Approved(side),
        Answer::Declined(side) => OrderEvent::Declined(side),
        Answer::Fenced => OrderEvent::Fenced,
        Answer::NotDispatched | Answer::Unknown => OrderEvent::PaymentUnknown,
    }
}

/// The claim fixes the order id.
fn new_slot(w: &mut World, key: u8) -> Id {
    w.slots.push(Slot {
        key,
        order: None,
        taken_back: false,
        stock: Holding::None,
        coupon: Holding::None,
        compensation: Compensation::None,
        attempt: None,
        charges: [Charge::None; 2],
        refunds: [Refund::None; 2],
        extra: [Refund::None; 2],
        contradicted: false,
    });
    Id::try_from(w.slots.len() - 1).unwrap_or(Id::MAX)
}
