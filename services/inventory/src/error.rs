//! Everything that inventory refuses, and the one table of what that is over HTTP.

use contracts::{FieldError, OrderId, Problem, ProblemType};
use durable::StorageError;

use crate::domain::Refusal;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no product {sku}")]
    UnknownSku { sku: String },
    #[error("{available} of {sku} are left")]
    OutOfStock { sku: String, available: i64 },
    #[error("the items are priced in several currencies")]
    SeveralCurrencies { item: usize },
    #[error("order {order}: {refusal}")]
    Reservation { order: OrderId, refusal: Refusal },
    #[error("there is no reservation of order {0}")]
    NoReservation(OrderId),
    #[error("there is no product {0}")]
    NoProduct(String),
    #[error("reference {0} was used for another delivery")]
    ReferenceReused(String),
    #[error("{field} {detail}")]
    BadQuery { field: &'static str, detail: &'static str },
    /// A row was not in the state that it was read in.
    #[error("somebody else changed this first")]
    Conflict,
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
        let detail = error.to_string();
        match error {
            Error::UnknownSku { sku } => Self::new(ProblemType::UnknownSku, detail).with("sku", sku),
            Error::OutOfStock { sku, available } => {
                Self::new(ProblemType::OutOfStock, detail).with("sku", sku).with("available", available)
            }
            Error::SeveralCurrencies { item } => Self::validation(vec![FieldError::new(
                format!("items[{item}].sku"),
                "is priced in another currency than the first item",
            )]),
            Error::Reservation { order, refusal } => {
                let kind = match refusal {
                    Refusal::LetGo => ProblemType::ReservationReleased,
                    Refusal::OtherItems => ProblemType::ContentMismatch,
                    Refusal::NeverReserved => ProblemType::NotFound,
                };
                Self::new(kind, detail).with_order(order)
            }
            Error::NoReservation(order) => Self::new(ProblemType::NotFound, detail).with_order(order),
            Error::NoProduct(_) => Self::new(ProblemType::NotFound, detail),
            Error::ReferenceReused(_) => Self::new(ProblemType::ContentMismatch, detail)
                .with_field("reference", "names a delivery of another product or quantity"),
            Error::BadQuery { field, detail: reason } => {
                Self::new(ProblemType::InvalidRequest, detail).with_field(field, reason)
            }
            Error::Conflict => {
                Self::new(ProblemType::VersionConflict, detail).with_retry_after_ms(Self::DEFAULT_RETRY_AFTER_MS)
            }
            Error::Storage(storage) => storage.into(),
        }
    }
}
