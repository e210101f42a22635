//! Gauges that nobody's request would keep up to date.

use std::time::Duration;

use durable::Database;
use tokio_util::sync::CancellationToken;

/// About as often as metrics are read.
const EVERY: Duration = Duration::from_secs(5);

pub async fn gauges(database: Database, stop: CancellationToken) {
    loop {
        let (connections, idle) = database.connections();
        let connections = usize::try_from(connections).unwrap_or(usize::MAX);
        metrics::gauge!("db_pool_connections", "state" => "idle").set(idle as f64);
        metrics::gauge!("db_pool_connections", "state" => "in_use").set(connections.saturating_sub(idle) as f64);
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}
