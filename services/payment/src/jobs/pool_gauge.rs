//! Shows how much of the database pool is in use.

use std::time::Duration;

use durable::Database;
use tokio_util::sync::CancellationToken;

/// Finer than any scrape.
const INTERVAL: Duration = Duration::from_secs(1);

pub async fn run(database: Database, stop: CancellationToken) {
    loop {
        let (open, idle) = database.connections();
        let in_use = (open as usize).saturating_sub(idle);
        metrics::gauge!("db_pool_connections", "state" => "in_use").set(in_use as f64);
        metrics::gauge!("db_pool_connections", "state" => "idle").set(idle as f64);
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}
