//! The inbox: an event that is delivered twice takes effect once.
//!
//! Problem: Kafka delivers at least once. A rebalance, a crash between the effect and the offset, a relay that
//! published twice and a fresh broker that is told everything again all show as a repeated event.
//!
//! Rule: the consumer inserts (its name, the event's id) in the transaction of the effect. If the row was there, the
//! event took effect before and the transaction has nothing to do. Both commit together or neither does.
//!
//! Not for effects outside the database: those need an idempotency key of their own.
//!
//! When copying: keep rows at least as long as the slowest path by which an event can come again, which here is the
//! outbox' retention.

use std::time::Duration;

use contracts::EventId;
use sqlx::{PgConnection, PgPool};
use tokio_util::sync::CancellationToken;

use crate::{lease::interval, pruning::keep_short};

/// How long rows are kept: the outbox' retention and a day for what a broker still holds of it.
pub const RETENTION: Duration = crate::outbox::RETENTION.saturating_add(Duration::from_secs(24 * 60 * 60));

/// True for the first delivery of `event` to `consumer`; false: it took effect before, and the caller does nothing.
/// Call it first in the transaction of the effect. A second delivery that overlaps the first waits here for its end.
pub async fn first_delivery(conn: &mut PgConnection, consumer: &str, event: EventId) -> sqlx::Result<bool> {
    let inserted = sqlx::query(
        "insert into inbox (consumer, event_id) values ($1, $2) on conflict on constraint inbox_pkey do nothing",
    )
    .bind(consumer)
    .bind(event.as_uuid())
    .execute(conn)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

/// Deletes at most `limit` rows older than `retention`, and says how many. A retention below [`RETENTION`] would let
/// a replayed event take effect again.
pub async fn prune(pool: &PgPool, retention: Duration, limit: i64) -> sqlx::Result<u64> {
    let deleted = sqlx::query(
        "delete from inbox where (consumer, event_id) in (
             select consumer, event_id from inbox where received_at < now() - $1 order by received_at limit $2)",
    )
    .bind(interval(retention))
    .bind(limit)
    .execute(pool)
    .await?;
    Ok(deleted.rows_affected())
}

/// A job for every service that consumes. `retention` is asked in each round.
pub async fn keep_pruned(pool: PgPool, retention: impl Fn() -> Duration, stop: CancellationToken) {
    let round = |limit| {
        let (pool, retention) = (pool.clone(), retention());
        async move { prune(&pool, retention, limit).await }
    };
    keep_short("the inbox", round, stop).await;
}
