//! SQL, a file a table. Functions take the caller's transaction; none of them begins or ends one.

pub mod audit;
pub mod instances;
pub mod sessions;
pub mod versions;

use durable::StorageError;

use crate::Error;

/// A column that is not what its check constraint promises.
fn corrupt(what: impl Into<String>) -> Error {
    Error::Storage(StorageError::Bug(sqlx::Error::Decode(what.into().into())))
}

/// Of one row more than the page holds, what the page is and where the next begins.
fn paged<T>(mut rows: Vec<T>, limit: i64, number: impl Fn(&T) -> i64) -> (Vec<T>, Option<String>) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let is_more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| is_more).map(|last| number(last).to_string());
    (rows, next)
}
