//! How many promised discounts are open, and which of them wait for a person.

use std::{sync::Arc, time::Duration};

use durable::Database;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::store::compensations;

/// Finer than metrics are read.
const EVERY: Duration = Duration::from_secs(2);
/// Of the manual list, as many as anybody reads; the number of all is beside them.
const SHOWN: i64 = 100;

/// The backlog as it was a moment ago; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Backlog(Arc<std::sync::Mutex<compensations::Backlog>>);

impl Backlog {
    /// Measures until `stop`.
    pub async fn keep_measured(self, database: Database, stop: CancellationToken) {
        loop {
            match compensations::backlog(database.pool(), SHOWN).await {
                Ok(backlog) => {
                    metrics::gauge!("compensation_backlog", "state" => "waiting").set(backlog.waiting as f64);
                    metrics::gauge!("compensation_backlog", "state" => "manual").set(backlog.manual as f64);
                    *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = backlog;
                }
                Err(error) => tracing::warn!(%error, "open compensations cannot be counted"),
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }

    /// For `/internal/state`.
    #[must_use]
    pub fn shown(&self) -> Value {
        let backlog = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        json!({"waiting": backlog.waiting, "manual": backlog.manual, "manual_list": backlog.oldest})
    }
}
