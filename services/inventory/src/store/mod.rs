//! SQL, a file a table. Functions take the caller's transaction; none of them begins or ends one.

pub mod products;
pub mod reservations;
pub mod restocks;
pub mod stock;

use std::{fmt::Display, str::FromStr};

use contracts::Currency;
use durable::StorageError;

use crate::Error;

/// A text column as the type that a check constraint promises it to be.
fn parse<T: FromStr<Err: Display>>(column: &str, text: &str) -> Result<T, Error> {
    text.parse().map_err(|error: T::Err| corrupt(format!("{column}: {error}")))
}

fn corrupt(what: String) -> Error {
    Error::Storage(StorageError::Bug(sqlx::Error::Decode(what.into())))
}

pub fn currency(text: &str) -> Result<Currency, Error> {
    parse("currency", text)
}
