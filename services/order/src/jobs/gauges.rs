//! Figures that no single request knows.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use chrono::Utc;
use contracts::order::OrderStatus;
use tokio_util::sync::CancellationToken;

use crate::{
    store::{
        orders, refunds,
        walks::{self, Backlog},
    },
    workflow::Workflow,
};

const INTERVAL: Duration = Duration::from_secs(1);

pub async fn run(workflow: Arc<Workflow>, stop: CancellationToken) {
    let mut tick = tokio::time::interval(INTERVAL);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
        }
        if let Err(error) = measure(&workflow).await {
            tracing::debug!(%error, "what waits is not counted");
        }
    }
}

async fn measure(workflow: &Workflow) -> sqlx::Result<()> {
    let pool = workflow.database.pool();
    let open: BTreeMap<String, i64> = orders::open(pool).await?.into_iter().collect();
    for status in OrderStatus::ALL.into_iter().filter(|status| !status.is_final()) {
        let here = open.get(status.as_str()).copied().unwrap_or_default();
        metrics::gauge!("orders_open", "status" => status.as_str()).set(here as f64);
    }
    let (count, age) = count_and_age(walks::pending(pool).await?);
    metrics::gauge!("payment_pending").set(count);
    metrics::gauge!("payment_pending_oldest_age_seconds").set(age);
    let (count, age) = count_and_age(refunds::due(pool).await?);
    metrics::gauge!("refunds_due").set(count);
    metrics::gauge!("refunds_due_oldest_age_seconds").set(age);
    let (count, age) = count_and_age(walks::unacknowledged(pool).await?);
    metrics::gauge!("orders_unacknowledged").set(count);
    metrics::gauge!("orders_unacknowledged_oldest_age_seconds").set(age);
    let (count, _) = count_and_age(walks::compensations(pool).await?);
    metrics::gauge!("compensation_backlog", "state" => "requested").set(count);
    Ok(())
}

fn count_and_age((count, oldest): Backlog) -> (f64, f64) {
    let age = oldest.map_or(0, |since| (Utc::now() - since).num_milliseconds().max(0));
    (count as f64, age as f64 / 1_000.0)
}
