//! What a consumer asks of a service, and the three answers that it understands: done, not now, never.

use contracts::Event;
use durable::StorageError;

/// What a service does with events.
pub trait Handler: Send + Sync + 'static {
    /// Called again with the same event after a transient failure, a crash or a rebalance. The effect and the inbox row
    /// are one transaction.
    fn handle(&self, event: &Event) -> impl Future<Output = Result<Outcome, HandleError>> + Send;
}

/// What an event came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Applied,
    /// It took effect before.
    Duplicate,
    /// Its type means nothing to this consumer.
    Ignored,
}

impl Outcome {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Duplicate => "duplicate",
            Self::Ignored => "ignored",
        }
    }
}

/// Why an event had no effect.
#[derive(Debug, thiserror::Error)]
pub enum HandleError {
    /// It may succeed later: the partition waits and tries again, for ever.
    #[error("not now")]
    Transient(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It never will: the event goes to the dead-letter topic with this reason.
    #[error("refused for good: {0}")]
    Refused(String),
}

impl HandleError {
    pub fn transient(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Transient(source.into())
    }
}

/// What passes is tried again. A statement that the database refuses for good would be refused for ever, and with it
/// everything behind it in the partition.
impl From<StorageError> for HandleError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Unavailable(_) => Self::Transient(error.into()),
            StorageError::Constraint(_) | StorageError::Bug(_) => {
                tracing::error!(error = &error as &dyn std::error::Error, "the database refused an event's effect");
                Self::Refused(error.to_string())
            }
        }
    }
}

impl From<sqlx::Error> for HandleError {
    fn from(error: sqlx::Error) -> Self {
        StorageError::from(error).into()
    }
}
