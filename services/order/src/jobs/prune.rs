//! Deletes what may be forgotten: old idempotency keys and old inbox rows.

use std::{sync::Arc, time::Duration};

use durable::inbox;
use tokio_util::sync::CancellationToken;

use crate::{store::keys, workflow::Workflow};

const INTERVAL: Duration = Duration::from_secs(60);
/// Rows a round. More than a minute brings in, and few enough for one short statement.
const LIMIT: i64 = 10_000;

pub async fn run(workflow: Arc<Workflow>, stop: CancellationToken) {
    let mut tick = tokio::time::interval(INTERVAL);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
        }
        let (pool, rules) = (workflow.database.pool(), &workflow.rules);
        if let Err(error) = keys::prune(pool, rules.idempotency.retention, LIMIT).await {
            tracing::warn!(%error, "idempotency keys are not pruned");
        }
        if let Err(error) = inbox::prune(pool, rules.messaging.inbox_retention, LIMIT).await {
            tracing::warn!(%error, "the inbox is not pruned");
        }
    }
}
