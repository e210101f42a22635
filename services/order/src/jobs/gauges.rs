//! Figures that no single request knows.

use std::{sync::Arc, time::Duration};

use chrono::Utc;
use tokio_util::sync::CancellationToken;

use crate::{store::orders, workflow::Workflow};

const INTERVAL: Duration = Duration::from_secs(1);

pub async fn run(workflow: Arc<Workflow>, stop: CancellationToken) {
    let mut tick = tokio::time::interval(INTERVAL);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
        }
        match orders::pending(workflow.database.pool()).await {
            Ok((count, oldest)) => {
                metrics::gauge!("payment_pending").set(count as f64);
                let age = oldest.map_or(0, |since| (Utc::now() - since).num_milliseconds().max(0));
                metrics::gauge!("payment_pending_oldest_age_seconds").set(age as f64 / 1_000.0);
            }
            Err(error) => tracing::debug!(%error, "pending payments are not counted"),
        }
    }
}
