//! The shell around [`crate::domain`]: loads, asks `decide`, saves, calls.
//!
//! [`charge`] for a new attempt, [`fence`] for one that shall not be sent, [`settle`] for every outcome by whatever
//! path it comes.

pub mod charge;
pub mod fence;
pub mod settle;

use std::sync::Arc;

use contracts::AttemptId;
use durable::{Database, outbox::Outbox};
use resilience::Deadline;

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
        durable::within(deadline, loading).await?.ok_or(PaymentError::NotFound(id))
    }
}
