//! What waits for a person: shown, and asked after at once.
//!
//! Asking again puts a question in front of all that wait for their time, and makes the one that was due next stale. It
//! decides nothing by itself: what the provider says is applied as any other answer is, and unanswered it goes through
//! the delays once more.

use chassis::RequestContext;
use chrono::Utc;
use contracts::{
    AttemptId, RefundId,
    payment::{PaymentReview, RefundReview},
};
use durable::StorageError;
use resilience::Deadline;

use super::Payments;
use crate::{
    domain::attempt::Attempt,
    error::PaymentError,
    store::{attempts, open},
};

impl Payments {
    /// Up to `limit` attempts in review that are younger than `after`, oldest first.
    pub async fn reviews(
        &self,
        after: Option<AttemptId>,
        limit: i64,
        deadline: Deadline,
    ) -> Result<Vec<PaymentReview>, PaymentError> {
        let reading = async {
            let mut tx = self.database.begin(deadline).await?;
            Ok(open::in_review(&mut tx, after, limit).await?)
        };
        durable::within(deadline, reading).await
    }

    /// Up to `limit` refunds in review that are younger than `after`, oldest first.
    pub async fn refund_reviews(
        &self,
        after: Option<RefundId>,
        limit: i64,
        deadline: Deadline,
    ) -> Result<Vec<RefundReview>, PaymentError> {
        let reading = async {
            let mut tx = self.database.begin(deadline).await?;
            Ok(open::refunds_in_review(&mut tx, after, limit).await?)
        };
        durable::within(deadline, reading).await
    }

    /// The attempt, and whether it is being asked after: one that is settled, or was never sent, is not.
    pub async fn ask_again(&self, context: RequestContext, id: AttemptId) -> Result<(Attempt, bool), PaymentError> {
        let asking = async {
            let mut tx = self.database.begin(context.deadline).await?;
            let attempt = attempts::lock(&mut tx, id).await?.ok_or(PaymentError::NotFound(id))?;
            let Some(question) = attempt.question() else { return Ok((attempt, false)) };
            let trace = Some(context.trace.to_string());
            attempts::announce(&mut tx, &attempt, &question, trace, Utc::now()).await?;
            tx.commit().await.map_err(StorageError::from)?;
            Ok((attempt, true))
        };
        let (attempt, asked) = durable::within::<_, PaymentError>(context.deadline, asking).await?;
        if asked {
            self.outbox.wake();
            tracing::info!(attempt_id = %id, state = attempt.state.as_str(), "the provider is asked on request");
        }
        Ok((attempt, asked))
    }
}
