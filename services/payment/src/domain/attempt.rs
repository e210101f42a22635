//! One attempt to charge: its states, and the only function that changes one.
//!
//! [`decide`] is pure, so that it can be property-tested and model-checked. What it rests on: a request that may have
//! left is never sent again, evidence is never thrown away, and a proven charge outranks every belief of ours, the
//! fence included.

use chrono::{DateTime, Utc};
use contracts::{
    AttemptId,
    event::{PaymentApproved, PaymentDeclined, PaymentFenced},
    payment::{AttemptState, Channel, Charge, NotDispatchedReason},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub id: AttemptId,
    /// What is to be charged; missing in a tombstone alone.
    pub content: Option<Charge>,
    pub state: AttemptState,
    /// Where the last dispatch went; after a settlement, where the charge is.
    pub channel: Option<Channel>,
    /// Raised by every dispatch.
    pub dispatch_no: i32,
    pub provider_ref: Option<String>,
    pub decline_code: Option<String>,
    pub not_dispatched_reason: Option<NotDispatchedReason>,
    /// Raised by every transition.
    pub version: i64,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    /// The last moment at which a request is known to have been able to leave; none while none can have.
    pub last_may_have_left_at: Option<DateTime<Utc>>,
}

impl Attempt {
    /// An attempt that nothing was done for yet.
    #[must_use]
    pub const fn new(id: AttemptId, content: Charge, now: DateTime<Utc>) -> Self {
        Self::bare(id, Some(content), AttemptState::Created, now)
    }

    /// An attempt that was fenced before it was heard of: whatever comes for it later is refused.
    #[must_use]
    pub const fn tombstone(id: AttemptId, now: DateTime<Utc>) -> Self {
        Self::bare(id, None, AttemptState::Fenced, now)
    }

    const fn bare(id: AttemptId, content: Option<Charge>, state: AttemptState, now: DateTime<Utc>) -> Self {
        Self {
            id,
            content,
            state,
            channel: None,
            dispatch_no: 0,
            provider_ref: None,
            decline_code: None,
            not_dispatched_reason: None,
            version: 1,
            created_at: now,
            updated_at: now,
            last_may_have_left_at: None,
        }
    }
}

/// What is known to have happened, or is about to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The request is going to be sent. Durable before it may leave.
    Dispatch { channel: Channel },
    /// The request of this dispatch certainly did not leave.
    NotDispatched { dispatch_no: i32, reason: NotDispatchedReason },
    /// The provider proved a charge, by whatever path.
    Approved { channel: Channel, provider_ref: String },
    /// The provider said no, with a code of its own.
    Declined { channel: Channel, code: String, provider_ref: Option<String> },
    /// The request of this dispatch may have left, and nothing tells what came of it.
    Unknown { dispatch_no: i32 },
    /// Order wants to be sure that nothing will be sent.
    Fence,
}

impl Event {
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Dispatch { .. } => "dispatch",
            Self::NotDispatched { .. } => "not_dispatched",
            Self::Approved { .. } => "approved",
            Self::Declined { .. } => "declined",
            Self::Unknown { .. } => "unknown",
            Self::Fence => "fence",
        }
    }

    /// For the history.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Dispatch { channel } => Some(channel.as_str()),
            Self::NotDispatched { reason, .. } => Some(reason.as_str()),
            Self::Approved { provider_ref, .. } => Some(provider_ref),
            Self::Declined { code, .. } => Some(code),
            Self::Unknown { .. } | Self::Fence => None,
        }
    }
}

/// What an accepted event leads to: saved together, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    pub next: Attempt,
    pub announcement: Option<Announcement>,
}

/// The event of a settlement, for the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Announcement {
    Approved(PaymentApproved),
    Declined(PaymentDeclined),
    Fenced(PaymentFenced),
}

/// Why an event changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Drop the event.
    #[error("it is so already")]
    AlreadySo,
    /// Come again when more is known.
    #[error("not yet: {0}")]
    NotYet(&'static str),
    /// It will never be accepted.
    #[error("never: {0}")]
    Never(&'static str),
}

/// The only place where an attempt changes.
pub fn decide(attempt: &Attempt, event: &Event, now: DateTime<Utc>) -> Result<Transition, Refusal> {
    use AttemptState as S;
    let next = Attempt { version: attempt.version + 1, updated_at: now, ..attempt.clone() };
    let accept = |next: Attempt| Ok(Transition { announcement: announcement(&next), next });
    match (attempt.state, event) {
        // Created, NotDispatched → Dispatched
        (S::Created | S::NotDispatched, Event::Dispatch { channel }) => accept(Attempt {
            state: S::Dispatched,
            channel: Some(*channel),
            dispatch_no: attempt.dispatch_no + 1,
            not_dispatched_reason: None,
            last_may_have_left_at: Some(now),
            ..next
        }),
        (S::Dispatched | S::Unknown | S::Review, Event::Dispatch { .. }) => {
            Err(Refusal::Never("an earlier request may have left"))
        }
        (S::Approved | S::Declined | S::Fenced, Event::Dispatch { .. }) => Err(Refusal::Never("it is settled")),

        // Dispatched → NotDispatched: since no earlier dispatch can have left either, none has.
        (S::Dispatched, Event::NotDispatched { dispatch_no, reason }) if *dispatch_no == attempt.dispatch_no => {
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

        // Dispatched → Unknown: the call is over, so that nothing of it can leave after this moment.
        (S::Dispatched, Event::Unknown { dispatch_no }) if *dispatch_no == attempt.dispatch_no => {
            accept(Attempt { state: S::Unknown, last_may_have_left_at: Some(now), ..next })
        }
        (S::Unknown, Event::Unknown { dispatch_no }) if *dispatch_no == attempt.dispatch_no => Err(Refusal::AlreadySo),
        (_, Event::Unknown { .. }) => Err(Refusal::Never("it is not the end of a dispatch that is under way")),

        (S::Approved, Event::Approved { channel, provider_ref }) => {
            if attempt.channel == Some(*channel) && attempt.provider_ref.as_ref() == Some(provider_ref) {
                Err(Refusal::AlreadySo)
            } else {
                Err(Refusal::Never("another charge settled the attempt"))
            }
        }
        // Created, Dispatched, Declined, Unknown, NotDispatched, Fenced, Review → Approved: whatever we believed, the
        // provider has the money. A tombstone is the exception: nobody ever learnt what to charge for it.
        (_, Event::Approved { .. }) if attempt.content.is_none() => Err(Refusal::Never("nothing was ever sent for it")),
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

        // Created, NotDispatched → Fenced
        (S::Created | S::NotDispatched, Event::Fence) => {
            accept(Attempt { state: S::Fenced, not_dispatched_reason: None, ..next })
        }
        (S::Fenced, Event::Fence) => Err(Refusal::AlreadySo),
        // A fence here would throw the evidence away, and the money would stay where it is.
        (S::Dispatched | S::Unknown | S::Review, Event::Fence) => Err(Refusal::NotYet("a request may have left")),
        (S::Approved | S::Declined, Event::Fence) => Err(Refusal::Never("it is settled")),
    }
}

/// Each settlement has its event. A tombstone's has no order to speak of, and is said in the answer alone.
fn announcement(attempt: &Attempt) -> Option<Announcement> {
    let content = attempt.content.as_ref()?;
    let (order_id, attempt_id) = (content.order_id, attempt.id);
    match attempt.state {
        AttemptState::Approved => Some(Announcement::Approved(PaymentApproved {
            order_id,
            attempt_id,
            channel: attempt.channel?,
            provider_ref: attempt.provider_ref.clone()?,
            amount_minor: content.amount_minor,
            currency: content.currency,
        })),
        AttemptState::Declined => Some(Announcement::Declined(PaymentDeclined {
            order_id,
            attempt_id,
            channel: attempt.channel?,
            decline_code: attempt.decline_code.clone()?,
        })),
        AttemptState::Fenced => Some(Announcement::Fenced(PaymentFenced { order_id, attempt_id })),
        AttemptState::Created
        | AttemptState::Dispatched
        | AttemptState::Unknown
        | AttemptState::NotDispatched
        | AttemptState::Review => None,
    }
}

#[cfg(test)]
mod tests {
    use contracts::{Currency, OrderId};
    use proptest::prelude::*;

    use super::*;

    fn created() -> Attempt {
        let content = Charge {
            order_id: OrderId::generate(),
            amount_minor: 1_250,
            currency: Currency::USD,
            payment_method: "tok_approve".into(),
        };
        Attempt::new(AttemptId::generate(), content, Utc::now())
    }

    fn channel() -> impl Strategy<Value = Channel> {
        prop_oneof![Just(Channel::Primary), Just(Channel::Backup)]
    }

    fn event() -> impl Strategy<Value = Event> {
        let code = || prop_oneof![Just("a".to_owned()), Just("b".to_owned())];
        prop_oneof![
            3 => channel().prop_map(|channel| Event::Dispatch { channel }),
            3 => (1..4).prop_map(|dispatch_no| Event::NotDispatched {
                dispatch_no, reason: NotDispatchedReason::ConnectFailed,
            }),
            1 => (channel(), code()).prop_map(|(channel, provider_ref)| Event::Approved { channel, provider_ref }),
            1 => (channel(), code()).prop_map(|(channel, code)| Event::Declined { channel, code, provider_ref: None }),
            1 => (1..4).prop_map(|dispatch_no| Event::Unknown { dispatch_no }),
            1 => Just(Event::Fence),
        ]
    }

    /// Feeds `events` to `start`, and shows every step that was accepted: before, event, after.
    fn steps(start: Attempt, events: &[Event]) -> Vec<(Attempt, Event, Transition)> {
        let mut attempt = start;
        let mut steps = Vec::new();
        for event in events {
            if let Ok(transition) = decide(&attempt, event, Utc::now()) {
                let before = std::mem::replace(&mut attempt, transition.next.clone());
                steps.push((before, event.clone(), transition));
            }
        }
        steps
    }

    fn in_every_state() -> Vec<Attempt> {
        let base = Attempt {
            channel: Some(Channel::Primary),
            dispatch_no: 1,
            last_may_have_left_at: Some(Utc::now()),
            ..created()
        };
        let of = |state| Attempt { state, ..base.clone() };
        use AttemptState as S;
        vec![
            created(),
            of(S::Dispatched),
            Attempt { provider_ref: Some("ch_1".into()), ..of(S::Approved) },
            Attempt { decline_code: Some("no".into()), ..of(S::Declined) },
            of(S::Unknown),
            Attempt { not_dispatched_reason: Some(NotDispatchedReason::Deadline), ..of(S::NotDispatched) },
            of(S::Fenced),
            of(S::Review),
        ]
    }

    #[test]
    fn a_proven_charge_is_accepted_from_every_state_and_announced() {
        for attempt in in_every_state() {
            let proof = Event::Approved { channel: Channel::Primary, provider_ref: "ch_9".into() };
            let decided = decide(&attempt, &proof, Utc::now());
            if attempt.state == AttemptState::Approved {
                assert_eq!(decided, Err(Refusal::Never("another charge settled the attempt")));
            } else {
                let transition = decided.unwrap();
                assert_eq!(transition.next.state, AttemptState::Approved);
                assert!(matches!(transition.announcement, Some(Announcement::Approved(_))), "{:?}", attempt.state);
            }
        }
    }

    #[test]
    fn a_fence_changes_nothing_where_a_request_may_have_left() {
        use AttemptState as S;
        for attempt in in_every_state() {
            let decided = decide(&attempt, &Event::Fence, Utc::now());
            match attempt.state {
                S::Created | S::NotDispatched => assert_eq!(decided.unwrap().next.state, S::Fenced),
                S::Dispatched | S::Unknown | S::Review => assert!(matches!(decided, Err(Refusal::NotYet(_)))),
                S::Fenced => assert_eq!(decided, Err(Refusal::AlreadySo)),
                S::Approved | S::Declined => assert!(matches!(decided, Err(Refusal::Never(_)))),
            }
        }
    }

    #[test]
    fn a_tombstone_can_neither_be_dispatched_nor_charged() {
        let tombstone = Attempt::tombstone(AttemptId::generate(), Utc::now());
        for event in [
            Event::Dispatch { channel: Channel::Primary },
            Event::Approved { channel: Channel::Primary, provider_ref: "ch_1".into() },
        ] {
            assert!(matches!(decide(&tombstone, &event, Utc::now()), Err(Refusal::Never(_))), "{event:?}");
        }
    }

    #[test]
    fn the_end_of_an_earlier_dispatch_does_not_decide_a_later_one() {
        let dispatched = Attempt { state: AttemptState::Dispatched, dispatch_no: 2, ..created() };
        for late in [
            Event::NotDispatched { dispatch_no: 1, reason: NotDispatchedReason::ConnectFailed },
            Event::Unknown { dispatch_no: 1 },
        ] {
            assert!(matches!(decide(&dispatched, &late, Utc::now()), Err(Refusal::Never(_))), "{late:?}");
        }
    }

    #[test]
    fn the_settling_time_starts_anew_when_a_call_ends_unknown() {
        let later = Utc::now() + chrono::Duration::seconds(2);
        let dispatched = decide(&created(), &Event::Dispatch { channel: Channel::Primary }, Utc::now()).unwrap().next;
        assert!(dispatched.last_may_have_left_at.is_some());
        let unknown = decide(&dispatched, &Event::Unknown { dispatch_no: 1 }, later).unwrap().next;
        assert_eq!(unknown.last_may_have_left_at, Some(later));
    }

    proptest! {
        #[test]
        fn nothing_leads_away_from_approved(events in prop::collection::vec(event(), 0..20)) {
            for (before, event, _) in steps(created(), &events) {
                prop_assert_ne!(before.state, AttemptState::Approved, "{:?}", event);
            }
        }

        #[test]
        fn only_what_certainly_did_not_leave_is_fenced(events in prop::collection::vec(event(), 0..20)) {
            for (before, _, after) in steps(created(), &events) {
                if after.next.state == AttemptState::Fenced {
                    prop_assert!(matches!(before.state, AttemptState::Created | AttemptState::NotDispatched));
                    prop_assert_eq!(after.next.last_may_have_left_at, None);
                }
            }
        }

        #[test]
        fn a_dispatch_follows_only_on_nothing_or_on_one_that_did_not_leave(
            events in prop::collection::vec(event(), 0..20)
        ) {
            let mut may_have_left = false;
            for (before, event, after) in steps(created(), &events) {
                if matches!(event, Event::Dispatch { .. }) {
                    prop_assert!(!may_have_left, "dispatched twice: {:?}", before);
                    prop_assert_eq!(after.next.dispatch_no, before.dispatch_no + 1);
                    may_have_left = true;
                } else {
                    prop_assert_eq!(after.next.dispatch_no, before.dispatch_no);
                }
                if matches!(event, Event::NotDispatched { .. }) {
                    may_have_left = false;
                }
            }
        }

        #[test]
        fn every_settlement_is_announced_once_and_nothing_else_is(events in prop::collection::vec(event(), 0..20)) {
            for (before, _, after) in steps(created(), &events) {
                let settled = matches!(
                    after.next.state, AttemptState::Approved | AttemptState::Declined | AttemptState::Fenced
                );
                prop_assert_eq!(after.announcement.is_some(), settled);
                prop_assert_ne!(before.state, after.next.state);
                prop_assert_eq!(after.next.version, before.version + 1);
            }
        }

        #[test]
        fn what_was_accepted_is_refused_when_it_comes_again(events in prop::collection::vec(event(), 0..20)) {
            for (_, event, after) in steps(created(), &events) {
                let again = decide(&after.next, &event, Utc::now());
                let expected = if matches!(event, Event::Dispatch { .. }) {
                    Refusal::Never("an earlier request may have left")
                } else {
                    Refusal::AlreadySo
                };
                prop_assert_eq!(again, Err(expected));
            }
        }
    }
}
