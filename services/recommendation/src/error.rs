//! Everything that recommendation refuses, and the one table of what that is over HTTP. A database that fails is not
//! among it: then the answer is an older one, or the default list.

use contracts::{Problem, ProblemType};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{field} {detail}")]
    BadQuery { field: &'static str, detail: &'static str },
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        match error {
            Error::BadQuery { field, detail: reason } => {
                Self::new(ProblemType::InvalidRequest, detail).with_field(field, reason)
            }
        }
    }
}
