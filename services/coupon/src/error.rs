//! Everything that coupon refuses, and the one table of what that is over HTTP.

use contracts::{FieldError, OrderId, Problem, ProblemType};
use durable::StorageError;

use crate::domain::{NoDiscount, Refusal};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Redeemed; a path that names no coupon is [`Error::NoCoupon`].
    #[error("there is no coupon {0}")]
    UnknownCode(String),
    #[error("coupon {code}: {reason}")]
    NoDiscount { code: String, reason: NoDiscount },
    #[error("coupon {0} has no redemptions left")]
    Exhausted(String),
    #[error("coupon {0} was used as often as one user may")]
    AlreadyUsed(String),
    #[error("order {order}: {refusal}")]
    Redemption { order: OrderId, refusal: Refusal },
    #[error("there is no redemption of order {0}")]
    NoRedemption(OrderId),
    #[error("there is no coupon {0}")]
    NoCoupon(String),
    /// A value of the request's query.
    #[error("{0} {1}")]
    BadParameter(&'static str, &'static str),
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
            Error::UnknownCode(_) => Self::new(ProblemType::CouponUnknown, detail),
            Error::NoDiscount { reason: NoDiscount::NotValidNow, .. } => Self::new(ProblemType::CouponExpired, detail),
            Error::NoDiscount { reason: reason @ NoDiscount::OtherCurrency(_), .. } => {
                Self::validation(vec![FieldError::new("currency", reason.to_string())])
            }
            Error::NoDiscount { reason: reason @ NoDiscount::OutOfRange, .. } => {
                Self::validation(vec![FieldError::new("subtotal_minor", reason.to_string())])
            }
            Error::Exhausted(_) => Self::new(ProblemType::CouponExhausted, detail),
            Error::AlreadyUsed(_) => Self::new(ProblemType::CouponAlreadyUsed, detail),
            Error::Redemption { order, refusal } => {
                let kind = match refusal {
                    // What the order held here is a reservation too, of a share in a coupon.
                    Refusal::LetGo => ProblemType::ReservationReleased,
                    Refusal::OtherContent => ProblemType::ContentMismatch,
                    Refusal::NeverHeld => ProblemType::NotFound,
                };
                Self::new(kind, detail).with_order(order)
            }
            Error::NoRedemption(order) => Self::new(ProblemType::NotFound, detail).with_order(order),
            Error::NoCoupon(_) => Self::new(ProblemType::NotFound, detail),
            Error::BadParameter(field, why) => Self::new(ProblemType::InvalidRequest, detail).with_field(field, why),
            Error::Conflict => {
                Self::new(ProblemType::VersionConflict, detail).with_retry_after_ms(Self::DEFAULT_RETRY_AFTER_MS)
            }
            Error::Storage(storage) => storage.into(),
        }
    }
}
