//! What the provider says by itself: stored first, then taken like any other evidence. In any order, any number of times.

use std::time::Duration;

use chassis::crash_point;
use chrono::Utc;
use contracts::{
    AttemptId, Money, RefundId,
    payment::{AttemptState, Channel},
    provider::{Webhook, WebhookKind},
};
use durable::{StorageError, Tx};
use resilience::Deadline;

use super::{Payments, evidence::take, refund::settle_refund};
use crate::{
    domain::{
        attempt::{Attempt, Event},
        refund,
    },
    downstream::provider::UNSPECIFIED,
    store::{
        attempts::{self, Source},
        charges::FoundBy,
        provider_events::{self, Notice},
        refunds,
    },
};

/// For one notice: some short statements.
const BUDGET: Duration = Duration::from_secs(3);

impl Payments {
    /// Stores a notice. True: it is new.
    pub async fn store_notice(
        &self,
        channel: Option<Channel>,
        webhook: &Webhook,
        deadline: Deadline,
    ) -> Result<bool, StorageError> {
        let mut tx = self.database.begin(deadline).await?;
        let new = provider_events::store(&mut tx, channel, webhook).await?;
        tx.commit().await?;
        crash_point("payment.webhook.stored");
        self.wakes.notices.notify_one();
        Ok(new)
    }

    /// Acts upon one stored notice. False: none waits.
    pub async fn take_notice(&self) -> Result<bool, StorageError> {
        let mut tx = self.database.begin(Deadline::after(BUDGET)).await?;
        let Some(notice) = provider_events::next(&mut tx).await? else { return Ok(false) };
        let outcome = match self.act_upon(&mut tx, &notice).await {
            Ok(Some(outcome)) => outcome,
            Ok(None) => {
                let wait = self.rules.current().reconcile.sweep_interval;
                provider_events::postpone(&mut tx, &notice.webhook.id, wait).await?;
                tx.commit().await?;
                return Ok(true);
            }
            Err(error @ StorageError::Unavailable(_)) => return Err(error),
            // It would be refused for ever, and everything behind it would wait.
            Err(error) => {
                tracing::error!(notice = notice.webhook.id, %error, "a notice cannot be acted upon");
                tx = self.database.begin(Deadline::after(BUDGET)).await?;
                "failed"
            }
        };
        provider_events::processed(&mut tx, &notice.webhook.id, outcome).await?;
        tx.commit().await?;
        self.outbox.wake();
        self.wakes.refunds.notify_one();
        metrics::counter!("payment_webhooks_total", "outcome" => outcome).increment(1);
        Ok(true)
    }

    /// What it came to; `None`: not yet.
    async fn act_upon(&self, tx: &mut Tx, notice: &Notice) -> Result<Option<&'static str>, StorageError> {
        let webhook = &notice.webhook;
        if webhook.kind == WebhookKind::RefundSucceeded {
            let Ok(id) = webhook.key.parse::<RefundId>() else { return Ok(Some("not_ours")) };
            let Some(refund) = refunds::load(tx, id).await? else { return Ok(Some("not_ours")) };
            let made = refund::Event::Refunded { provider_refund_ref: None };
            settle_refund(tx, refund, &made).await?;
            return Ok(Some("taken"));
        }
        // A charge under a key that is none of ours is found in the ledger, which says where it is.
        let Ok(id) = webhook.key.parse::<AttemptId>() else { return Ok(Some("not_ours")) };
        let Some(attempt) = attempts::lock(tx, id).await? else { return Ok(Some("not_ours")) };
        // Whoever made the call is about to be told, and more; until it is over, one of the two decides and not both.
        if attempt.state == AttemptState::Dispatched {
            return Ok(None);
        }
        let Some(channel) = notice.channel.or_else(|| only_channel(&attempt)) else {
            return self.ask_instead(tx, &attempt).await.map(Some);
        };
        let provider_ref = webhook.charge_id.clone();
        let event = match webhook.kind {
            // It does not say why.
            WebhookKind::ChargeDeclined => {
                Event::Declined { channel, code: UNSPECIFIED.to_owned(), provider_ref: Some(provider_ref) }
            }
            WebhookKind::ChargeApproved | WebhookKind::RefundSucceeded => Event::Approved { channel, provider_ref },
        };
        let amount = Money::new(webhook.amount_minor, webhook.currency);
        let source = Source { amount: Some(amount), ..Source::of(FoundBy::Webhook, None) };
        let taken = take(tx, attempt, &event, &source, Utc::now()).await?;
        Ok(Some(if taken.refusal.is_none() { "taken" } else { "known" }))
    }

    /// It does not say where the charge is, and two channels may have it.
    async fn ask_instead(&self, tx: &mut Tx, attempt: &Attempt) -> Result<&'static str, StorageError> {
        if let Some(question) = attempt.question() {
            attempts::announce(tx, attempt, &question, None, Utc::now()).await?;
        }
        Ok("asked")
    }
}

/// The channel of a charge, where there is no doubt.
fn only_channel(attempt: &Attempt) -> Option<Channel> {
    let mut told = attempt.intents.channels();
    match (told.next(), told.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}
