//! What order says through Kafka: it does not know, it lets a charge wait, it wants money back.
//!
//! Each is one transaction with its inbox row, and each can come again, late, or for an attempt that was never heard of.

use std::time::Duration;

use chrono::Utc;
use contracts::{
    Event as Message, OrderId,
    event::{PaymentDeferred, PaymentFenced, PaymentRefundRequested, PaymentUnknown},
    payment::{AttemptState, Charge, RefundCharge, RefundState},
};
use durable::{StorageError, Tx};

use super::{Payments, evidence::take, refund::RefundRefusal};
use crate::{
    domain::attempt::{Announcement, Attempt, Event, decide},
    store::{
        attempts::{self, Source},
        charges::FoundBy,
        refunds,
    },
};

/// Another charge under the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the attempt exists with other content")]
pub struct OtherContent;

impl Payments {
    /// Order does not know what came of its call. What certainly was not sent is fenced, what is settled is told again,
    /// and what is open is asked after.
    pub async fn order_is_unsure(
        &self,
        tx: &mut Tx,
        said: &PaymentUnknown,
        message: &Message,
        lost_after: Duration,
    ) -> Result<(), StorageError> {
        let now = Utc::now();
        let tombstone = Attempt::tombstone(said.attempt_id, now).traced(message.traceparent.clone());
        // The tombstone first, as for a fence: the call may still be on its way here.
        if attempts::insert(tx, &tombstone, &Event::Fence).await? {
            return tell(tx, &tombstone, said.order_id, message).await;
        }
        let Some((attempt, next)) = attempts::lock_with_question(tx, said.attempt_id).await? else {
            return Err(StorageError::Bug(sqlx::Error::RowNotFound));
        };
        match attempt.state {
            AttemptState::Approved | AttemptState::Declined | AttemptState::Fenced => {
                tell(tx, &attempt, said.order_id, message).await
            }
            AttemptState::Created | AttemptState::NotDispatched => {
                let source = Source::of(FoundBy::Call, message.traceparent.clone());
                take(tx, attempt, &Event::Fence, &source, now).await.map(drop)
            }
            // Whoever sends it records what comes of it, and else the sweeper.
            AttemptState::Dispatched => Ok(()),
            AttemptState::Unknown | AttemptState::Review => {
                if next.is_none_or(|next| next.is_lost(lost_after))
                    && let Some(question) = attempt.question()
                {
                    attempts::announce(tx, &attempt, &question, message.traceparent.clone(), now).await?;
                }
                Ok(())
            }
        }
    }

    /// Order lets the charge wait. One that was never heard of is made, since the message says what to charge.
    pub async fn defer(
        &self,
        tx: &mut Tx,
        said: &PaymentDeferred,
        message: &Message,
    ) -> Result<Result<(), OtherContent>, StorageError> {
        let now = Utc::now();
        let content = Charge {
            order_id: said.order_id,
            amount_minor: said.amount_minor,
            currency: said.currency,
            payment_method: said.payment_method.clone(),
        };
        let new = Attempt::new(said.attempt_id, content.clone(), now).traced(message.traceparent.clone());
        if let Ok(transition) = decide(&new, &Event::Defer, now)
            && attempts::insert(tx, &transition.next, &Event::Defer).await?
        {
            return Ok(Ok(()));
        }
        let Some(attempt) = attempts::lock(tx, said.attempt_id).await? else {
            return Err(StorageError::Bug(sqlx::Error::RowNotFound));
        };
        if attempt.content.as_ref().is_some_and(|found| *found != content) {
            return Ok(Err(OtherContent));
        }
        match attempt.state {
            AttemptState::Approved | AttemptState::Declined | AttemptState::Fenced => {
                tell(tx, &attempt, said.order_id, message).await?;
            }
            AttemptState::Created | AttemptState::NotDispatched => {
                let source = Source::of(FoundBy::Call, message.traceparent.clone());
                take(tx, attempt, &Event::Defer, &source, now).await?;
            }
            // It left by another path.
            AttemptState::Dispatched | AttemptState::Unknown | AttemptState::Review => {}
        }
        Ok(Ok(()))
    }

    /// Order wants money back. It says so until it hears that it is: a refund that was made is told again.
    pub async fn order_wants_back(
        &self,
        tx: &mut Tx,
        said: &PaymentRefundRequested,
        message: &Message,
    ) -> Result<Result<(), RefundRefusal>, StorageError> {
        let asked =
            RefundCharge { refund_id: said.refund_id, amount_minor: said.amount_minor, reason: said.reason.clone() };
        let believed = Some((said.order_id, said.currency));
        let requested = self.request_refund(tx, said.attempt_id, &asked, believed, message.traceparent.clone()).await?;
        let refund = match requested {
            Ok(refund) => refund,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if refund.state == RefundState::Refunded {
            refunds::announce(tx, &refund, message.traceparent.clone(), Utc::now()).await?;
        }
        Ok(Ok(()))
    }
}

/// The event of a settlement, once more. A tombstone never learnt whose it is; whoever asks knows.
async fn tell(tx: &mut Tx, attempt: &Attempt, order_id: OrderId, message: &Message) -> Result<(), StorageError> {
    let fenced = Announcement::Fenced(PaymentFenced { order_id, attempt_id: attempt.id });
    let announcement = attempt.settlement().unwrap_or(fenced);
    attempts::announce(tx, attempt, &announcement, message.traceparent.clone(), Utc::now()).await
}
