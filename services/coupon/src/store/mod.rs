//! SQL, a file a table. Functions take the caller's transaction; none of them begins or ends one.

pub mod compensations;
pub mod coupons;
pub mod redemptions;

use contracts::Currency;
use durable::StorageError;

use crate::Error;

/// A column that is not what its check constraint promises.
fn corrupt(what: impl Into<String>) -> Error {
    Error::Storage(StorageError::Bug(sqlx::Error::Decode(what.into().into())))
}

fn currency(text: &str) -> Result<Currency, Error> {
    text.parse().map_err(|_| corrupt(format!("currency: {text}")))
}
