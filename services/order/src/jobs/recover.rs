//! The recoverer: resumes orders that a crash, a lost database or a killed process left standing, and asks about payments
//! that stay open too long. What has ended is looked after by [`walk`](super::walk).
//!
//! Every replica runs it. A take-over is one statement that skips rows which another replica is taking. It raises the
//! attempt of an order that stands still, and so fences off the run that had it before, should it still be alive.

use std::{sync::Arc, time::Duration};

use durable::{StorageError, within};
use futures_util::StreamExt;
use resilience::Deadline;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    error::Error,
    store::{keys, walks},
    workflow::Workflow,
};

/// A database that does not say what stands still within this is asked again in the next round.
const LOOK_BUDGET: Duration = Duration::from_secs(2);
/// Orders resumed side by side; each may wait for a sibling.
const CONCURRENCY: usize = 8;

pub async fn run(workflow: Arc<Workflow>, stop: CancellationToken) {
    let mut changes = workflow.rules.subscribe();
    let mut looked: Option<Instant> = None;
    loop {
        let pause = {
            let interval = workflow.rules.current().recover.interval;
            looked.map_or(Duration::ZERO, |at| interval.saturating_sub(at.elapsed()))
        };
        tokio::select! {
            () = stop.cancelled() => return,
            // Another interval counts from the last look on, however long the one was that is waited for.
            Ok(()) = changes.changed() => continue,
            () = tokio::time::sleep(pause) => looked = Some(Instant::now()),
        }
        resume_standing(&workflow).await;
        ask_about_open_payments(&workflow).await;
    }
}

async fn resume_standing(workflow: &Workflow) {
    let rules = workflow.rules.current();
    let batch = i64::from(rules.recover.batch.get());
    let standing =
        found(keys::take_over_standing(workflow.database.pool(), rules.idempotency.lease, batch), "stand still").await;
    side_by_side(CONCURRENCY, standing, async |held| match workflow.resume(held).await {
        Ok(order) => {
            metrics::counter!("orders_recovered_total").increment(1);
            tracing::warn!(
                order_id = %order.id, attempt = held.attempt, status = order.status.as_str(),
                "resumed an order that stood still"
            );
        }
        Err(error) => not_now(held.resource, &error),
    })
    .await;
}

/// The bound on how long an order waits for its payment. It is load-bearing: an attempt that payment never heard of is
/// ended by nothing else.
async fn ask_about_open_payments(workflow: &Workflow) {
    let recover = workflow.rules.current().recover.clone();
    let batch = i64::from(recover.batch.get());
    let claiming = walks::claim_pending(workflow.database.pool(), recover.pending_max_age, recover.ask_again, batch);
    side_by_side(CONCURRENCY, found(claiming, "wait too long").await, async |id| {
        match workflow.fence_overdue(id).await {
            Ok(order) => {
                tracing::info!(order_id = %id, status = order.status.as_str(), "asked about an open payment");
            }
            Err(error) => not_now(id, &error),
        }
    })
    .await;
}

pub(super) async fn found<T>(looking: impl Future<Output = sqlx::Result<Vec<T>>>, what: &str) -> Vec<T> {
    let looking = async { Ok::<_, StorageError>(looking.await?) };
    within(Deadline::after(LOOK_BUDGET), looking).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot look for orders that {what}");
        Vec::new()
    })
}

pub(super) async fn side_by_side<T, F: Future<Output = ()>>(concurrency: usize, all: Vec<T>, work: impl FnMut(T) -> F) {
    futures_util::stream::iter(all).for_each_concurrent(concurrency, work).await;
}

pub(super) fn not_now(order: impl std::fmt::Display, error: &Error) {
    tracing::warn!(order_id = %order, %error, "not looked after; again later");
}
