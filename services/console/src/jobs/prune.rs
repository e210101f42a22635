//! Forgets sessions that are over, and names that nobody has tried for a while.

use std::{sync::Arc, time::Duration};

use durable::Database;
use resilience::{Deadline, rate_limit::PerKey};
use tokio_util::sync::CancellationToken;

use crate::{Error, store::sessions};

const EVERY: Duration = Duration::from_secs(60);
const BUDGET: Duration = Duration::from_secs(5);

pub async fn run(database: Database, attempts: Arc<PerKey<String>>, stop: CancellationToken) {
    loop {
        attempts.evict_idle();
        let pruning = async {
            let mut tx = database.begin(Deadline::after(BUDGET)).await?;
            let over = sessions::prune(&mut tx).await?;
            tx.commit().await?;
            Ok::<_, Error>(over)
        };
        if let Err(error) = pruning.await {
            tracing::debug!(%error, "sessions that are over were not removed");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}
