//! How many payments and refunds are open, how old the oldest is, and which of them wait for a person.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{store::open, workflow::Payments};

/// Finer than metrics are read.
const EVERY: Duration = Duration::from_secs(2);
/// Of the reviews, as many as anybody reads; the number of all is beside them.
const SHOWN: i64 = 100;

/// The backlog as it was a moment ago; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Backlog(Arc<Mutex<(open::Backlog, Vec<Uuid>)>>);

impl Backlog {
    /// Measures until `stop`.
    pub async fn keep_measured(self, payments: &Payments, stop: CancellationToken) {
        let pool = payments.database().pool();
        loop {
            match open::backlog(pool).await {
                Ok(now) => {
                    gauge(&now);
                    let reviews =
                        if now.reviews > 0 { open::reviews(pool, SHOWN).await.unwrap_or_default() } else { Vec::new() };
                    *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (now, reviews);
                }
                Err(error) => tracing::warn!(%error, "open payments cannot be counted"),
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
        let (now, reviews) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner);
        json!({
            "pending": now.pending,
            "pending_oldest_seconds": now.pending_oldest_seconds,
            "deferred": now.deferred,
            "refunds": now.refunds,
            "refund_reviews": now.refund_reviews,
            "webhooks": now.webhooks,
            "reviews": {"count": now.reviews, "oldest": reviews},
        })
    }
}

fn gauge(now: &open::Backlog) {
    metrics::gauge!("payment_pending").set(now.pending as f64);
    metrics::gauge!("payment_pending_oldest_age_seconds").set(now.pending_oldest_seconds);
    metrics::gauge!("payment_reviews").set(now.reviews as f64);
    metrics::gauge!("payment_deferred").set(now.deferred as f64);
    metrics::gauge!("payment_refunds_open").set(now.refunds as f64);
    metrics::gauge!("payment_refunds_oldest_age_seconds").set(now.refunds_oldest_seconds);
    metrics::gauge!("payment_refund_reviews").set(now.refund_reviews as f64);
    metrics::gauge!("payment_webhooks_waiting").set(now.webhooks as f64);
}
