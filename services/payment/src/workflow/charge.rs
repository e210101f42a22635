//! `PUT` of an attempt: intent, call, record; and the backup, if the primary certainly was not told.
//!
//! The intent is committed before the first byte may leave, for each channel anew, so that a crash at any instruction
//! leaves a row that says where a request may have gone. Whoever made the row sends, once a channel; everybody else who
//! comes with the same id is told what the row says, and sends nothing, however old or stuck it is.

use chassis::{RequestContext, crash_point};
use chrono::Utc;
use contracts::{
    AttemptId,
    payment::{AttemptState, Channel, Charge, NotDispatchedReason},
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
    Settled(Box<Attempt>),
    /// It may have been charged, and nothing here tells.
    Undecided,
}

/// What became of the intent to send.
enum Intent {
    /// Durable, and ours to carry out.
    Made(Attempt),
    /// Somebody had it before, or it is not to be sent now.
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
        let channels = self.channels(&context);
        if channels != Channel::ALL {
            metrics::counter!("stability_degrade_hit_total", "feature" => "payment").increment(1);
        }
        match durable::within(context.deadline, self.intend(&context, id, &content, channels.first())).await? {
            Intent::Found(attempt) if attempt.content.as_ref().is_some_and(|found| *found != content) => {
                Err(PaymentError::ContentMismatch(id))
            }
            Intent::Found(attempt) => report(attempt),
            Intent::Made(attempt) => {
                crash_point("payment.charge.intent_saved");
                self.dispatch(&context, attempt, &content, channels.get(1..).unwrap_or_default()).await
            }
        }
    }

    /// `first`: where it is sent; nowhere, while charges are withheld.
    async fn intend(
        &self,
        context: &RequestContext,
        id: AttemptId,
        content: &Charge,
        first: Option<&Channel>,
    ) -> Result<Intent, StorageError> {
        let now = Utc::now();
        let event = match first {
            Some(channel) => Event::Dispatch { channel: *channel },
            None => Event::NotDispatched { dispatch_no: 0, reason: NotDispatchedReason::Degraded },
        };
        let new = Attempt::new(id, content.clone(), now).traced(Some(context.trace.to_string()));
        let mut tx = self.database.begin(context.deadline).await?;
        if let Ok(transition) = decide(&new, &event, now)
            && attempts::insert(&mut tx, &transition.next, &event).await?
        {
            tx.commit().await?;
            let made = transition.next;
            return Ok(if first.is_some() { Intent::Made(made) } else { Intent::Found(made) });
        }
        // Rows are never deleted, so whatever stood in the way is there.
        let found = attempts::load(&mut tx, id).await?;
        found.map(Intent::Found).ok_or(StorageError::Bug(sqlx::Error::RowNotFound))
    }

    /// One call a channel, then the record of what it proved. What is told afterwards is what the row says. `rest`: the
    /// channels that may be tried if this one certainly was not told.
    pub(super) async fn dispatch(
        &self,
        context: &RequestContext,
        mut dispatched: Attempt,
        content: &Charge,
        mut rest: &[Channel],
    ) -> Result<Reported, PaymentError> {
        let source = Source::of(FoundBy::Call, Some(context.trace.to_string()));
        loop {
            let Some(channel) = dispatched.channel else { return Ok(Reported::Undecided) };
            let dispatch_no = dispatched.dispatch_no;
            let evidence = self.providers.at(channel).charge(context, dispatched.id, content).await;
            crash_point("payment.charge.answer_read");
            let event = match evidence {
                Evidence::Approved { provider_ref } => Event::Approved { channel, provider_ref },
                Evidence::Declined { code, provider_ref } => Event::Declined { channel, code, provider_ref },
                Evidence::NotDispatched(reason) => Event::NotDispatched { dispatch_no, reason },
                Evidence::Unknown => Event::Unknown { dispatch_no },
            };
            // With no time left for the one there is none for the other.
            let unreached = matches!(
                event, Event::NotDispatched { reason, .. } if reason != NotDispatchedReason::Deadline
            );
            if let (true, Some((next, others))) = (unreached, rest.split_first()) {
                let redirecting = self.redirect(context, &dispatched, &event, *next, &source);
                if let Ok(Some(redirected)) = durable::within(context.deadline, redirecting).await {
                    crash_point("payment.charge.backup_intent_saved");
                    (dispatched, rest) = (redirected, others);
                    continue;
                }
            }
            let settled = self.settle(dispatched, event, &source).await;
            crash_point("payment.charge.recorded");
            return match settled {
                Ok(attempt) => report(attempt),
                // The row still says "dispatched", and whoever asks next will read that: the same is said now.
                Err(_) => Ok(Reported::Undecided),
            };
        }
    }

    /// Records that the one channel was not told, and the intent to tell the other, together. `None`: the row is no
    /// longer what we left, so that it is not ours to send.
    async fn redirect(
        &self,
        context: &RequestContext,
        dispatched: &Attempt,
        unreached: &Event,
        next: Channel,
        source: &Source,
    ) -> Result<Option<Attempt>, StorageError> {
        let now = Utc::now();
        let again = Event::Dispatch { channel: next };
        let Ok(withdrawn) = decide(dispatched, unreached, now) else { return Ok(None) };
        let Ok(redirected) = decide(&withdrawn.next, &again, now) else { return Ok(None) };
        let mut tx = self.database.begin(context.deadline).await?;
        if attempts::apply(&mut tx, dispatched, unreached, &withdrawn, source).await?
            && attempts::apply(&mut tx, &withdrawn.next, &again, &redirected, source).await?
        {
            tx.commit().await?;
            metrics::counter!("stability_degrade_hit_total", "feature" => "payment").increment(1);
            return Ok(Some(redirected.next));
        }
        Ok(None)
    }
}

/// What `PUT` says of an attempt that exists.
fn report(attempt: Attempt) -> Result<Reported, PaymentError> {
    match attempt.state {
        AttemptState::Approved | AttemptState::Declined => Ok(Reported::Settled(Box::new(attempt))),
        AttemptState::Created | AttemptState::Dispatched | AttemptState::Unknown | AttemptState::Review => {
            Ok(Reported::Undecided)
        }
        AttemptState::NotDispatched => match (attempt.not_dispatched_reason, attempt.content) {
            (Some(reason), Some(content)) => Err(PaymentError::NotDispatched {
                id: attempt.id,
                order_id: content.order_id,
                channel: attempt.channel,
                reason,
            }),
            // The table does not let this be.
            _ => Ok(Reported::Undecided),
        },
        AttemptState::Fenced => Err(PaymentError::Fenced(attempt.id)),
    }
}
