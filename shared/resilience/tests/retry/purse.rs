//! The purse: what goes out, and what comes back.

use std::time::Duration;

use proptest::prelude::*;
use resilience::retry::{Attempt, ErrorClass, Loan, Purse, Reason, Retry, RetryConfig};

#[test]
fn a_caller_can_lower_the_purse_and_not_raise_it() {
    assert_eq!(Purse::of_request(None, 3).left(), 3);
    assert_eq!(Purse::of_request(Some("1"), 3).left(), 1);
    assert_eq!(Purse::of_request(Some("0"), 3).left(), 0);
    assert_eq!(Purse::of_request(Some("9"), 3).left(), 3);
    assert_eq!(Purse::of_request(Some("99999999999999"), 3).left(), 3);
    for unreadable in ["", "-1", "+2", "two", " 2", "1.5"] {
        assert_eq!(Purse::of_request(Some(unreadable), 3).left(), 0, "{unreadable:?}");
    }
}

#[test]
fn a_try_takes_everything_and_the_answer_brings_the_rest_back() {
    let purse = Purse::new(3);
    let loan = purse.lend();
    assert_eq!((loan.amount(), purse.left()), (3, 0));
    loan.answered(Some("2"));
    assert_eq!(purse.left(), 2);
}

#[test]
fn no_answer_means_that_nothing_came_back() {
    let purse = Purse::new(3);
    drop(purse.lend());
    assert_eq!(purse.left(), 0);
    let purse = Purse::new(3);
    purse.lend().answered(None);
    assert_eq!(purse.left(), 0);
}

#[test]
fn a_request_that_never_left_took_nothing_with_it() {
    let purse = Purse::new(3);
    purse.lend().not_sent();
    assert_eq!(purse.left(), 3);
}

#[test]
fn calls_side_by_side_do_not_multiply_the_purse() {
    let purse = Purse::new(3);
    let first = purse.lend();
    let second = purse.lend();
    assert_eq!((first.amount(), second.amount()), (3, 0));
    second.returned(5);
    first.returned(1);
    assert_eq!(purse.left(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hop_that_had_its_chance_and_failed_hands_nothing_back() {
    let retry = Retry::new(RetryConfig::default(), 1);
    let attempt = Attempt {
        class: ErrorClass::Transient,
        idempotent: true,
        retries: 0,
        breaker_open: false,
        remaining: Duration::from_secs(1),
        useful: Duration::ZERO,
    };
    for (given_up, reason, kept) in [
        (Attempt { class: ErrorClass::Final, ..attempt }, Reason::Final, 3),
        (Attempt { class: ErrorClass::Ours, ..attempt }, Reason::Ours, 3),
        (Attempt { idempotent: false, ..attempt }, Reason::NotIdempotent, 3),
        (Attempt { retries: 2, ..attempt }, Reason::TriesSpent, 0),
        (Attempt { breaker_open: true, ..attempt }, Reason::BreakerOpen, 0),
        (Attempt { remaining: Duration::ZERO, useful: Duration::from_secs(1), ..attempt }, Reason::NoTime, 0),
    ] {
        let purse = Purse::new(3);
        assert_eq!(retry.schedule(&given_up, &purse).unwrap_err().reason, reason);
        assert_eq!(purse.handed_back(false), kept, "{reason:?}");
        assert_eq!(purse.handed_back(true), 3, "it got round the failure");
    }
}

/// What may happen to a purse: a retry, a call that goes out, an answer to the oldest call, a call that is lost.
#[derive(Debug, Clone)]
enum Step {
    Spend,
    Lend,
    Answer(u32),
    Lose,
    NotSent,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Spend),
        Just(Step::Lend),
        (0_u32..9).prop_map(Step::Answer),
        Just(Step::Lose),
        Just(Step::NotSent)
    ]
}

proptest! {
    #[test]
    fn retries_are_never_made_out_of_nothing(full in 0_u32..5, steps in proptest::collection::vec(any_step(), 0..60)) {
        let purse = Purse::new(full);
        let (mut spent, mut out) = (0, Vec::new());
        for step in steps {
            match step {
                Step::Spend => spent += u32::from(purse.spend()),
                Step::Lend => out.push(purse.lend()),
                Step::Answer(left) => out.pop().into_iter().for_each(|loan| loan.returned(left)),
                Step::Lose => drop(out.pop()),
                Step::NotSent => out.pop().into_iter().for_each(Loan::not_sent),
            }
            let lent: u32 = out.iter().map(Loan::amount).sum();
            prop_assert!(spent + lent + purse.left() <= full);
        }
    }
}
