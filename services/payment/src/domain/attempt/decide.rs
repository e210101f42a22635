//! The only place where an attempt changes.
//!
//! [`decide`] is pure, so that it can be property-tested and model-checked. What it rests on: a request that may have
//! left is never sent again, evidence is never thrown away, "not found" proves something only of every channel that was
//! ever told and only when nothing can be on its way any more, and a proven charge outranks every belief of ours, the
//! fence included.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use contracts::{
    event::{PaymentApproved, PaymentDeclined, PaymentFenced, PaymentReview, ReconcileDue},
    payment::{AttemptState, Channel},
};

use super::{Announcement, Attempt, Event, NotFoundAt, Refusal, Transition};

pub fn decide(attempt: &Attempt, event: &Event, now: DateTime<Utc>) -> Result<Transition, Refusal> {
    use AttemptState as S;
    let next = Attempt { version: attempt.version + 1, updated_at: now, ..attempt.clone() };
    let accept = |next: Attempt| Ok(Transition { announcement: announcement(attempt, &next), next });
    match (attempt.state, event) {
        // Created, NotDispatched → Dispatched
        (S::Created | S::NotDispatched, Event::Dispatch { channel }) => accept(Attempt {
            state: S::Dispatched,
            channel: Some(*channel),
            dispatch_no: attempt.dispatch_no + 1,
            intents: attempt.intents.with(*channel, now),
            not_dispatched_reason: None,
            last_may_have_left_at: Some(now),
            ..next
        }),
        (S::Dispatched | S::Unknown | S::Review, Event::Dispatch { .. }) => {
            Err(Refusal::Never("an earlier request may have left"))
        }
        (S::Approved | S::Declined | S::Fenced, Event::Dispatch { .. }) => Err(Refusal::Never("it is settled")),

        // Created, Dispatched → NotDispatched: since no earlier dispatch can have left either, none has.
        (S::Created | S::Dispatched, Event::NotDispatched { dispatch_no, reason })
            if *dispatch_no == attempt.dispatch_no =>
        {
            accept(Attempt {
                state: S::NotDispatched,
                not_dispatched_reason: Some(*reason),
                last_may_have_left_at: None,
                ..next
            })
        }
        (S::NotDispatched, Event::NotDispatched { dispatch_no, .. }) if *dispatch_no == attempt.dispatch_no => {
            Err(Refusal::AlreadySo)
        }
        (_, Event::NotDispatched { .. }) => Err(Refusal::Never("it is not the end of a dispatch that is under way")),

        // Dispatched → Unknown: the call is over or nobody makes it any more, so nothing leaves after this moment.
        (S::Dispatched, Event::Unknown { dispatch_no }) if *dispatch_no == attempt.dispatch_no => {
            accept(Attempt { state: S::Unknown, last_may_have_left_at: Some(now), ..next })
        }
        (S::Unknown, Event::Unknown { dispatch_no }) if *dispatch_no == attempt.dispatch_no => Err(Refusal::AlreadySo),
        (_, Event::Unknown { .. }) => Err(Refusal::Never("it is not the end of a dispatch that is under way")),

        (S::Approved, Event::Approved { channel, provider_ref }) if is_settled_by(attempt, *channel, provider_ref) => {
            Err(Refusal::AlreadySo)
        }
        (S::Approved, Event::Approved { .. }) => Err(Refusal::ExtraCharge),
        // Nobody ever learnt what to charge for a tombstone, so no order waits for it.
        (_, Event::Approved { .. }) if attempt.content.is_none() => Err(Refusal::ExtraCharge),
        // Created, Dispatched, Declined, Unknown, NotDispatched, Fenced, Review → Approved: whatever we believed, the
        // provider has the money.
        (_, Event::Approved { channel, provider_ref }) => accept(Attempt {
            state: S::Approved,
            channel: Some(*channel),
            provider_ref: Some(provider_ref.clone()),
            decline_code: None,
            not_dispatched_reason: None,
            ..next
        }),

        // Dispatched, Unknown, Review → Declined
        (S::Dispatched | S::Unknown | S::Review, Event::Declined { channel, code, provider_ref })
            if attempt.channel == Some(*channel) =>
        {
            accept(Attempt {
                state: S::Declined,
                decline_code: Some(code.clone()),
                provider_ref: provider_ref.clone(),
                ..next
            })
        }
        // A fence says as much: nothing is charged.
        (S::Declined | S::Fenced, Event::Declined { .. }) => Err(Refusal::AlreadySo),
        (_, Event::Declined { .. }) => Err(Refusal::Never("nothing was dispatched there that could be declined")),

        // Unknown, Review → Fenced
        (S::Unknown | S::Review, Event::NotFound { at, settle }) => match proves_nothing(attempt, at, *settle) {
            Some(why) => Err(Refusal::NotYet(why)),
            None => accept(Attempt { state: S::Fenced, ..next }),
        },
        (S::Dispatched, Event::NotFound { .. }) => Err(Refusal::NotYet("its call is not over")),
        (S::Declined | S::Fenced, Event::NotFound { .. }) => Err(Refusal::AlreadySo),
        // A provider that forgets what it confirmed is believed the first time.
        (S::Created | S::NotDispatched | S::Approved, Event::NotFound { .. }) => {
            Err(Refusal::Never("there is nothing to find out"))
        }

        // Unknown → Review
        (S::Unknown, Event::Unanswered) => accept(Attempt { state: S::Review, ..next }),
        (S::Review, Event::Unanswered) => Err(Refusal::AlreadySo),
        (_, Event::Unanswered) => Err(Refusal::Never("there is nothing to find out")),

        // Created, NotDispatched → Fenced
        (S::Created | S::NotDispatched, Event::Fence) => {
            accept(Attempt { state: S::Fenced, not_dispatched_reason: None, ..next })
        }
        (S::Fenced, Event::Fence) => Err(Refusal::AlreadySo),
        // A fence here would throw the evidence away, and the money would stay where it is.
        (S::Dispatched | S::Unknown | S::Review, Event::Fence) => Err(Refusal::NotYet("a request may have left")),
        (S::Approved | S::Declined, Event::Fence) => Err(Refusal::Never("it is settled")),

        // Created, NotDispatched: the same, and it waits to be dispatched.
        (S::Created | S::NotDispatched, Event::Defer) if attempt.deferred_at.is_none() => {
            accept(Attempt { deferred_at: Some(now), ..next })
        }
        (S::Created | S::NotDispatched | S::Dispatched | S::Unknown | S::Review, Event::Defer) => {
            Err(Refusal::AlreadySo)
        }
        (S::Approved | S::Declined | S::Fenced, Event::Defer) => Err(Refusal::Never("it is settled")),
    }
}

fn is_settled_by(attempt: &Attempt, channel: Channel, provider_ref: &str) -> bool {
    attempt.channel == Some(channel) && attempt.provider_ref.as_deref() == Some(provider_ref)
}

/// Why "not found" does not yet mean "never charged"; `None`: it does.
fn proves_nothing(attempt: &Attempt, found_nothing: &NotFoundAt, settle: Duration) -> Option<&'static str> {
    let (Some(left_at), Ok(settle)) = (attempt.last_may_have_left_at, TimeDelta::from_std(settle)) else {
        return Some("it is not known when a request can have left");
    };
    for channel in attempt.intents.channels() {
        match found_nothing.at(channel) {
            None => return Some("a channel that was told to charge has not answered"),
            Some(asked_at) if asked_at < left_at + settle => return Some("a request may still be on its way"),
            Some(_) => {}
        }
    }
    None
}

/// Each settlement has its event, and so has each change that somebody has to act on. A tombstone's has no order to
/// speak of, and is said in the answer alone.
fn announcement(before: &Attempt, after: &Attempt) -> Option<Announcement> {
    let content = after.content.as_ref()?;
    if before.state == after.state {
        return None;
    }
    let (order_id, attempt_id) = (content.order_id, after.id);
    Some(match after.state {
        AttemptState::Approved => Announcement::Approved(PaymentApproved {
            order_id,
            attempt_id,
            channel: after.channel?,
            provider_ref: after.provider_ref.clone()?,
            amount_minor: content.amount_minor,
            currency: content.currency,
        }),
        AttemptState::Declined => Announcement::Declined(PaymentDeclined {
            order_id,
            attempt_id,
            channel: after.channel?,
            decline_code: after.decline_code.clone()?,
        }),
        AttemptState::Fenced => Announcement::Fenced(PaymentFenced { order_id, attempt_id }),
        AttemptState::Unknown => Announcement::Reconcile(ReconcileDue { order_id, attempt_id }),
        AttemptState::Review => Announcement::Review(PaymentReview { order_id, attempt_id }),
        AttemptState::Created | AttemptState::Dispatched | AttemptState::NotDispatched => return None,
    })
}

impl Attempt {
    /// The note that it has to be asked after, while its outcome is open.
    #[must_use]
    pub fn question(&self) -> Option<Announcement> {
        let order_id = self.content.as_ref()?.order_id;
        let open = matches!(self.state, AttemptState::Unknown | AttemptState::Review);
        open.then_some(Announcement::Reconcile(ReconcileDue { order_id, attempt_id: self.id }))
    }

    /// The message of its settlement once more, for who may have missed it.
    #[must_use]
    pub fn settlement(&self) -> Option<Announcement> {
        let unsettled = Self { state: AttemptState::Dispatched, ..self.clone() };
        if self.is_settled() { announcement(&unsettled, self) } else { None }
    }
}
