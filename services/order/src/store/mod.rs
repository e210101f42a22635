//! The service's SQL.

pub mod history;
pub mod items;
pub mod keys;
pub mod orders;
pub mod refunds;
pub mod walks;

use serde::{Serialize, de::DeserializeOwned};

/// Before a service's own migrations come those of `shared/durable`.
pub static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("../../migrations/order");

/// The text of a state, the same in the database and on the wire.
fn text<T: Serialize>(state: &T) -> sqlx::Result<String> {
    match serde_json::to_value(state) {
        Ok(serde_json::Value::String(text)) => Ok(text),
        _ => Err(sqlx::Error::Encode("a state that is no text".into())),
    }
}

fn state<T: DeserializeOwned>(text: String) -> sqlx::Result<T> {
    serde_json::from_value(serde_json::Value::String(text)).map_err(|error| sqlx::Error::Decode(error.into()))
}
