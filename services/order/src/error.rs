//! What the order service refuses with, beyond what an order's own fate says.

use std::time::Duration;

use chassis::lifecycle::Panicked;
use contracts::{OrderId, Problem, ProblemType, problem::FieldError};
use durable::StorageError;

use crate::workflow::ApplyError;

/// A person lifts the switch, after minutes rather than seconds.
const ADMISSION_RETRY_AFTER_MS: u64 = 10_000;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no idempotency key")]
    KeyMissing,
    #[error("a malformed idempotency key")]
    KeyMalformed,
    #[error("the key was used for another request")]
    KeyReused,
    #[error("the first request with this key is still running")]
    KeyInFlight { lease_left: Duration },
    /// Another run of the same order has taken over.
    #[error("fenced off")]
    FencedOff,
    #[error("no such order")]
    OrderNotFound,
    /// Nobody's, where [`Self::OrderNotFound`] is at least not this user's.
    #[error("nobody has such an order")]
    NoSuchOrder,
    #[error("the order was rejected")]
    NotCancellable(OrderId),
    #[error("no such product")]
    ProductNotFound,
    #[error("inventory gave no answer")]
    InventoryUnavailable,
    #[error("only listed users may order now")]
    NotAdmitted { rule_version: i64 },
    #[error("no time left")]
    OutOfTime,
    /// A value of the request's query or headers.
    #[error("{0} {1}")]
    BadParameter(&'static str, &'static str),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl From<ApplyError> for Error {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::NotFound => Self::OrderNotFound,
            ApplyError::Refused(_) | ApplyError::FencedOff => Self::FencedOff,
            ApplyError::Storage(error) => error.into(),
        }
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self::Storage(error.into())
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::KeyMissing => Self::new(ProblemType::IdempotencyKeyMissing, "send an Idempotency-Key header")
                .with_field("idempotency-key", "is required"),
            Error::KeyMalformed => Self::new(ProblemType::InvalidRequest, "the Idempotency-Key header is malformed")
                .with_field("idempotency-key", "must be 1 to 255 visible ASCII characters, bare or quoted"),
            Error::KeyReused => {
                Self::new(ProblemType::IdempotencyKeyReused, "this key came with another request body before")
            }
            // The work usually ends long before its lease does; asking again soon is cheap.
            Error::KeyInFlight { lease_left } => {
                let wait = lease_left.clamp(Duration::from_millis(100), Duration::from_secs(1));
                Self::new(ProblemType::IdempotencyInFlight, "the first request with this key is still running")
                    .with_retry_after_ms(u64::try_from(wait.as_millis()).unwrap_or(Self::DEFAULT_RETRY_AFTER_MS))
            }
            Error::FencedOff => Self::new(ProblemType::IdempotencyInFlight, "another run has taken this order over"),
            Error::OrderNotFound => Self::new(ProblemType::NotFound, "you have no such order"),
            Error::NoSuchOrder => Self::new(ProblemType::NotFound, "there is no such order"),
            Error::NotCancellable(order) => {
                Self::new(ProblemType::NotCancellable, "a rejected order cannot be cancelled").with_order(order)
            }
            Error::ProductNotFound => Self::new(ProblemType::NotFound, "there is no such product"),
            Error::InventoryUnavailable => {
                Self::new(ProblemType::InventoryUnavailable, "inventory gave no answer").with_mechanism("inventory")
            }
            Error::NotAdmitted { rule_version } => Self {
                rule_version: Some(rule_version),
                ..Self::new(ProblemType::Overloaded, "only some users may order at the moment")
                    .with_mechanism("degrade.admission")
                    .with_retry_after_ms(ADMISSION_RETRY_AFTER_MS)
            },
            Error::OutOfTime => {
                Self::new(ProblemType::DeadlineExceeded, "there was not enough time").with_mechanism("deadline")
            }
            Error::BadParameter(field, detail) => Self {
                errors: vec![FieldError::new(field, detail)],
                ..Self::new(ProblemType::InvalidRequest, format!("{field} {detail}"))
            },
            Error::Storage(error) => error.into(),
            Error::Panicked(_) => chassis::problem::internal(),
        }
    }
}
