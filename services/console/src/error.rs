//! Everything that the console refuses, and the one table of what that is over HTTP.

use contracts::{FieldError, Problem, ProblemType};
use durable::StorageError;
use rules::RulesError;

use crate::domain::Refusal;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{field} {detail}")]
    BadQuery { field: &'static str, detail: &'static str },
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
            Error::Storage(storage) => storage.into(),
        }
    }
}
