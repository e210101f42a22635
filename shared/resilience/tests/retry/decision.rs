//! The decision, and what it charges.

use std::time::Duration;

use proptest::prelude::*;
use resilience::retry::{Attempt, ErrorClass, GiveUp, Purse, Reason, Retry, RetryConfig, decide};

const MS: Duration = Duration::from_millis(1);

fn failed() -> Attempt {
    Attempt {
        class: ErrorClass::Transient,
        idempotent: true,
        retries: 0,
        breaker_open: false,
        remaining: 3_000 * MS,
        useful: 10 * MS,
    }
}

fn verdict(attempt: Attempt) -> Result<Duration, Reason> {
    decide(&RetryConfig::default(), &attempt, 3, 10, 1.0)
}

#[test]
fn the_waits_double_up_to_their_end() {
    let config = RetryConfig { max_retries: 10, ..RetryConfig::default() };
    let waits: Vec<_> =
        (0..5).map(|retries| decide(&config, &Attempt { retries, ..failed() }, 3, 10, 1.0).unwrap()).collect();
    assert_eq!(waits, [100 * MS, 200 * MS, 400 * MS, 400 * MS, 400 * MS]);
}

#[test]
fn each_condition_refuses_by_its_name() {
    assert_eq!(verdict(Attempt { class: ErrorClass::Final, ..failed() }), Err(Reason::Final));
    assert_eq!(verdict(Attempt { class: ErrorClass::Ours, ..failed() }), Err(Reason::Ours));
    assert_eq!(verdict(Attempt { idempotent: false, ..failed() }), Err(Reason::NotIdempotent));
    assert_eq!(verdict(Attempt { retries: 2, ..failed() }), Err(Reason::TriesSpent));
    assert_eq!(verdict(Attempt { breaker_open: true, ..failed() }), Err(Reason::BreakerOpen));
    assert_eq!(verdict(Attempt { remaining: 109 * MS, ..failed() }), Err(Reason::NoTime));
    assert_eq!(verdict(Attempt { remaining: 110 * MS, ..failed() }), Ok(100 * MS));
    assert_eq!(decide(&RetryConfig::default(), &failed(), 0, 10, 0.5), Err(Reason::PurseEmpty));
    assert_eq!(decide(&RetryConfig::default(), &failed(), 3, 0, 0.5), Err(Reason::BudgetSpent));
}

#[test]
fn retry_after_is_waited_out_if_it_fits_and_given_up_otherwise() {
    let busy = |ms: u32, remaining: u32| Attempt {
        class: ErrorClass::Busy { retry_after: Some(ms * MS) },
        remaining: remaining * MS,
        ..failed()
    };
    assert_eq!(verdict(busy(1_000, 3_000)), Ok(1_100 * MS));
    // The jitter gives way to the deadline, the time asked for does not.
    assert_eq!(verdict(busy(1_000, 1_050)), Ok(1_040 * MS));
    assert_eq!(verdict(busy(1_000, 1_009)), Err(Reason::NoTime));
    let unsaid = Attempt { class: ErrorClass::Busy { retry_after: None }, ..failed() };
    assert_eq!(verdict(unsaid), Ok(100 * MS));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_passes_the_callees_word_on() {
    let retry = Retry::new(RetryConfig::default(), 1);
    let class = ErrorClass::Busy { retry_after: Some(5_000 * MS) };
    let refused = retry.schedule(&Attempt { class, ..failed() }, &Purse::new(3)).unwrap_err();
    assert_eq!(refused, GiveUp { reason: Reason::NoTime, retry_after: Some(5_000 * MS) });
}

#[tokio::test(start_paused = true)]
async fn both_budgets_are_charged_before_the_wait_begins() {
    let retry = Retry::new(RetryConfig::default(), 1);
    // A thousand callers fail at once, and not one of their retries has been sent yet.
    for _ in 0..1_000 {
        retry.request();
    }
    let scheduled = (0..1_000).filter(|_| retry.schedule(&failed(), &Purse::new(3)).is_ok()).count();
    assert_eq!(scheduled, 200);
}

#[tokio::test(start_paused = true)]
async fn a_refused_retry_charges_neither_budget() {
    let retry = Retry::new(RetryConfig::default(), 1);
    let purse = Purse::new(3);
    let before = retry.snapshot().available;
    retry.schedule(&Attempt { breaker_open: true, ..failed() }, &purse).unwrap_err();
    assert_eq!((retry.snapshot().available, purse.left()), (before, 3));
    let quiet = RetryConfig { budget_ratio: 0.0, budget_floor_per_second: 0, ..RetryConfig::default() };
    retry.reconfigure(quiet);
    let refused = retry.schedule(&failed(), &purse).unwrap_err();
    assert_eq!((refused.reason, purse.left()), (Reason::BudgetSpent, 3));
}

#[tokio::test(start_paused = true)]
async fn new_limits_keep_what_was_counted() {
    let retry = Retry::new(RetryConfig::default(), 1);
    for _ in 0..100 {
        retry.request();
    }
    retry.reconfigure(RetryConfig { budget_ratio: 0.5, ..RetryConfig::default() });
    assert_eq!(retry.snapshot().available, 50);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_waits() {
    let waits = |seed| {
        let retry = Retry::new(RetryConfig::default(), seed);
        (0..5).map(|_| retry.schedule(&failed(), &Purse::new(1)).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(waits(7), waits(7));
    assert_ne!(waits(7), waits(8));
}

/// Hops one behind the other; the last one always fails. Each is willing to retry twice.
/// Where `hand_back` is false, a hop that had its chance keeps the rest, as it should.
fn storm(hops: &[Retry], purse: &Purse, hand_back: bool, innermost: &mut u32) {
    let Some((hop, deeper)) = hops.split_first() else {
        *innermost += 1;
        return;
    };
    hop.request();
    for retries in 0.. {
        let loan = purse.lend();
        let inner = Purse::new(loan.amount());
        storm(deeper, &inner, hand_back, innermost);
        loan.returned(if hand_back { inner.left() } else { inner.handed_back(false) });
        if hop.schedule(&Attempt { retries, ..failed() }, purse).is_err() {
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn three_willing_hops_do_not_multiply_a_failure() {
    let calls = |config: RetryConfig, purse: u32, hand_back: bool| {
        let hops: Vec<_> = (0..3).map(|seed| Retry::new(config, seed)).collect();
        let mut innermost = 0;
        for _ in 0..2_000 {
            storm(&hops, &Purse::new(purse), hand_back, &mut innermost);
        }
        f64::from(innermost) / 2_000.0
    };
    let unbounded = RetryConfig { budget_floor_per_second: 1_000_000, ..RetryConfig::default() };
    assert_eq!(calls(unbounded, 1_000, true), 27.0, "each of three hops tries three times");
    assert!(calls(unbounded, 3, true) <= 4.0, "the purse bounds the chain");
    assert!(calls(RetryConfig::default(), 3, true) > 1.3, "each hop adds its share where all is handed back");
    assert!(calls(RetryConfig::default(), 3, false) <= 1.2, "only the hop next to the failure retries");
}

#[test]
fn a_bad_configuration_names_the_field() {
    let default = RetryConfig::default();
    let refused = |config: RetryConfig| config.validate().unwrap_err().field;
    assert_eq!(default.validate(), Ok(()));
    assert_eq!(refused(RetryConfig { budget_ratio: 1.5, ..default }), "budget_ratio");
    assert_eq!(refused(RetryConfig { budget_ratio: f64::NAN, ..default }), "budget_ratio");
    assert_eq!(refused(RetryConfig { base: Duration::ZERO, ..default }), "base_ms");
    assert_eq!(refused(RetryConfig { max: MS, ..default }), "max_ms");
    assert_eq!(refused(RetryConfig { max_retries: 11, ..default }), "max_retries");
}

fn any_class() -> impl Strategy<Value = ErrorClass> {
    prop_oneof![
        Just(ErrorClass::Transient),
        Just(ErrorClass::Final),
        Just(ErrorClass::Ours),
        proptest::option::of(0_u32..5_000).prop_map(|ms| ErrorClass::Busy { retry_after: ms.map(|ms| ms * MS) }),
    ]
}

proptest! {
    #[test]
    fn whatever_is_allowed_satisfies_every_condition(
        class in any_class(), idempotent: bool, retries in 0_u32..5, breaker_open: bool,
        remaining in 0_u32..4_000, useful in 0_u32..200, purse in 0_u32..4, budget in 0_u32..4, random in 0.0..1.0_f64,
    ) {
        let config = RetryConfig::default();
        let (remaining, useful) = (remaining * MS, useful * MS);
        let attempt = Attempt { class, idempotent, retries, breaker_open, remaining, useful };
        match decide(&config, &attempt, purse, budget, random) {
            Ok(wait) => {
                prop_assert!(idempotent && !breaker_open && retries < 2 && purse > 0 && budget > 0);
                prop_assert!(wait + useful <= remaining);
                match class {
                    ErrorClass::Busy { retry_after: Some(asked) } => prop_assert!(wait >= asked),
                    ErrorClass::Transient | ErrorClass::Busy { .. } => prop_assert!(wait <= config.max),
                    ErrorClass::Final | ErrorClass::Ours => prop_assert!(false, "{class:?} is not to be retried"),
                }
            }
            Err(Reason::NoTime) => {
                let asks = matches!(class, ErrorClass::Busy { retry_after: Some(_) });
                prop_assert!(asks || remaining < useful + config.max);
            }
            Err(_) => {}
        }
    }
}
