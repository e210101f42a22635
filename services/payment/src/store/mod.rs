//! The service's own database. Every function works in its caller's transaction.

mod attempt_row;
pub mod attempts;
pub mod charges;
pub mod open;
pub mod provider_events;
pub mod refunds;

use serde::de::{DeserializeOwned, IntoDeserializer, value::Error as NotAVariant};

/// A column holds the same word as the API says.
fn variant<T: DeserializeOwned>(word: &str) -> Result<T, sqlx::Error> {
    T::deserialize(word.into_deserializer()).map_err(|error: NotAVariant| sqlx::Error::Decode(Box::new(error)))
}
