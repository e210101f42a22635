//! Forgets instances that are gone.

use std::time::Duration;

use durable::Database;
use resilience::Deadline;
use tokio_util::sync::CancellationToken;

use crate::{Error, store::instances};

const EVERY: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(5);

pub async fn run(database: Database, stop: CancellationToken) {
    let mut tick = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
        }
        match forget(&database).await {
            Ok(0) => {}
            Ok(gone) => tracing::info!(gone, "instances that were not heard of for a day are forgotten"),
            Err(error) => tracing::warn!(%error, "instances that are gone cannot be forgotten"),
        }
    }
}

async fn forget(database: &Database) -> Result<u64, Error> {
    let mut tx = database.begin(Deadline::after(PATIENCE)).await?;
    let gone = instances::forget_gone(&mut tx).await?;
    tx.commit().await?;
    Ok(gone)
}
