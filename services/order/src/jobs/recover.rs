//! The recoverer: resumes orders that a crash, a lost database or a killed process left standing.
//!
//! Every replica runs it. A take-over is one statement that skips rows which another replica is taking, raises the
//! attempt, and so fences off the run that had the order before, should it still be alive.

use std::{sync::Arc, time::Duration};

use durable::{StorageError, within};
use futures_util::StreamExt;
use resilience::Deadline;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{store::keys, workflow::Workflow};

/// A database that does not say what stands still within this is asked again in the next round.
const LOOK_BUDGET: Duration = Duration::from_secs(2);
/// Orders resumed side by side; each may wait for a sibling.
const CONCURRENCY: usize = 8;

pub async fn run(workflow: Arc<Workflow>, stop: CancellationToken) {
    let mut changes = workflow.rules.subscribe();
    let mut looked: Option<Instant> = None;
    loop {
        let rules = workflow.rules.current();
        let pause = looked.map_or(Duration::ZERO, |at| rules.recover.interval.saturating_sub(at.elapsed()));
        tokio::select! {
            () = stop.cancelled() => return,
            // Another interval counts from the last look on, however long the one was that is waited for.
            Ok(()) = changes.changed() => continue,
            () = tokio::time::sleep(pause) => looked = Some(Instant::now()),
        }
        let batch = i64::from(rules.recover.batch.get());
        let looking = keys::take_over_standing(workflow.database.pool(), rules.idempotency.lease, batch);
        let looking = async { Ok::<_, StorageError>(looking.await?) };
        match within(Deadline::after(LOOK_BUDGET), looking).await {
            Ok(standing) => {
                futures_util::stream::iter(standing)
                    .for_each_concurrent(CONCURRENCY, async |held| match workflow.resume(held).await {
                        Ok(order) => {
                            metrics::counter!("orders_recovered_total").increment(1);
                            tracing::warn!(
                                order_id = %order.id, attempt = held.attempt, status = order.status.as_str(),
                                "resumed an order that stood still"
                            );
                        }
                        Err(error) => tracing::warn!(order_id = %held.resource, %error, "not resumed; again later"),
                    })
                    .await;
            }
            Err(error) => tracing::warn!(%error, "cannot look for orders that stand still"),
        }
    }
}
