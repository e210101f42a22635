//! Gauges that nobody's request would keep up to date.

use std::time::Duration;

use durable::Database;
use resilience::Deadline;
use tokio_util::sync::CancellationToken;

use crate::{Error, store::reservations};

/// About as often as metrics are read.
const EVERY: Duration = Duration::from_secs(5);
const LIMIT: Duration = Duration::from_secs(1);

/// A hold is let go only by order; one that grows old says that order does not, or that its events do not arrive.
pub async fn gauges(database: Database, stop: CancellationToken) {
    loop {
        match oldest_hold_age(&database).await {
            Ok(age) => metrics::gauge!("inventory_oldest_hold_age_seconds").set(age),
            Err(error) => tracing::warn!(%error, "the age of the oldest hold is not known"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

async fn oldest_hold_age(database: &Database) -> Result<f64, Error> {
    let mut tx = database.begin(Deadline::after(LIMIT)).await?;
    reservations::oldest_hold_age(&mut tx).await
}
