//! Everything that an act can fail with, and the one table of what callers are told.

use chassis::{lifecycle::Panicked, problem};
use contracts::{
    AttemptId, OrderId, Problem, ProblemType,
    payment::{Channel, NotDispatchedReason},
};
use durable::StorageError;

use crate::workflow::refund::RefundRefusal;

#[derive(Debug, thiserror::Error)]
pub enum PaymentError {
    #[error("there is no payment attempt {0}")]
    NotFound(AttemptId),
    #[error("payment attempt {0} exists with other content")]
    ContentMismatch(AttemptId),
    #[error("payment attempt {0} was fenced and will never be sent")]
    Fenced(AttemptId),
    /// Certainly nothing was charged for it.
    #[error("payment attempt {id} was not sent to the provider")]
    NotDispatched { id: AttemptId, order_id: OrderId, channel: Option<Channel>, reason: NotDispatchedReason },
    #[error("{refusal}")]
    Refund { id: AttemptId, refusal: RefundRefusal },
    /// A value of the request's query.
    #[error("{0} {1}")]
    BadParameter(&'static str, &'static str),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl From<PaymentError> for Problem {
    fn from(error: PaymentError) -> Self {
        let detail = error.to_string();
        match error {
            PaymentError::NotFound(_) => problem::not_found(&detail),
            PaymentError::ContentMismatch(_) => Self::new(ProblemType::ContentMismatch, detail),
            PaymentError::Fenced(_) => Self::new(ProblemType::PaymentFenced, detail),
            PaymentError::NotDispatched { order_id, channel, reason, .. } => {
                Self::new(ProblemType::PaymentNotDispatched, detail)
                    .with_mechanism(mechanism(channel, reason))
                    .with("reason", reason.as_str())
                    .with_order(order_id)
            }
            PaymentError::Refund { id, refusal: RefundRefusal::NoSuchAttempt } => {
                problem::not_found(&PaymentError::NotFound(id).to_string())
            }
            PaymentError::Refund { refusal: RefundRefusal::ContentMismatch, .. } => {
                Self::new(ProblemType::ContentMismatch, detail)
            }
            PaymentError::Refund { refusal: RefundRefusal::NotCharged | RefundRefusal::MoreThanLeft, .. } => {
                let field = detail.clone();
                Self::new(ProblemType::ValidationFailed, detail).with_field("amount_minor", &field)
            }
            PaymentError::BadParameter(field, why) => {
                Self::new(ProblemType::InvalidRequest, detail).with_field(field, why)
            }
            PaymentError::Storage(error) => error.into(),
            // Logged where it happened.
            PaymentError::Panicked(_) => problem::internal(),
        }
    }
}

/// What kept the request from leaving.
const fn mechanism(channel: Option<Channel>, reason: NotDispatchedReason) -> &'static str {
    let backup = matches!(channel, Some(Channel::Backup));
    match reason {
        NotDispatchedReason::BreakerOpen if backup => "breaker.provider_backup",
        NotDispatchedReason::BulkheadFull if backup => "bulkhead.provider_backup",
        NotDispatchedReason::RateLimited if backup => "rate_limit.provider_backup",
        NotDispatchedReason::ConnectFailed if backup => "connect.provider_backup",
        NotDispatchedReason::BreakerOpen => "breaker.provider",
        NotDispatchedReason::BulkheadFull => "bulkhead.provider",
        NotDispatchedReason::RateLimited => "rate_limit.provider",
        NotDispatchedReason::ConnectFailed => "connect.provider",
        NotDispatchedReason::Deadline => "deadline",
        NotDispatchedReason::Degraded => "degrade.payment",
    }
}
