//! # Retry: trying again without making it worse
//!
//! **Problem.** A try that failed by chance is worth another. But when the callee is in trouble, every hop that tries
//! three times multiplies the load on the innermost one, and holds it down.
//!
//! **Rule.** A retry has to be allowed by everything at once: the error is one that may pass, the call is idempotent,
//! the call has tries left, the breaker is not open, there is time for the wait and for a useful try, the callee's
//! [`RetryBudget`] (a share of its requests) is not spent, and neither is the [`Purse`] of the whole chain. Waits are
//! 100 → 200 → 400 ms with full jitter: anything from nothing to the step, so that callers that failed together do not
//! come back together. A `Retry-After` is waited out in full, or the call is given up. Both budgets are charged when a
//! retry is *scheduled*: one that forgets the retries still waiting lets a thousand through a budget of 20 %.
//!
//! **Not for** a call that is not idempotent, for one whose callee retries by itself, or for work that has a queue
//! behind it: the queue's own redelivery is the retry.
//!
//! **When you copy this**, take the folder; change the classes of [`ErrorClass`] to those of your transport, and decide
//! what an unanswered call means before you call anything idempotent.
//!
//! **Proved by** the drill `retry-storm`: three hops that are each willing to retry, and the innermost sees at most
//! 1.2 times the calls of the outermost.

mod budget;
mod jitter;
mod purse;

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

pub use budget::{BudgetSnapshot, RetryBudget};
pub use jitter::Jitter;
pub use purse::{Loan, Purse};

use crate::millis;

/// How one callee may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryConfig {
    /// Retries after the first try, at most. Two: what a third would save, the caller's deadline seldom allows.
    pub max_retries: u32,
    /// The upper end of the first wait; it doubles with every retry.
    #[serde(rename = "base_ms", with = "millis")]
    pub base: Duration,
    /// Where the doubling ends.
    #[serde(rename = "max_ms", with = "millis")]
    pub max: Duration,
    /// Retries as a share of requests, over ten seconds. A fifth more load is what a callee in trouble still bears.
    pub budget_ratio: f64,
    /// Retries a second that are allowed however few the requests are, so that a quiet callee is retried at all.
    pub budget_floor_per_second: u32,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            max_retries: 2,
            base: Duration::from_millis(100),
            max: Duration::from_millis(400),
            budget_ratio: 0.2,
            budget_floor_per_second: 1,
        }
    }
}

/// A field with a value that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct InvalidRetry {
    pub field: &'static str,
    pub reason: String,
}

impl RetryConfig {
    pub fn validate(&self) -> Result<(), InvalidRetry> {
        let refuse = |field, reason: String| Err(InvalidRetry { field, reason });
        if self.max_retries > 10 {
            return refuse("max_retries", format!("{} is more than 10", self.max_retries));
        }
        if self.base.is_zero() {
            return refuse("base_ms", "must be greater than 0: retries without a wait come back together".into());
        }
        if self.max < self.base {
            return refuse("max_ms", format!("{:?} is below base_ms ({:?})", self.max, self.base));
        }
        if !(0.0..=1.0).contains(&self.budget_ratio) {
            return refuse("budget_ratio", format!("{} is not between 0 and 1", self.budget_ratio));
        }
        Ok(())
    }
}

/// What a failed try says about another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// No connection, no answer in time, an unreadable answer, a 5xx: the next try may fare better.
    Transient,
    /// 429 or 503, with the callee's word on when to come back where it gave one.
    Busy { retry_after: Option<Duration> },
    /// The answer would be the same again.
    Final,
    /// One of our own guards refused, or the caller left: the callee has no part in it, and trying again would only
    /// lengthen the queue here.
    Ours,
}

/// A try that failed, and where its call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    pub class: ErrorClass,
    /// Whether the same request twice has the effect of one.
    pub idempotent: bool,
    /// Retries made before; 0 when the first try failed.
    pub retries: u32,
    pub breaker_open: bool,
    /// What is left for the call as a whole.
    pub remaining: Duration,
    /// Less time than this is not worth a try.
    pub useful: Duration,
}

/// The call is not tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not tried again: {reason}")]
pub struct GiveUp {
    pub reason: Reason,
    /// The callee's word on when to come back, to be passed on.
    pub retry_after: Option<Duration>,
}

/// Why a call is not tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    #[error("the answer would be the same")]
    Final,
    #[error("refused by a guard of our own")]
    Ours,
    #[error("the call is not idempotent")]
    NotIdempotent,
    #[error("the call's tries are used up")]
    TriesSpent,
    #[error("the breaker is open")]
    BreakerOpen,
    #[error("no time left")]
    NoTime,
    #[error("the chain's purse is empty")]
    PurseEmpty,
    #[error("the callee's retry budget is spent")]
    BudgetSpent,
}

impl Reason {
    /// Whether the failure was one to be retried, and here: then the hops above are not to try it once more.
    const fn had_its_chance(self) -> bool {
        match self {
            Self::TriesSpent | Self::BreakerOpen | Self::NoTime | Self::PurseEmpty | Self::BudgetSpent => true,
            Self::Final | Self::Ours | Self::NotIdempotent => false,
        }
    }
}

/// The decision, without any state of its own: how long to wait before the next try, or why there is none.
/// `random` lies in [0, 1).
pub fn decide(
    config: &RetryConfig,
    attempt: &Attempt,
    purse: u32,
    budget: u32,
    random: f64,
) -> Result<Duration, Reason> {
    let retry_after = match attempt.class {
        ErrorClass::Final => return Err(Reason::Final),
        ErrorClass::Ours => return Err(Reason::Ours),
        ErrorClass::Transient => None,
        ErrorClass::Busy { retry_after } => retry_after,
    };
    if !attempt.idempotent {
        return Err(Reason::NotIdempotent);
    }
    if attempt.retries >= config.max_retries {
        return Err(Reason::TriesSpent);
    }
    if attempt.breaker_open {
        return Err(Reason::BreakerOpen);
    }
    // 2^16 steps are far beyond any `max`; more would overflow.
    let step = config.base.saturating_mul(1 << attempt.retries.min(16)).min(config.max);
    let jittered = step.mul_f64(random.clamp(0.0, 1.0));
    let Some(spare) = attempt.remaining.checked_sub(attempt.useful) else { return Err(Reason::NoTime) };
    let wait = match retry_after {
        None if jittered > spare => return Err(Reason::NoTime),
        None => jittered,
        Some(asked) if asked > spare => return Err(Reason::NoTime),
        // Never before the time asked for, and spread out after it as far as there is time.
        Some(asked) => asked.saturating_add(jittered).min(spare),
    };
    if purse == 0 {
        return Err(Reason::PurseEmpty);
    }
    if budget == 0 {
        return Err(Reason::BudgetSpent);
    }
    Ok(wait)
}

/// The retries of one callee.
#[derive(Debug)]
pub struct Retry {
    config: ArcSwap<RetryConfig>,
    budget: RetryBudget,
    jitter: Jitter,
}

impl Retry {
    /// `seed` makes the waits repeatable; take a random one in production.
    #[must_use]
    pub fn new(config: RetryConfig, seed: u64) -> Self {
        let now = Instant::now();
        Self { config: ArcSwap::from_pointee(config), budget: RetryBudget::new(now), jitter: Jitter::new(seed) }
    }

    /// New limits; what was counted stays.
    pub fn reconfigure(&self, config: RetryConfig) {
        self.config.store(Arc::new(config));
    }

    /// To be called once a call, at its first try: it is from these that the budget grows.
    pub fn request(&self) {
        self.budget.deposit(Instant::now());
    }

    /// Decides on another try, and charges both budgets for it. The caller then waits as long as it is told.
    pub fn schedule(&self, attempt: &Attempt, purse: &Purse) -> Result<Duration, GiveUp> {
        let config = self.config.load();
        let now = Instant::now();
        let decided = decide(&config, attempt, purse.left(), self.budget.available(&config, now), self.jitter.next());
        let charged = decided.and_then(|wait| {
            // Another task may have been faster since the look above.
            if !purse.spend() {
                return Err(Reason::PurseEmpty);
            }
            if !self.budget.withdraw(&config, now) {
                purse.put_back(1);
                return Err(Reason::BudgetSpent);
            }
            Ok(wait)
        });
        charged.map_err(|reason| {
            if reason.had_its_chance() {
                purse.forfeit();
            }
            let retry_after = match attempt.class {
                ErrorClass::Busy { retry_after } => retry_after,
                _ => None,
            };
            GiveUp { reason, retry_after }
        })
    }

    #[must_use]
    pub fn snapshot(&self) -> BudgetSnapshot {
        self.budget.snapshot(&self.config.load(), Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
}
