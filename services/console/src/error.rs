//! Everything that the console refuses, and the one table of what that is over HTTP.

use std::time::Duration;

use chassis::{CallError, NotSent, lifecycle::Panicked, problem};
use contracts::{FieldError, Problem, ProblemType};
use durable::StorageError;
use events::dlq::DlqError;
use rules::RulesError;

use crate::domain::Refusal;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{field} {detail}")]
    BadQuery { field: &'static str, detail: &'static str },
    #[error("there is no session")]
    NoSession,
    #[error("the name or the password is wrong")]
    WrongPassword,
    #[error("too many tries with this name")]
    TooManyAttempts(Duration),
    /// Not by whoever it claims to be by.
    #[error("{0}")]
    Foreign(&'static str),
    #[error("as many watch as may")]
    TooManyListeners,
    #[error("{0}")]
    NotFound(&'static str),
    #[error("{}", .0.detail)]
    OutOfRange(FieldError),
    #[error("{callee}: {error}")]
    Callee { callee: &'static str, error: CallError },
    #[error("{0}")]
    Letters(#[from] DlqError),
    #[error("there was not enough time")]
    OutOfTime,
    #[error(transparent)]
    Version(#[from] Refusal),
    /// A row was not in the state that it was read in.
    #[error("somebody else changed this first")]
    Conflict,
    #[error(
        "no version is in force, and {0} runs on rules that the console does not know; publish them as a version first"
    )]
    UnknownRules(String),
    #[error("the document cannot come into force: {0}")]
    Document(#[from] RulesError),
    #[error("a value is out of its range")]
    Invalid(Vec<FieldError>),
    #[error("one instance asks and reports for itself, and this token is {0}'s")]
    NotYours(String),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self::Storage(error.into())
    }
}

/// Where a document has no path to name, since it is none.
const WHOLE: &str = "document";

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let said = error.to_string();
        match error {
            Error::BadQuery { field, detail } => Self::new(ProblemType::InvalidRequest, said).with_field(field, detail),
            Error::Version(Refusal::Unknown(_)) => Self::new(ProblemType::NotFound, said),
            Error::Version(_) | Error::Conflict | Error::UnknownRules(_) => {
                Self::new(ProblemType::VersionConflict, said)
            }
            Error::Document(refused) => {
                let field = |path: String| if path.is_empty() { WHOLE.to_owned() } else { path };
                let errors = refused.violations.into_iter();
                let errors = errors
                    .map(|wrong| FieldError { line: wrong.line, ..FieldError::new(field(wrong.path), wrong.reason) });
                Self { errors: errors.collect(), ..Self::new(ProblemType::ValidationFailed, said) }
            }
            Error::Invalid(errors) => Self::validation(errors),
            Error::NotYours(_) => Self::new(ProblemType::Forbidden, said),
            Error::NoSession | Error::WrongPassword => Self::new(ProblemType::Unauthenticated, said),
            Error::TooManyAttempts(wait) => Self::new(ProblemType::RateLimited, said)
                .with_mechanism("rate_limit.login")
                .with_retry_after_ms(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            Error::Foreign(_) => Self::new(ProblemType::Forbidden, said),
            Error::TooManyListeners => Self::new(ProblemType::Overloaded, said)
                .with_mechanism("listeners")
                .with_retry_after_ms(Self::DEFAULT_RETRY_AFTER_MS),
            Error::NotFound(_) => Self::new(ProblemType::NotFound, said),
            Error::OutOfRange(field) => Self::validation(vec![field]),
            Error::Callee { callee, error } => passed_on(callee, error),
            Error::Letters(DlqError::UnknownTopic(..)) => {
                Self::new(ProblemType::InvalidRequest, said).with_field("topic", "has no dead letters")
            }
            Error::Letters(DlqError::Kafka(_)) => {
                Self::new(ProblemType::Overloaded, "Kafka does not answer").with_mechanism("kafka")
            }
            Error::OutOfTime => Self::new(ProblemType::DeadlineExceeded, said).with_mechanism("deadline"),
            Error::Storage(storage) => storage.into(),
            Error::Panicked(_) => problem::internal(),
        }
    }
}

/// What a callee refused, it refused the operator; but that it does not know *us* is nothing that one can do about.
fn passed_on(callee: &str, error: CallError) -> Problem {
    match error {
        CallError::Refused(refused) if matches!(refused.status, 401 | 403) => {
            tracing::error!(callee, detail = refused.detail, "the console is not let in");
            problem::internal()
        }
        CallError::Refused(refused) => *refused,
        CallError::NotSent(NotSent::Deadline) => {
            Problem::new(ProblemType::DeadlineExceeded, "there was not enough time").with_mechanism("deadline")
        }
        CallError::NotSent(why) => {
            let guard = match why {
                NotSent::BreakerOpen => "breaker",
                NotSent::BulkheadFull => "bulkhead",
                NotSent::RateLimited => "rate_limit",
                NotSent::Connect | NotSent::Deadline => "connect",
            };
            Problem::new(ProblemType::Overloaded, format!("{callee} cannot be reached: {why}"))
                .with_mechanism(format!("{guard}.{callee}"))
        }
        CallError::Unknown(_) => Problem::new(
            ProblemType::DeadlineExceeded,
            format!("{callee} gave no answer; it may have acted all the same"),
        )
        .with_mechanism(callee),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callees_refusal_is_the_operators_and_its_distrust_of_us_is_not() {
        let refused = |kind| CallError::Refused(Box::new(Problem::new(kind, "no")));
        assert_eq!(passed_on("order", refused(ProblemType::NotFound)).status, 404);
        for kind in [ProblemType::Unauthenticated, ProblemType::Forbidden] {
            assert_eq!(passed_on("order", refused(kind)).status, 500, "an operator is not thrown out by it");
        }
        assert_eq!(
            passed_on("order", CallError::NotSent(NotSent::Connect)).mechanism.as_deref(),
            Some("connect.order")
        );
        assert_eq!(passed_on("order", CallError::Unknown("x".to_owned())).status, 504);
    }
}
