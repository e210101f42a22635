//! Forgets purchases that say nothing any more, and events that can no longer come again.

use std::time::Duration;

use durable::{Database, inbox};
use tokio_util::sync::CancellationToken;

use crate::store;

const EVERY: Duration = Duration::from_secs(60);
/// Deleted at once: one short transaction, however much there is.
const BATCH: u64 = 1_000;

pub async fn prune(database: Database, retention: Duration, stop: CancellationToken) {
    loop {
        let mut more = false;
        match inbox::prune(database.pool(), retention, BATCH.cast_signed()).await {
            Ok(deleted) => more |= deleted == BATCH,
            Err(error) => tracing::warn!(%error, "the inbox was not pruned"),
        }
        match store::prune::prune(database.pool(), BATCH.cast_signed()).await {
            Ok(deleted) => more |= deleted == BATCH,
            Err(error) => tracing::warn!(%error, "old purchases were not pruned"),
        }
        let pause = if more { Duration::ZERO } else { EVERY };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
