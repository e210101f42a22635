//! Deletes idempotency keys that may be forgotten.

use std::sync::Arc;

use durable::pruning::keep_short;
use tokio_util::sync::CancellationToken;

use crate::{store::keys, workflow::Workflow};

pub async fn run(workflow: Arc<Workflow>, stop: CancellationToken) {
    let prune = |limit| {
        let (pool, rules) = (workflow.database.pool().clone(), workflow.rules.current());
        async move { keys::prune(&pool, rules.idempotency.retention, limit).await }
    };
    keep_short("idempotency keys", prune, stop).await;
}
