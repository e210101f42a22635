//! A try that failed, and why its call is not tried again.

use std::time::Duration;

use serde::Serialize;

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
    pub(super) const fn had_its_chance(self) -> bool {
        match self {
            Self::TriesSpent | Self::BreakerOpen | Self::NoTime | Self::PurseEmpty | Self::BudgetSpent => true,
            Self::Final | Self::Ours | Self::NotIdempotent => false,
        }
    }
}
