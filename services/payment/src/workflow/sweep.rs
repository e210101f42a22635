//! The sweeper: no attempt stands still for ever because whoever was at it is gone.
//!
//! Dispatched, and its call long over: nobody knows what came of it. Never sent, and nobody lets it wait: it never will
//! be. Open, and no message refers to it any more: it is asked after anew. Charged although it was announced as fenced or
//! declined: order is told again until it asks for the money back, since it has ended and asks nothing by itself.

use std::time::Duration;

use chassis::crash_point;
use chrono::{DateTime, TimeDelta, Utc};
use contracts::{AttemptId, payment::AttemptState};
use durable::StorageError;
use resilience::Deadline;
use rules::Reconcile;

use super::{Payments, evidence::take};
use crate::{
    domain::attempt::{Attempt, Event},
    store::{
        attempts::{self, NextQuestion, Source},
        charges::FoundBy,
        open::{self, Leases},
    },
};

const BUDGET: Duration = Duration::from_secs(3);

impl Payments {
    /// Looks after what stands still, and says how many attempts that were.
    pub async fn sweep(&self) -> Result<usize, StorageError> {
        let rule = self.rules.current().reconcile.clone();
        let leases = Leases { dispatched: rule.lease, withheld: rule.withheld, question: rule.lost_after };
        let mut tx = self.database.begin(Deadline::after(BUDGET)).await?;
        let abandoned = open::abandoned(&mut tx, leases, i64::from(rule.batch.get())).await?;
        drop(tx);
        let mut swept = 0;
        for id in abandoned {
            swept += usize::from(self.take_up(id, &rule).await?);
        }
        let told_again = self.tell_again(&rule).await?;
        if swept + told_again > 0 {
            self.outbox.wake();
        }
        Ok(swept)
    }

    /// Says again what contradicts an earlier word and was not acted upon. No round is without it for as long as keys
    /// are kept, so that it counts as nothing found.
    async fn tell_again(&self, rule: &Reconcile) -> Result<usize, StorageError> {
        let again = rule.delays[rule.delays.len() - 1];
        let memory = self.rules.current().idempotency.retention;
        let mut tx = self.database.begin(Deadline::after(BUDGET)).await?;
        let contradicted = open::contradicted(&mut tx, again, memory, i64::from(rule.batch.get())).await?;
        for id in &contradicted {
            let Some(attempt) = attempts::load(&mut tx, *id).await? else { continue };
            let Some(settlement) = attempt.settlement() else { continue };
            tracing::warn!(attempt_id = %id, "order is told again of a charge that came after another word");
            attempts::announce(&mut tx, &attempt, &settlement, None, Utc::now()).await?;
        }
        tx.commit().await?;
        Ok(contradicted.len())
    }

    async fn take_up(&self, id: AttemptId, rule: &Reconcile) -> Result<bool, StorageError> {
        let mut tx = self.database.begin(Deadline::after(BUDGET)).await?;
        let Some((attempt, next)) = attempts::lock_with_question(&mut tx, id).await? else { return Ok(false) };
        let now = Utc::now();
        let source = Source::of(FoundBy::Question, None);
        match due(&attempt, next, rule, now) {
            None => return Ok(false),
            Some(Due::Event(event)) => {
                tracing::warn!(attempt_id = %id, state = attempt.state.as_str(), "nobody is at an attempt any more");
                take(&mut tx, attempt, &event, &source, now).await?;
            }
            Some(Due::Question) => {
                let Some(question) = attempt.question() else { return Ok(false) };
                attempts::announce(&mut tx, &attempt, &question, None, now).await?;
            }
        }
        tx.commit().await?;
        crash_point("payment.swept");
        metrics::counter!("payment_swept_total").increment(1);
        Ok(true)
    }
}

enum Due {
    Event(Event),
    Question,
}

/// What an attempt needs that stands as it was read. It may have moved since it was found.
fn due(attempt: &Attempt, next: Option<NextQuestion>, rule: &Reconcile, now: DateTime<Utc>) -> Option<Due> {
    let stands =
        |at_least: Duration| TimeDelta::from_std(at_least).is_ok_and(|at_least| now - attempt.updated_at >= at_least);
    match attempt.state {
        AttemptState::Dispatched if stands(rule.lease) => {
            Some(Due::Event(Event::Unknown { dispatch_no: attempt.dispatch_no }))
        }
        AttemptState::Created if attempt.deferred_at.is_none() && stands(rule.lease) => Some(Due::Event(Event::Fence)),
        AttemptState::NotDispatched if attempt.deferred_at.is_none() && stands(rule.withheld) => {
            Some(Due::Event(Event::Fence))
        }
        AttemptState::Unknown | AttemptState::Review if next.is_none_or(|next| next.is_lost(rule.lost_after)) => {
            Some(Due::Question)
        }
        _ => None,
    }
}
