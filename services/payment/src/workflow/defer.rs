//! Charges that wait: order lets a small one be sent later, and they are sent when the provider can take them.
//!
//! A provider that has just come back must not be buried under what waited for it: few are under way at once, through
//! the same guards as every charge, whose ramp decides how many get through.

use std::time::Duration;

use chassis::{RequestContext, crash_point};
use chrono::Utc;
use contracts::{AttemptId, payment::AttemptState, trace::TraceContext};
use durable::StorageError;
use futures_util::future::join_all;
use resilience::Deadline;

use super::{Payments, charge::Reported};
use crate::{
    domain::attempt::{Event, decide},
    store::{
        attempts::{self, Source},
        charges::FoundBy,
        open,
    },
};

/// For one charge: as long as one that a customer waits for.
const CHARGE_BUDGET: Duration = Duration::from_secs(2);
const BUDGET: Duration = Duration::from_secs(3);

impl Payments {
    /// Sends as many deferred charges as may be under way at once, and says how many of them left.
    pub async fn drain(&self) -> Result<usize, StorageError> {
        let context = RequestContext::for_look("deferred", CHARGE_BUDGET);
        if self.channels(&context).iter().all(|channel| self.providers.at(*channel).is_cut_off()) {
            return Ok(0);
        }
        let limit = i64::from(self.rules.current().reconcile.drain_concurrency.get());
        let mut tx = self.database.begin(Deadline::after(BUDGET)).await?;
        let waiting = open::deferred(&mut tx, limit).await?;
        drop(tx);
        let sent = join_all(waiting.into_iter().map(|(id, trace)| self.send_deferred(id, trace))).await;
        let mut left = 0;
        for sent in sent {
            left += usize::from(sent?);
        }
        Ok(left)
    }

    /// True: its request left. `trace`: of the order that let it wait.
    async fn send_deferred(&self, id: AttemptId, trace: Option<TraceContext>) -> Result<bool, StorageError> {
        let context = RequestContext::for_job("deferred", trace, CHARGE_BUDGET);
        let channels = self.channels(&context);
        let Some((first, rest)) = channels.split_first() else { return Ok(false) };
        let mut tx = self.database.begin(context.deadline).await?;
        let Some(attempt) = attempts::lock(&mut tx, id).await? else { return Ok(false) };
        let waits = matches!(attempt.state, AttemptState::Created | AttemptState::NotDispatched)
            && attempt.deferred_at.is_some();
        let (true, Some(content)) = (waits, attempt.content.clone()) else { return Ok(false) };
        let event = Event::Dispatch { channel: *first };
        let Ok(transition) = decide(&attempt, &event, Utc::now()) else { return Ok(false) };
        let source = Source::of(FoundBy::Call, Some(context.trace.to_string()));
        if !attempts::apply(&mut tx, &attempt, &event, &transition, &source).await? {
            return Ok(false);
        }
        tx.commit().await?;
        crash_point("payment.deferred.intent_saved");
        let sent = self.dispatch(&context, transition.next, &content, rest).await;
        // What did not leave waits on; its row says so.
        Ok(matches!(sent, Ok(Reported::Settled(_) | Reported::Undecided)))
    }
}
