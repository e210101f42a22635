//! What an action does to the world.

mod drive;
mod order;
mod payment;
mod provider;
mod requests;
mod siblings;

pub use self::order::{awaits_refund, paid_minor};
pub use self::siblings::agrees;

use contracts::payment::AttemptState;

use crate::{
    Model,
    action::{Action, How},
    attempts::AttemptEvent,
    orders::{self, OrderEvent},
    safeguards::Safeguard,
    world::{Call, CallStep, KeyState, Packet, RunStep, Side, World},
};

impl Model {
    pub fn step(&self, w: &mut World, action: Action) {
        match action {
            Action::Submit { key } => self.submit(w, key),
            Action::Cancel { id } => self.cancel(w, id),
            Action::Create(run) => {
                w.leave(run);
                if self.still_held(w, run) {
                    w.slot_mut(run.id).order = Some(orders::submitted(self.setting.coupons.is_some()));
                    self.drive(w, run);
                }
            }
            Action::Intend(run) => {
                w.leave(run);
                if self.apply_in_run(w, run, OrderEvent::ChargeIntended) {
                    w.enter(at(run, RunStep::Intended));
                }
            }
            Action::OutOfTime(run) => {
                w.leave(run);
                self.go_on(w, run, OrderEvent::Expired);
            }
            Action::Pay(run) => {
                w.leave(run);
                w.send(Packet::Pay { id: run.id, caller: run.attempt });
                w.enter(at(run, RunStep::AwaitsPayment));
            }
            Action::PayIsNotSent(run) => {
                w.left.refusals -= 1;
                w.leave(run);
                self.go_on(w, run, OrderEvent::NotDispatched { left: false, may_wait: self.setting.deferral });
            }
            Action::GiveUp(run) => self.give_up(w, run),
            Action::RunDies(run) => {
                w.left.crashes -= 1;
                w.leave(run);
            }
            Action::Deliver(packet, how) => self.deliver(w, packet, how),
            Action::Lose(packet) => {
                w.left.losses -= 1;
                w.take(packet);
            }
            Action::TakeOver { id } => self.take_over(w, id),
            Action::FencePending { id } => self.fence_pending(w, id),
            Action::Walk { id } => self.walk(w, id),
            Action::Prune { key } => w.keys[usize::from(key)].state = KeyState::Free,
            Action::Send(_) | Action::IsNotSent(_) | Action::CallGivesUp(_) | Action::CallDies(_) => {
                self.step_of_call(w, action)
            }
            Action::Sweep { id } => self.sweep(w, id),
            Action::TellAgain { id } => {
                if let Some(attempt) = w.slot(id).attempt {
                    requests::tell_again(w, id, attempt);
                }
            }
            Action::Ask { id } => self.ask(w, id),
            Action::NobodyAnswers { id } => {
                w.left.refusals -= 1;
                self.settle(w, id, AttemptEvent::Unanswered);
            }
            Action::Drain { id } => self.dispatch(w, id, Side::Primary, None),
            Action::ReadLedger { id, side } => self.read_ledger(w, id, side),
            Action::SendRefund { id, purpose } => Self::send_refund(w, id, purpose),
            Action::SendExtraRefund { id, side } => Self::send_extra_refund(w, id, side),
        }
    }

    fn step_of_call(&self, w: &mut World, action: Action) {
        match action {
            Action::Send(call) => {
                w.end(call);
                w.send(Packet::Charge { id: call.id, side: call.side });
                w.begin(Call { step: CallStep::AwaitsProvider, ..call });
            }
            Action::IsNotSent(call) => {
                w.left.refusals -= 1;
                w.end(call);
                if self.setting.connect_lies {
                    w.send(Packet::Charge { id: call.id, side: call.side });
                }
                self.call_did_not_leave(w, call);
            }
            Action::CallGivesUp(call) => {
                w.end(call);
                if self.lacks(Safeguard::WorstOfTries) {
                    self.call_did_not_leave(w, call);
                } else {
                    self.settle(w, call.id, AttemptEvent::Unknown { dispatch_no: call.dispatch_no });
                    self.answer_call(w, call);
                }
            }
            Action::CallDies(call) => {
                w.left.crashes -= 1;
                w.end(call);
            }
            _ => {}
        }
    }

    fn deliver(&self, w: &mut World, packet: Packet, how: How) {
        match how {
            How::AndAgain => w.left.duplicates -= 1,
            How::WithoutAnswer => w.left.losses -= 1,
            How::Plainly | How::Declining => {}
        }
        let answered = how != How::WithoutAnswer;
        let done = match packet {
            Packet::Reserve { id, caller } => self.reserve(w, id, answered.then_some(caller)),
            Packet::Redeem { id, caller } => self.redeem(w, id, answered.then_some(caller)),
            Packet::ReleaseNow { id, caller } => self.release_now(w, id, caller),
            Packet::Stock { id, fate } => self.settle_stock(w, id, fate),
            Packet::Coupon { id, fate } => self.settle_coupon(w, id, fate),
            Packet::Compensate { id } => self.compensate(w, id),
            Packet::Pay { id, caller } => self.pay(w, id, caller),
            Packet::Fence { id, caller } => self.fence(w, id, caller),
            Packet::Unknown { id } => self.hear_unknown(w, id),
            Packet::Deferred { id } => self.hear_deferred(w, id),
            Packet::Refund { id, purpose, minor } => self.hear_refund(w, id, purpose, minor),
            Packet::PayAnswer { id, caller, answer } => self.hear_payment(w, id, caller, answer),
            Packet::FenceAnswer { id, caller, answer } => self.hear_fence(w, id, caller, answer),
            Packet::Paid { id, news } => self.hear_news(w, id, news),
            Packet::CouponSettled { id, honoured } => self.hear(w, id, OrderEvent::CouponSettled { honoured }),
            Packet::Charge { id, side } => self.charge(w, id, side, how == How::Declining, answered),
            Packet::Webhook { id, side } => self.prove(w, id, side),
        };
        if done == Done::Yes && how != How::AndAgain {
            w.take(packet);
        }
    }

    fn sweep(&self, w: &mut World, id: crate::world::Id) {
        if w.calls.iter().any(|call| call.id == id) {
            w.left.pauses -= 1;
        }
        let Some(attempt) = w.slot(id).attempt.filter(|_| !self.lacks(Safeguard::Sweeper)) else { return };
        match attempt.state {
            AttemptState::Dispatched => {
                self.settle(w, id, AttemptEvent::Unknown { dispatch_no: attempt.dispatch_no });
            }
            _ => {
                self.settle(w, id, AttemptEvent::Fence);
            }
        }
    }
}

/// Whether a message is done with, or waits for a later try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    Yes,
    Later,
}

const fn at(run: crate::world::Run, step: RunStep) -> crate::world::Run {
    crate::world::Run { step, ..run }
}
