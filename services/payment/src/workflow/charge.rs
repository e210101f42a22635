//! `PUT` of an attempt: intent, call, record.
//!
//! The intent is committed before the first byte may leave, so that a crash at any instruction leaves a row that says
//! "may have been sent". Whoever made the row sends, once; everybody else who comes with the same id is told what the
//! row says, and sends nothing, however old or stuck it is.

use chassis::RequestContext;
use chrono::Utc;
use contracts::{
    AttemptId,
    payment::{AttemptState, Charge},
};
use durable::StorageError;

use super::Payments;
use crate::{
    domain::attempt::{Attempt, Event, decide},
    downstream::provider::Evidence,
    error::PaymentError,
    store::{
        attempts::{self, Source},
        charges::FoundBy,
    },
};

/// What a caller may be told of an attempt, beside the refusals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reported {
    Settled(Attempt),
    /// It may have been charged, and nothing here tells.
    Undecided,
}

/// What became of the intent to send.
enum Intent {
    /// Durable, and ours to carry out.
    Made(Attempt),
    /// Somebody had it before.
    Found(Attempt),
}

impl Payments {
    /// Charges an attempt that is new, reports one that is not. Runs to its end whatever the caller does.
    pub async fn charge(
        &self,
        context: RequestContext,
        id: AttemptId,
        content: Charge,
    ) -> Result<Reported, PaymentError> {
        match durable::within(context.deadline, self.intend(&context, id, &content)).await? {
            Intent::Found(attempt) if attempt.content.as_ref().is_some_and(|found| *found != content) => {
                Err(PaymentError::ContentMismatch(id))
            }
            Intent::Found(attempt) => report(attempt),
            Intent::Made(attempt) => self.dispatch(&context, attempt, &content).await,
        }
    }

    async fn intend(&self, context: &RequestContext, id: AttemptId, content: &Charge) -> Result<Intent, StorageError> {
        let now = Utc::now();
        let event = Event::Dispatch { channel: self.primary.channel() };
        let new = Attempt::new(id, content.clone(), now);
        let mut tx = self.database.begin(context.deadline).await?;
        if let Ok(transition) = decide(&new, &event, now)
            && attempts::insert(&mut tx, &transition.next, &event).await?
        {
            tx.commit().await?;
            return Ok(Intent::Made(transition.next));
        }
        // Rows are never deleted, so whatever stood in the way is there.
        let found = attempts::load(&mut tx, id).await?;
        found.map(Intent::Found).ok_or(StorageError::Bug(sqlx::Error::RowNotFound))
    }

    /// One call, then the record of what it proved. What is told afterwards is what the row says.
    async fn dispatch(
        &self,
        context: &RequestContext,
        dispatched: Attempt,
        content: &Charge,
    ) -> Result<Reported, PaymentError> {
        let (channel, dispatch_no) = (self.primary.channel(), dispatched.dispatch_no);
        let event = match self.primary.charge(context, dispatched.id, content).await {
            Evidence::Approved { provider_ref } => Event::Approved { channel, provider_ref },
            Evidence::Declined { code, provider_ref } => Event::Declined { channel, code, provider_ref },
            Evidence::NotDispatched(reason) => Event::NotDispatched { dispatch_no, reason },
            Evidence::Unknown => Event::Unknown { dispatch_no },
        };
        let source = Source { found_by: FoundBy::Call, traceparent: Some(context.trace.to_string()) };
        match self.settle(dispatched, event, &source).await {
            Ok(attempt) => report(attempt),
            // The row still says "dispatched", and whoever asks next will read that: the same is said now.
            Err(_) => Ok(Reported::Undecided),
        }
    }
}

/// What `PUT` says of an attempt that exists.
fn report(attempt: Attempt) -> Result<Reported, PaymentError> {
    match attempt.state {
        AttemptState::Approved | AttemptState::Declined => Ok(Reported::Settled(attempt)),
        AttemptState::Created | AttemptState::Dispatched | AttemptState::Unknown | AttemptState::Review => {
            Ok(Reported::Undecided)
        }
        AttemptState::NotDispatched => match (attempt.not_dispatched_reason, attempt.content) {
            (Some(reason), Some(content)) => {
                Err(PaymentError::NotDispatched { id: attempt.id, order_id: content.order_id, reason })
            }
            // The table does not let this be.
            _ => Ok(Reported::Undecided),
        },
        AttemptState::Fenced => Err(PaymentError::Fenced(attempt.id)),
    }
}
