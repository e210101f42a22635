//! Refunds: requested once, sent with the same key until the provider says that they were made.

use std::time::Duration;

use chassis::{RequestContext, crash_point};
use chrono::Utc;
use contracts::{
    AttemptId, Currency, OrderId,
    payment::{AttemptState, RefundCharge, RefundState},
};
use durable::{StorageError, Tx};
use futures_util::{StreamExt, stream};
use resilience::Deadline;

use super::Payments;
use crate::{
    domain::refund::{Asker, Event, Refund, decide},
    downstream::provider::Refunding,
    error::PaymentError,
    store::{attempts, open, refunds},
};

/// Why there is no such refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefundRefusal {
    #[error("there is no such payment attempt")]
    NoSuchAttempt,
    #[error("nothing was charged for the attempt")]
    NotCharged,
    #[error("more than is left of the charge")]
    MoreThanLeft,
    #[error("the refund exists with other content")]
    ContentMismatch,
}

/// One send and its record, far below the lease that a claim gives.
const SEND_BUDGET: Duration = Duration::from_secs(3);
const RECORD_BUDGET: Duration = Duration::from_secs(3);
/// Whoever claimed a refund and is not done by then is gone.
const CLAIM: Duration = Duration::from_secs(15);
/// Sent at once. Refunds are not urgent, and the guards of questions hold ten.
const SENDS_AT_ONCE: usize = 4;

impl Payments {
    /// The refund as it is, made if it is new. In the caller's transaction; whoever commits calls [`Self::committed`].
    /// `said`: the order and currency that whoever asks believes in, if they say so. `traceparent`: of whoever asks.
    pub async fn request_refund(
        &self,
        tx: &mut Tx,
        attempt_id: AttemptId,
        asked: &RefundCharge,
        said: Option<(OrderId, Currency)>,
        traceparent: Option<String>,
    ) -> Result<Result<Refund, RefundRefusal>, StorageError> {
        // Its lock makes promises of one charge take turns.
        let Some(attempt) = attempts::lock(tx, attempt_id).await? else { return Ok(Err(RefundRefusal::NoSuchAttempt)) };
        let (Some(content), Some(channel), Some(provider_ref)) =
            (&attempt.content, attempt.channel, attempt.provider_ref.clone())
        else {
            return Ok(Err(RefundRefusal::NotCharged));
        };
        if attempt.state != AttemptState::Approved {
            return Ok(Err(RefundRefusal::NotCharged));
        }
        let asked_by = Asker { order_id: content.order_id, attempt_id };
        if said.is_some_and(|said| said != (content.order_id, content.currency)) {
            return Ok(Err(RefundRefusal::ContentMismatch));
        }
        if let Some(found) = refunds::load(tx, asked.refund_id).await? {
            let same = found.amount_minor == asked.amount_minor && found.asked_by == Some(asked_by);
            return Ok(if same { Ok(found) } else { Err(RefundRefusal::ContentMismatch) });
        }
        let promised = refunds::promised_minor(tx, attempt_id, asked.refund_id).await?;
        if promised.checked_add(asked.amount_minor).is_none_or(|sum| sum > content.amount_minor) {
            return Ok(Err(RefundRefusal::MoreThanLeft));
        }
        let now = Utc::now();
        let refund = Refund {
            id: asked.refund_id,
            channel,
            provider_ref,
            amount_minor: asked.amount_minor,
            currency: content.currency,
            reason: asked.reason.clone(),
            asked_by: Some(asked_by),
            state: RefundState::Requested,
            sends: 0,
            provider_refund_ref: None,
            traceparent: traceparent.or(attempt.traceparent),
            version: 1,
            created_at: now,
            updated_at: now,
        };
        if !refunds::insert(tx, &refund).await? {
            return Ok(Err(RefundRefusal::ContentMismatch));
        }
        open::acknowledged(tx, attempt_id).await?;
        Ok(Ok(refund))
    }

    /// [`Self::request_refund`] for who asks by a call.
    pub async fn refund(
        &self,
        context: RequestContext,
        id: AttemptId,
        asked: RefundCharge,
    ) -> Result<Refund, PaymentError> {
        let requesting = async {
            let mut tx = self.database.begin(context.deadline).await?;
            let requested = self.request_refund(&mut tx, id, &asked, None, Some(context.trace.to_string())).await?;
            tx.commit().await?;
            Ok::<_, StorageError>(requested)
        };
        let requested = durable::within(context.deadline, requesting).await?;
        crash_point("payment.refund.requested");
        self.wakes.refunds.notify_one();
        requested.map_err(|refusal| PaymentError::Refund { id, refusal })
    }

    /// Sends what is due, and says how many that were.
    pub async fn send_refunds(&self) -> Result<usize, StorageError> {
        let limit = i64::from(self.rules.current().reconcile.batch.get());
        let mut tx = self.database.begin(Deadline::after(RECORD_BUDGET)).await?;
        let mut sending = Vec::new();
        for refund in refunds::claim_due(&mut tx, limit, CLAIM).await? {
            // The intent, durable before the first byte.
            if let Ok(transition) = decide(&refund, &Event::Send, Utc::now())
                && refunds::apply(&mut tx, &refund, &transition).await?
            {
                sending.push(transition.next);
            }
        }
        tx.commit().await?;
        let sent = sending.len();
        if sent > 0 {
            crash_point("payment.refund.intent_saved");
        }
        stream::iter(sending).for_each_concurrent(SENDS_AT_ONCE, |refund| self.send_refund(refund)).await;
        Ok(sent)
    }

    async fn send_refund(&self, refund: Refund) {
        let trace = refund.traceparent.as_deref().and_then(|text| text.parse().ok());
        let context = RequestContext::for_job("refund", trace, SEND_BUDGET);
        let said = self.providers.at(refund.channel).refund(&context, &refund).await;
        crash_point("payment.refund.answer_read");
        let recorded = durable::within(Deadline::after(RECORD_BUDGET), self.record_refund(&refund, said)).await;
        match recorded {
            Ok(refund) => tracing::info!(
                refund_id = %refund.id, amount_minor = refund.amount_minor, sends = refund.sends,
                state = refund.state.as_str(), "refund sent"
            ),
            // It is sent again when the claim has run out.
            Err(error) => tracing::warn!(refund_id = %refund.id, %error, "the end of a refund could not be recorded"),
        }
    }

    async fn record_refund(&self, sent: &Refund, said: Refunding) -> Result<Refund, StorageError> {
        let event = match said {
            Refunding::Made { provider_refund_ref } => Some(Event::Refunded { provider_refund_ref }),
            Refunding::Refused => Some(Event::Refused),
            Refunding::Unanswered => None,
        };
        let mut tx = self.database.begin(Deadline::after(RECORD_BUDGET)).await?;
        let mut refund = refunds::load(&mut tx, sent.id).await?.ok_or(StorageError::Bug(sqlx::Error::RowNotFound))?;
        if let Some(event) = event {
            refund = settle_refund(&mut tx, refund, &event).await?;
        }
        if refund.state != RefundState::Refunded {
            let delays = self.rules.current().reconcile.delays;
            // One that was refused is not worth asking for often.
            let tries = if refund.state == RefundState::Review { usize::MAX } else { sends_before(&refund) };
            refunds::due_in(&mut tx, refund.id, delays[tries.min(delays.len() - 1)]).await?;
        }
        tx.commit().await?;
        self.outbox.wake();
        Ok(refund)
    }
}

fn sends_before(refund: &Refund) -> usize {
    usize::try_from(refund.sends.saturating_sub(1)).unwrap_or_default()
}

/// Applies what is known of a refund, in the caller's transaction. One that moved meanwhile is left as it is: it was
/// told the same, or is asked again.
pub(super) async fn settle_refund(tx: &mut Tx, refund: Refund, event: &Event) -> Result<Refund, StorageError> {
    let Ok(transition) = decide(&refund, event, Utc::now()) else { return Ok(refund) };
    if !refunds::apply(tx, &refund, &transition).await? {
        return Ok(refund);
    }
    metrics::counter!("payment_refunds_total", "outcome" => transition.next.state.as_str()).increment(1);
    if transition.next.state == RefundState::Review {
        tracing::error!(
            refund_id = %refund.id, provider_ref = refund.provider_ref, amount_minor = refund.amount_minor,
            "the provider refuses a refund: somebody is owed money"
        );
    }
    Ok(transition.next)
}
