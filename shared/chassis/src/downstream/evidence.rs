//! What the end of a call proves: to the caller, to the breaker, and about another try. Decisions alone, no I/O.

use std::time::Duration;

use bytes::Bytes;
use contracts::{Problem, ProblemType};
use resilience::retry::ErrorClass;
use serde::de::DeserializeOwned;

/// How a call ended without the answer that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nothing left this process, so nothing happened.
    #[error("not sent: {0}")]
    NotSent(NotSent),
    /// The callee refused, and did nothing.
    #[error("refused: {}", .0.kind)]
    Refused(Box<Problem>),
    /// Sent, and no answer that decides: it may have happened.
    #[error("unknown: {0}")]
    Unknown(String),
}

/// Why a request did not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    #[error("the breaker is open")]
    BreakerOpen,
    #[error("the bulkhead is full")]
    BulkheadFull,
    #[error("we send as fast as we may")]
    RateLimited,
    #[error("no connection")]
    Connect,
    #[error("no time left")]
    Deadline,
}

impl NotSent {
    /// The contract's word for it, as in the `reason` of `payment-not-dispatched`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BreakerOpen => "breaker_open",
            Self::BulkheadFull => "bulkhead_full",
            Self::RateLimited => "rate_limited",
            Self::Connect => "connect_failed",
            Self::Deadline => "deadline",
        }
    }
}

/// A 2xx answer.
#[derive(Debug)]
pub struct Answer<T> {
    pub status: u16,
    pub body: T,
}

/// An answer that arrived whole, whatever it says.
#[derive(Debug)]
pub(super) struct Arrived {
    pub status: u16,
    pub bytes: Bytes,
    /// `Retry-After`, where it is a number of seconds.
    pub retry_after: Option<Duration>,
}

/// One try that is over, with what the guards have to know of it.
#[derive(Debug)]
pub(super) struct Tried<T> {
    pub outcome: Result<T, CallError>,
    /// Of an answer that arrived whole.
    pub status: Option<u16>,
    pub retry_after: Option<Duration>,
    pub timed_out: bool,
    /// It had markedly less time than the rule gives to a try, since there was no more.
    pub cut_short: bool,
}

/// What a try says about the callee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Success,
    Failure,
    /// Nothing was learnt.
    Neutral,
}

impl<T> Tried<T> {
    /// One that a guard of ours refused.
    pub fn refused(why: NotSent) -> Self {
        Self {
            outcome: Err(CallError::NotSent(why)),
            status: None,
            retry_after: None,
            timed_out: false,
            cut_short: false,
        }
    }

    /// `slow`: it took as long as the breaker calls slow.
    pub fn verdict(&self, slow: bool) -> Verdict {
        match &self.outcome {
            Ok(_) => Verdict::Success,
            // A no of the callee's business, and payment's word about its own provider: breakers do not nest.
            Err(CallError::Refused(problem))
                if problem.kind == ProblemType::PaymentNotDispatched || self.status < Some(500) =>
            {
                Verdict::Success
            }
            Err(CallError::NotSent(NotSent::Connect)) => Verdict::Failure,
            Err(CallError::NotSent(_)) => Verdict::Neutral,
            // Our own deadline struck. That the callee had been slow by then is all that is known: a success is
            // counted as slow by the breaker itself.
            Err(CallError::Unknown(_)) if self.cut_short && (self.timed_out || self.status == Some(504)) => {
                if slow {
                    Verdict::Success
                } else {
                    Verdict::Neutral
                }
            }
            Err(CallError::Refused(_) | CallError::Unknown(_)) => Verdict::Failure,
        }
    }

    /// What it says about another try.
    pub fn class(&self) -> ErrorClass {
        match (&self.outcome, self.status) {
            (Ok(_), _) => ErrorClass::Final,
            (Err(CallError::NotSent(NotSent::Connect)), _) => ErrorClass::Transient,
            (Err(CallError::NotSent(_)), _) => ErrorClass::Ours,
            (Err(CallError::Refused(problem)), _) if problem.kind == ProblemType::PaymentNotDispatched => {
                ErrorClass::Final
            }
            (Err(error), Some(429 | 503)) => {
                let finer = match error {
                    CallError::Refused(problem) => problem.retry_after_ms.map(Duration::from_millis),
                    _ => None,
                };
                ErrorClass::Busy { retry_after: finer.or(self.retry_after) }
            }
            // The same question gets the same answer.
            (Err(_), Some(300..500)) => ErrorClass::Final,
            (Err(_), _) => ErrorClass::Transient,
        }
    }
}

/// What two tries of one call prove together: an answer is an answer, and else the worst of the two counts. Not sent
/// is better than refused, refused better than unknown: the first try may have done what the second was refused.
pub(super) fn together<T>(earlier: Option<CallError>, last: Result<T, CallError>) -> Result<T, CallError> {
    let rank = |error: &CallError| match error {
        CallError::NotSent(_) => 0,
        CallError::Refused(_) => 1,
        CallError::Unknown(_) => 2,
    };
    match (earlier, last) {
        (Some(earlier), Err(last)) if rank(&earlier) > rank(&last) => Err(earlier),
        (_, last) => last,
    }
}

pub(super) const TIMED_OUT: &str = "no answer in time";

/// What a transport error proves. Only a failed connection proves that nothing left; whether a timeout struck before
/// or after the first byte cannot be told, and a connection closed at once looks like one closed after the request.
pub(super) fn of_transport(error: reqwest::Error) -> CallError {
    if error.is_connect() {
        CallError::NotSent(NotSent::Connect)
    } else if error.is_timeout() {
        CallError::Unknown(TIMED_OUT.to_owned())
    } else {
        // The outer message repeats the address; the innermost says what happened.
        let mut cause: &dyn std::error::Error = &error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        CallError::Unknown(cause.to_string())
    }
}

/// Judges an answer of a sibling.
pub(super) fn judge<T: DeserializeOwned>(status: u16, bytes: &[u8]) -> Result<Answer<T>, CallError> {
    if (200..300).contains(&status) {
        return match serde_json::from_slice(bytes) {
            Ok(body) => Ok(Answer { status, body }),
            Err(error) => Err(CallError::Unknown(format!("unreadable {status} answer: {error}"))),
        };
    }
    match serde_json::from_slice::<Problem>(bytes) {
        Ok(problem) if proves_refusal(status, problem.kind) => Err(CallError::Refused(Box::new(problem))),
        Ok(problem) => Err(CallError::Unknown(format!("{status} {}", problem.kind))),
        Err(_) => Err(CallError::Unknown(format!("{status} without a problem body"))),
    }
}

/// A problem with a 4xx says that nothing was done. Of the 5xx only those do that are said before anything is begun;
/// `storage-unavailable`, for one, may follow a commit whose confirmation was lost.
fn proves_refusal(status: u16, kind: ProblemType) -> bool {
    (400..500).contains(&status) || matches!(kind, ProblemType::PaymentNotDispatched | ProblemType::Overloaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(kind: ProblemType) -> Result<(), CallError> {
        Err(CallError::Refused(Box::new(Problem::new(kind, "d"))))
    }

    fn unknown() -> Result<(), CallError> {
        Err(CallError::Unknown("?".into()))
    }

    fn tried(outcome: Result<(), CallError>, status: Option<u16>) -> Tried<()> {
        Tried { outcome, status, retry_after: None, timed_out: false, cut_short: false }
    }

    #[test]
    fn the_breaker_counts_what_the_callee_did_and_nothing_of_ours() {
        let verdict = |outcome, status| tried(outcome, status).verdict(false);
        assert_eq!(verdict(Ok(()), Some(200)), Verdict::Success);
        assert_eq!(verdict(refused(ProblemType::OutOfStock), Some(409)), Verdict::Success);
        assert_eq!(verdict(refused(ProblemType::PaymentNotDispatched), Some(503)), Verdict::Success);
        assert_eq!(verdict(refused(ProblemType::Overloaded), Some(503)), Verdict::Failure);
        assert_eq!(verdict(unknown(), Some(500)), Verdict::Failure);
        assert_eq!(verdict(unknown(), Some(200)), Verdict::Failure);
        assert_eq!(verdict(unknown(), None), Verdict::Failure);
        assert_eq!(verdict(Err(CallError::NotSent(NotSent::Connect)), None), Verdict::Failure);
        for ours in [NotSent::BreakerOpen, NotSent::BulkheadFull, NotSent::RateLimited, NotSent::Deadline] {
            assert_eq!(verdict(Err(CallError::NotSent(ours)), None), Verdict::Neutral, "{ours:?}");
        }
    }

    #[test]
    fn a_deadline_of_ours_that_strikes_is_no_failure_and_at_most_slowness() {
        let late = Tried { timed_out: true, cut_short: true, ..tried(unknown(), None) };
        assert_eq!((late.verdict(false), late.verdict(true)), (Verdict::Neutral, Verdict::Success));
        let refused_as_late = Tried { cut_short: true, ..tried(unknown(), Some(504)) };
        assert_eq!(refused_as_late.verdict(false), Verdict::Neutral);
        let in_full = Tried { timed_out: true, ..tried(unknown(), None) };
        assert_eq!(in_full.verdict(true), Verdict::Failure);
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let class = |outcome, status| tried(outcome, status).class();
        assert_eq!(class(unknown(), None), ErrorClass::Transient);
        assert_eq!(class(unknown(), Some(500)), ErrorClass::Transient);
        assert_eq!(class(unknown(), Some(404)), ErrorClass::Final);
        assert_eq!(class(refused(ProblemType::OutOfStock), Some(409)), ErrorClass::Final);
        assert_eq!(class(refused(ProblemType::PaymentNotDispatched), Some(503)), ErrorClass::Final);
        assert_eq!(class(Err(CallError::NotSent(NotSent::Connect)), None), ErrorClass::Transient);
        assert_eq!(class(Err(CallError::NotSent(NotSent::BulkheadFull)), None), ErrorClass::Ours);
        let second = Duration::from_secs(1);
        let busy = Tried { retry_after: Some(second), ..tried(unknown(), Some(503)) };
        assert_eq!(busy.class(), ErrorClass::Busy { retry_after: Some(second) });
        let word = Problem::new(ProblemType::RateLimited, "d").with_retry_after_ms(70);
        let finer = Tried { retry_after: Some(second), ..tried(Err(CallError::Refused(Box::new(word))), Some(429)) };
        assert_eq!(finer.class(), ErrorClass::Busy { retry_after: Some(Duration::from_millis(70)) });
    }

    #[test]
    fn of_several_tries_the_worst_counts_unless_there_was_an_answer() {
        let not_sent = || CallError::NotSent(NotSent::BreakerOpen);
        let no = || CallError::Refused(Box::new(Problem::new(ProblemType::OutOfStock, "d")));
        let doubt = || CallError::Unknown("?".into());
        assert!(together(Some(doubt()), Ok(())).is_ok());
        for earlier in [not_sent(), no(), doubt()] {
            assert!(matches!(together::<()>(Some(earlier), Err(doubt())), Err(CallError::Unknown(_))));
        }
        assert!(matches!(together::<()>(Some(doubt()), Err(not_sent())), Err(CallError::Unknown(_))));
        assert!(matches!(together::<()>(Some(doubt()), Err(no())), Err(CallError::Unknown(_))));
        assert!(matches!(together::<()>(Some(no()), Err(not_sent())), Err(CallError::Refused(_))));
        assert!(matches!(together::<()>(None, Err(not_sent())), Err(CallError::NotSent(_))));
    }
}
