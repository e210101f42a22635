//! How many payments and refunds are open, how old the oldest is, and which of them wait for a person, who is told.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use chassis::signals::Signals;
use serde_json::{Value, json};
use sqlx::PgPool;
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
    /// Measures until `stop`, and tells `signals` once of whatever waits for a person; again after a restart, since a
    /// second word is better than none.
    pub async fn keep_measured(self, payments: &Payments, signals: Signals, stop: CancellationToken) {
        let pool = payments.database().pool();
        let mut told = BTreeSet::new();
        loop {
            match look(pool).await {
                Ok((now, waiting)) => {
                    gauge(&now);
                    for attempt in waiting.attempts.iter().filter(|id| !told.contains(*id)) {
                        signals.alert("payment_review", &json!({ "attempt_id": attempt }));
                    }
                    for refund in waiting.refunds.iter().filter(|id| !told.contains(*id)) {
                        signals.alert("refund_review", &json!({ "refund_id": refund }));
                    }
                    told = waiting.attempts.iter().chain(&waiting.refunds).copied().collect();
                    *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (now, waiting.attempts);
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

/// What waits for a person, oldest first.
#[derive(Default)]
struct Waiting {
    attempts: Vec<Uuid>,
    refunds: Vec<Uuid>,
}

async fn look(pool: &PgPool) -> sqlx::Result<(open::Backlog, Waiting)> {
    let now = open::backlog(pool).await?;
    let mut waiting = Waiting::default();
    if now.reviews > 0 {
        waiting.attempts = open::reviews(pool, SHOWN).await?;
    }
    if now.refund_reviews > 0 {
        waiting.refunds = open::refund_reviews(pool, SHOWN).await?;
    }
    Ok((now, waiting))
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
