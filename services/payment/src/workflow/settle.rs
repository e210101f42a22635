//! The record of what a dispatch came to.
//!
//! It is not the request's to give up: an answer of the provider that is not written down is an unknown payment. So it
//! has a deadline of its own, and is tried again while the database is away; a second try is harmless, since each
//! write is conditional on what was read, and an outcome that stands already is refused as such.

use std::time::Duration;

use chrono::Utc;
use durable::StorageError;
use resilience::Deadline;

use super::{Payments, evidence::take};
use crate::{
    domain::attempt::{Attempt, Event, Refusal, decide},
    store::attempts::{self, Source},
};

/// Well below the time that a shutdown allows (10 s), so that a stop waits for a record rather than cutting it off.
const RECORD_BUDGET: Duration = Duration::from_secs(5);
/// Between two tries while the database is away.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

impl Payments {
    /// Applies `event` to an attempt that was last seen as `known`, and gives the attempt as it is then. An error:
    /// nothing is known to have been recorded.
    pub async fn settle(&self, known: Attempt, event: Event, source: &Source) -> Result<Attempt, StorageError> {
        let deadline = Deadline::after(RECORD_BUDGET);
        let recorded = durable::within(deadline, self.settle_by(known.clone(), &event, source, deadline)).await;
        match &recorded {
            Ok(attempt) => tracing::info!(
                attempt_id = %attempt.id, order_id = ?attempt.content.as_ref().map(|content| content.order_id),
                state = attempt.state.as_str(), event = event.name(), "recorded"
            ),
            Err(error) => {
                metrics::counter!("payment_records_lost_total").increment(1);
                tracing::error!(
                    attempt_id = %known.id, event = event.name(), detail = event.detail(), %error,
                    "an outcome could not be recorded; the attempt stays as it was"
                );
            }
        }
        recorded
    }

    async fn settle_by(
        &self,
        mut known: Attempt,
        event: &Event,
        source: &Source,
        deadline: Deadline,
    ) -> Result<Attempt, StorageError> {
        loop {
            let transition = match decide(&known, event, Utc::now()) {
                Ok(transition) => Some(transition),
                Err(Refusal::ExtraCharge) => None,
                Err(refusal) => {
                    log_refusal(&known, event, refusal);
                    return Ok(known);
                }
            };
            let step = async {
                let mut tx = self.database.begin(deadline).await?;
                let Some(transition) = &transition else {
                    // Seldom, and it takes more than one row: on the row as it is now.
                    let locked = attempts::lock(&mut tx, known.id).await?;
                    let locked = locked.ok_or(StorageError::Bug(sqlx::Error::RowNotFound))?;
                    let taken = take(&mut tx, locked, event, source, Utc::now()).await?;
                    tx.commit().await?;
                    return Ok(Some(Step::Done(taken.attempt)));
                };
                if attempts::apply(&mut tx, &known, event, transition, source).await? {
                    tx.commit().await?;
                    count(&transition.next);
                    return Ok(Some(Step::Done(transition.next.clone())));
                }
                // Somebody else was there first: decide again, on what they left. Rows are never deleted.
                let current = attempts::load(&mut tx, known.id).await?;
                Ok(current.map(Step::Again))
            };
            match step.await {
                Ok(Some(Step::Done(attempt))) => {
                    self.committed();
                    return Ok(attempt);
                }
                Ok(Some(Step::Again(current))) => known = current,
                Ok(None) => return Err(StorageError::Bug(sqlx::Error::RowNotFound)),
                Err(StorageError::Unavailable(error)) => {
                    tracing::warn!(attempt_id = %known.id, %error, "an outcome waits for the database");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// What one try to record came to.
enum Step {
    Done(Attempt),
    Again(Attempt),
}

pub(super) fn count(attempt: &Attempt) {
    metrics::counter!("payment_attempts_total", "outcome" => attempt.state.as_str()).increment(1);
}

/// One that nobody expects is worth a line; none changes anything.
pub(super) fn log_refusal(attempt: &Attempt, event: &Event, refusal: Refusal) {
    if matches!(refusal, Refusal::Never(_)) {
        tracing::warn!(
            attempt_id = %attempt.id, state = attempt.state.as_str(), event = event.name(), %refusal, "an event was refused"
        );
    }
}
