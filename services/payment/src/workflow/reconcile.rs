//! Finding out what became of an attempt: every channel that was ever told is asked, and what they say together decides.
//!
//! One message at a time asks about an attempt. What it finds, the next message if one is needed, and its own inbox row
//! are one transaction; the questions come before it, since no transaction waits for a provider. A message that comes
//! twice asks twice and has one effect.

use std::time::Duration;

use chassis::{RequestContext, crash_point};
use chrono::{DateTime, Utc};
use contracts::{
    Event as Message,
    event::ReconcileDue,
    payment::Channel,
    topic::{RECONCILE, RETRY_TIERS},
    trace::TraceContext,
};
use durable::{StorageError, Tx, inbox, retry::retry_later};
use futures_util::future::join_all;
use resilience::Deadline;

use super::{Payments, evidence::take};
use crate::{
    domain::attempt::{Attempt, Event, NotFoundAt},
    downstream::provider::Finding,
    store::{
        attempts::{self, NextQuestion, Source},
        charges::FoundBy,
    },
};

/// The consumer group, and the name in the inbox, of payment's own questions.
pub const GROUP: &str = "payment.reconcile";
/// For the record of what was found: some short statements.
const RECORD_BUDGET: Duration = Duration::from_secs(3);

/// What a message came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reconciled {
    /// Nothing is open any more.
    Settled(Attempt),
    /// It will be asked again.
    Later(Attempt),
    /// Another message asks, or did.
    Stale,
}

impl Payments {
    /// Asks once for the message `event` from tier `tier`, and enqueues the next one if the answer is not final.
    pub async fn reconcile(
        &self,
        event: &Message,
        due: &ReconcileDue,
        tier: usize,
    ) -> Result<Reconciled, StorageError> {
        let rule = self.rules.current().reconcile.clone();
        let mut tx = self.database.begin(Deadline::after(RECORD_BUDGET)).await?;
        let found = attempts::load_with_question(&mut tx, due.attempt_id).await?;
        drop(tx);
        let Some((attempt, next)) = found else { return Ok(Reconciled::Stale) };
        if attempt.is_settled() {
            return Ok(Reconciled::Settled(attempt));
        }
        if next.is_some_and(|next| next.event != event.id && !next.is_lost(rule.lost_after)) {
            return Ok(Reconciled::Stale);
        }
        let trace = event.traceparent.as_deref().and_then(|text| text.parse().ok());
        let findings = self.ask_all(&attempt, trace).await;
        crash_point("payment.reconcile.asked");

        let mut tx = self.database.begin(Deadline::after(RECORD_BUDGET)).await?;
        if !inbox::first_delivery(&mut tx, GROUP, event.id).await? {
            return Ok(Reconciled::Stale);
        }
        let Some(locked) = attempts::lock(&mut tx, due.attempt_id).await? else { return Ok(Reconciled::Stale) };
        let attempt = conclude(&mut tx, locked, findings, event, rule.settle, tier).await?;
        if !attempt.is_settled() {
            // At the end of the queue it is asked at the slowest pace, for ever.
            let from = tier.min(RETRY_TIERS - 1);
            let hop = retry_later(&mut tx, &RECONCILE, from, event, &rule.delays, Utc::now()).await?;
            if let Some(hop) = hop {
                let next = NextQuestion { event: hop.id, tier: hop.tier, due: hop.due };
                attempts::refer(&mut tx, attempt.id, next).await?;
            }
        }
        tx.commit().await?;
        self.outbox.wake();
        crash_point("payment.reconcile.recorded");
        Ok(if attempt.is_settled() { Reconciled::Settled(attempt) } else { Reconciled::Later(attempt) })
    }

    /// What each channel says that was ever told.
    async fn ask_all(&self, attempt: &Attempt, trace: Option<TraceContext>) -> Vec<Asked> {
        let ask = |channel| async move {
            let provider = self.providers.at(channel);
            let context = RequestContext::for_job("reconcile", trace, QUESTION_BUDGET);
            // Before the question leaves: what it proves, it proves of this moment.
            let at = Utc::now();
            Asked { channel, at, finding: provider.ask(&context, attempt.id).await }
        };
        join_all(attempt.intents.channels().map(ask)).await
    }
}

/// For one question, with its waits; the rule of the callee is below it.
const QUESTION_BUDGET: Duration = Duration::from_secs(2);

/// What a channel said, and when it was asked.
struct Asked {
    channel: Channel,
    at: DateTime<Utc>,
    finding: Finding,
}

/// Applies what was found to the attempt as it is now, charges first: money that was taken outranks what another channel
/// says.
async fn conclude(
    tx: &mut Tx,
    mut attempt: Attempt,
    findings: Vec<Asked>,
    message: &Message,
    settle: Duration,
    tier: usize,
) -> Result<Attempt, StorageError> {
    let source = Source::of(FoundBy::Question, message.traceparent.clone());
    let (mut at, mut unanswered) = (NotFoundAt::default(), false);
    let mut events = Vec::new();
    for Asked { channel, at: asked_at, finding } in findings {
        match finding {
            Finding::Approved { provider_ref } => events.insert(0, Event::Approved { channel, provider_ref }),
            Finding::Declined { code, provider_ref } => {
                events.push(Event::Declined { channel, code, provider_ref });
                // Where it is not the last word, it is at least no charge.
                at = at.with(channel, asked_at);
            }
            Finding::NotFound => at = at.with(channel, asked_at),
            Finding::Unanswered => unanswered = true,
        }
    }
    events.push(Event::NotFound { at, settle });
    if unanswered && tier >= RETRY_TIERS {
        events.push(Event::Unanswered);
    }
    for event in &events {
        if attempt.is_settled() && !matches!(event, Event::Approved { .. }) {
            continue;
        }
        attempt = take(tx, attempt, event, &source, Utc::now()).await?.attempt;
    }
    Ok(attempt)
}
