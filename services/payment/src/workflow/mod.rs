//! The shell around [`crate::domain`]: loads, asks `decide`, saves, calls.
//!
//! [`charge`] for a new attempt, [`fence`] for one that shall not be sent, [`settle`] for every outcome by whatever
//! path it comes.

pub mod charge;
pub mod fence;
pub mod settle;

use std::{future::Future, sync::Arc};

use contracts::AttemptId;
use durable::{Database, StorageError, outbox::Outbox};
use resilience::Deadline;
use tokio::time::timeout_at;

use crate::{domain::attempt::Attempt, downstream::provider::Provider, error::PaymentError, store::attempts};

/// What the acts need; one a process.
#[derive(Clone)]
pub struct Payments {
    database: Database,
    outbox: Outbox,
    primary: Arc<Provider>,
}

impl Payments {
    #[must_use]
    pub fn new(database: Database, outbox: Outbox, primary: Provider) -> Self {
        Self { database, outbox, primary: Arc::new(primary) }
    }

    /// The attempt as it is now.
    pub async fn get(&self, id: AttemptId, deadline: Deadline) -> Result<Attempt, PaymentError> {
        let loading = async {
            let mut tx = self.database.begin(deadline).await?;
            attempts::load(&mut tx, id).await
        };
        within(deadline, loading).await?.ok_or(PaymentError::NotFound(id))
    }
}

/// A database that hangs looks like one that is gone. What was under way may have taken effect.
async fn within<T>(deadline: Deadline, work: impl Future<Output = Result<T, StorageError>>) -> Result<T, StorageError> {
    match timeout_at(deadline.instant(), work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(StorageError::Unavailable(sqlx::Error::PoolTimedOut)),
    }
}
