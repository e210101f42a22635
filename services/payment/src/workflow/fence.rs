//! A fence: order wants to be sure that an attempt will never be sent.
//!
//! Granted for what was never sent and for what was never heard of, which leaves a tombstone that a late `PUT` finds.
//! Everything else is reported as it stands: where a request may have left, only the provider can say what came of it.

use chassis::{RequestContext, crash_point};
use chrono::Utc;
use contracts::AttemptId;
use durable::StorageError;

use super::{Payments, settle::count};
use crate::{
    domain::attempt::{Attempt, Event, decide},
    error::PaymentError,
    store::{
        attempts::{self, Source},
        charges::FoundBy,
    },
};

impl Payments {
    /// Gives the attempt as it is after the fence, whether or not it was granted.
    pub async fn fence(&self, context: RequestContext, id: AttemptId) -> Result<Attempt, PaymentError> {
        Ok(durable::within(context.deadline, self.fence_or_find(&context, id)).await?)
    }

    async fn fence_or_find(&self, context: &RequestContext, id: AttemptId) -> Result<Attempt, StorageError> {
        let mut tx = self.database.begin(context.deadline).await?;
        // The tombstone first: it waits for a `PUT` of the same attempt that is about to commit, and then finds it.
        let tombstone = Attempt::tombstone(id, Utc::now()).traced(Some(context.trace.to_string()));
        if attempts::insert(&mut tx, &tombstone, &Event::Fence).await? {
            tx.commit().await?;
            crash_point("payment.fence.recorded");
            count(&tombstone);
            return Ok(tombstone);
        }
        loop {
            let found = attempts::load(&mut tx, id).await?;
            let found = found.ok_or(StorageError::Bug(sqlx::Error::RowNotFound))?;
            // A refused fence changes nothing, and its caller reads why in the state.
            let Ok(transition) = decide(&found, &Event::Fence, Utc::now()) else { return Ok(found) };
            let source = Source::of(FoundBy::Call, Some(context.trace.to_string()));
            if attempts::apply(&mut tx, &found, &Event::Fence, &transition, &source).await? {
                tx.commit().await?;
                crash_point("payment.fence.recorded");
                self.outbox.wake();
                count(&transition.next);
                return Ok(transition.next);
            }
            // It moved between the two statements: decide again, on what it is now.
        }
    }
}
