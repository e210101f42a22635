use contracts::{
    Currency, OrderId,
    payment::{AttemptState, Channel, Charge, NotDispatchedReason},
};
use proptest::prelude::*;

use super::*;

const SETTLE: Duration = Duration::from_secs(2);

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

/// Asked a while after now, or not at all.
fn asked() -> impl Strategy<Value = Option<DateTime<Utc>>> {
    prop::option::of((0..5_i64).prop_map(|seconds| Utc::now() + chrono::Duration::seconds(seconds)))
}

fn event() -> impl Strategy<Value = Event> {
    let code = || prop_oneof![Just("a".to_owned()), Just("b".to_owned())];
    prop_oneof![
        3 => channel().prop_map(|channel| Event::Dispatch { channel }),
        3 => (0..4).prop_map(|dispatch_no| Event::NotDispatched {
            dispatch_no, reason: NotDispatchedReason::ConnectFailed,
        }),
        1 => (channel(), code()).prop_map(|(channel, provider_ref)| Event::Approved { channel, provider_ref }),
        1 => (channel(), code()).prop_map(|(channel, code)| Event::Declined { channel, code, provider_ref: None }),
        2 => (1..4).prop_map(|dispatch_no| Event::Unknown { dispatch_no }),
        2 => (asked(), asked()).prop_map(|(primary, backup)| Event::NotFound {
            at: NotFoundAt { primary, backup }, settle: SETTLE,
        }),
        1 => Just(Event::Unanswered),
        1 => Just(Event::Fence),
        1 => Just(Event::Defer),
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
    let now = Utc::now();
    let base = Attempt {
        channel: Some(Channel::Primary),
        dispatch_no: 1,
        intents: Intents::default().with(Channel::Primary, now),
        last_may_have_left_at: Some(now),
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

fn apply(attempt: &Attempt, event: &Event) -> Attempt {
    decide(attempt, event, Utc::now()).unwrap().next
}

/// Sent to the backup, since the primary could not be reached, and nobody knows what came of it.
fn unknown_at_the_backup() -> Attempt {
    let tried = apply(&created(), &Event::Dispatch { channel: Channel::Primary });
    let reason = NotDispatchedReason::ConnectFailed;
    let unreached = apply(&tried, &Event::NotDispatched { dispatch_no: 1, reason });
    let sent = apply(&unreached, &Event::Dispatch { channel: Channel::Backup });
    apply(&sent, &Event::Unknown { dispatch_no: 2 })
}

fn not_found(attempt: &Attempt, primary: Option<i64>, backup: Option<i64>) -> Result<Transition, Refusal> {
    let left_at = attempt.last_may_have_left_at.unwrap();
    let at = |after: Option<i64>| after.map(|ms| left_at + chrono::Duration::milliseconds(ms));
    let at = NotFoundAt { primary: at(primary), backup: at(backup) };
    decide(attempt, &Event::NotFound { at, settle: SETTLE }, Utc::now())
}

/// TRACES 1: the first request reaches the provider after its attempt was given up.
#[test]
fn a_proven_charge_is_accepted_from_every_state_and_announced() {
    for attempt in in_every_state() {
        let proof = Event::Approved { channel: Channel::Primary, provider_ref: "ch_9".into() };
        let decided = decide(&attempt, &proof, Utc::now());
        if attempt.state == AttemptState::Approved {
            assert_eq!(decided, Err(Refusal::ExtraCharge));
        } else {
            let transition = decided.unwrap();
            assert_eq!(transition.next.state, AttemptState::Approved);
            assert!(matches!(transition.announcement, Some(Announcement::Approved(_))), "{:?}", attempt.state);
        }
    }
}

/// TRACES 3 and 4: a fence covers what certainly was not sent, and throws no evidence away.
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

/// TRACES 3: it would hold its stock for ever.
#[test]
fn a_deferred_attempt_can_be_fenced() {
    for attempt in in_every_state() {
        if let Ok(deferred) = decide(&attempt, &Event::Defer, Utc::now()) {
            assert!(deferred.next.deferred_at.is_some() && deferred.announcement.is_none());
            assert_eq!(apply(&deferred.next, &Event::Fence).state, AttemptState::Fenced);
        } else {
            assert!(!matches!(attempt.state, AttemptState::Created | AttemptState::NotDispatched));
        }
    }
}

#[test]
fn a_tombstone_is_never_dispatched_and_a_charge_for_it_is_one_too_many() {
    let tombstone = Attempt::tombstone(AttemptId::generate(), Utc::now());
    let dispatch = Event::Dispatch { channel: Channel::Primary };
    assert!(matches!(decide(&tombstone, &dispatch, Utc::now()), Err(Refusal::Never(_))));
    let proof = Event::Approved { channel: Channel::Primary, provider_ref: "ch_1".into() };
    assert_eq!(decide(&tombstone, &proof, Utc::now()), Err(Refusal::ExtraCharge));
}

/// TRACES 13: it is told from a repeated notice by channel and reference together.
#[test]
fn a_second_charge_is_one_too_many_and_a_repeated_notice_is_not() {
    let proof = |channel, provider_ref: &str| Event::Approved { channel, provider_ref: provider_ref.into() };
    let approved = apply(&unknown_at_the_backup(), &proof(Channel::Backup, "ch_1"));
    assert_eq!(decide(&approved, &proof(Channel::Backup, "ch_1"), Utc::now()), Err(Refusal::AlreadySo));
    for extra in [proof(Channel::Primary, "ch_1"), proof(Channel::Backup, "ch_2")] {
        assert_eq!(decide(&approved, &extra, Utc::now()), Err(Refusal::ExtraCharge));
    }
}

/// TRACES 12: the backup's charge would be nobody's.
#[test]
fn not_found_proves_nothing_until_every_channel_that_was_told_has_said_so() {
    let unknown = unknown_at_the_backup();
    for (primary, backup) in [(None, None), (Some(2_000), None), (None, Some(2_000))] {
        let refused = not_found(&unknown, primary, backup);
        assert_eq!(refused, Err(Refusal::NotYet("a channel that was told to charge has not answered")));
    }
    let fenced = not_found(&unknown, Some(2_000), Some(2_000)).unwrap();
    assert_eq!(fenced.next.state, AttemptState::Fenced);
    assert!(matches!(fenced.announcement, Some(Announcement::Fenced(_))));
}

/// TRACES 1 and 2: the settling time counts from the last moment at which a request could have left.
#[test]
fn not_found_proves_nothing_before_the_settling_time_has_passed() {
    let unknown = unknown_at_the_backup();
    for (primary, backup) in [(1_999, 2_000), (2_000, 1_999), (-1, 5_000)] {
        let refused = not_found(&unknown, Some(primary), Some(backup));
        assert_eq!(refused, Err(Refusal::NotYet("a request may still be on its way")));
    }
}

#[test]
fn the_settling_time_starts_anew_when_a_call_ends_unknown() {
    let later = Utc::now() + chrono::Duration::seconds(2);
    let dispatched = apply(&created(), &Event::Dispatch { channel: Channel::Primary });
    assert!(dispatched.last_may_have_left_at.is_some());
    let unknown = decide(&dispatched, &Event::Unknown { dispatch_no: 1 }, later).unwrap();
    assert_eq!(unknown.next.last_may_have_left_at, Some(later));
    assert!(matches!(unknown.announcement, Some(Announcement::Reconcile(_))));
}

#[test]
fn an_attempt_that_nobody_answers_for_is_a_persons_and_can_still_be_settled() {
    let unknown = unknown_at_the_backup();
    let review = decide(&unknown, &Event::Unanswered, Utc::now()).unwrap();
    assert!(matches!(review.announcement, Some(Announcement::Review(_))));
    let review = review.next;
    assert_eq!(decide(&review, &Event::Unanswered, Utc::now()), Err(Refusal::AlreadySo));
    assert_eq!(not_found(&review, Some(2_000), Some(2_000)).unwrap().next.state, AttemptState::Fenced);
    let channel = Channel::Backup;
    let declined = Event::Declined { channel, code: "no_funds".into(), provider_ref: None };
    assert_eq!(apply(&review, &declined).state, AttemptState::Declined);
    let approved = Event::Approved { channel, provider_ref: "ch_1".into() };
    assert_eq!(apply(&review, &approved).state, AttemptState::Approved);
}

/// TRACES 11: a dispatch that was begun is not begun again, by whatever channel.
#[test]
fn the_end_of_an_earlier_dispatch_does_not_decide_a_later_one() {
    let dispatched = Attempt { state: AttemptState::Dispatched, dispatch_no: 2, ..created() };
    for late in [
        Event::NotDispatched { dispatch_no: 1, reason: NotDispatchedReason::ConnectFailed },
        Event::Unknown { dispatch_no: 1 },
        Event::Dispatch { channel: Channel::Backup },
    ] {
        assert!(matches!(decide(&dispatched, &late, Utc::now()), Err(Refusal::Never(_))), "{late:?}");
    }
}

/// TRACES 17: what somebody missed can be told again.
#[test]
fn every_settled_attempt_can_be_told_again_and_no_other() {
    for attempt in in_every_state() {
        assert_eq!(attempt.settlement().is_some(), attempt.is_settled(), "{:?}", attempt.state);
    }
}

proptest! {
    #[test]
    fn nothing_leads_away_from_approved(events in prop::collection::vec(event(), 0..20)) {
        for (before, event, _) in steps(created(), &events) {
            prop_assert_ne!(before.state, AttemptState::Approved, "{:?}", event);
        }
    }

    #[test]
    fn what_may_have_left_is_fenced_only_on_the_word_of_every_channel(
        events in prop::collection::vec(event(), 0..30)
    ) {
        for (before, event, after) in steps(created(), &events) {
            if after.next.state != AttemptState::Fenced {
                continue;
            }
            match event {
                Event::Fence => prop_assert_eq!(after.next.last_may_have_left_at, None),
                Event::NotFound { at, settle } => {
                    let since = before.last_may_have_left_at.unwrap() + settle;
                    prop_assert!(before.intents.channels().all(|channel| at.at(channel).is_some_and(|at| at >= since)));
                }
                other => prop_assert!(false, "fenced by {:?}", other),
            }
        }
    }

    #[test]
    fn a_channel_that_was_told_is_on_record_for_good(events in prop::collection::vec(event(), 0..20)) {
        for (before, event, after) in steps(created(), &events) {
            for channel in before.intents.channels() {
                prop_assert!(after.next.intents.at(channel).is_some());
            }
            if let Event::Dispatch { channel } = event {
                prop_assert!(after.next.intents.at(channel).is_some());
            }
            prop_assert_eq!(after.next.dispatch_no == 0, after.next.intents.channels().next().is_none());
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
    fn every_step_that_somebody_has_to_act_on_is_announced_and_no_other(
        events in prop::collection::vec(event(), 0..30)
    ) {
        use AttemptState as S;
        for (before, event, after) in steps(created(), &events) {
            let expected = !matches!(after.next.state, S::Created | S::Dispatched | S::NotDispatched)
                && before.state != after.next.state;
            prop_assert_eq!(after.announcement.is_some(), expected);
            prop_assert_eq!(before.state == after.next.state, event == Event::Defer);
            prop_assert_eq!(after.next.version, before.version + 1);
        }
    }

    #[test]
    fn what_was_accepted_is_refused_when_it_comes_again(events in prop::collection::vec(event(), 0..30)) {
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
