//! What a consumer asks of a service, and the three answers that it understands: done, not now, never.

use contracts::Event;

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

/// The database's troubles pass.
impl From<sqlx::Error> for HandleError {
    fn from(error: sqlx::Error) -> Self {
        Self::Transient(error.into())
    }
}
