//! Everything that the console refuses, and the one table of what that is over HTTP.

use contracts::{Problem, ProblemType};
use durable::StorageError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{field} {detail}")]
    BadQuery { field: &'static str, detail: &'static str },
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self::Storage(error.into())
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let said = error.to_string();
        match error {
            Error::BadQuery { field, detail } => Self::new(ProblemType::InvalidRequest, said).with_field(field, detail),
            Error::Storage(storage) => storage.into(),
        }
    }
}
