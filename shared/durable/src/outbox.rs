//! The outbox: an event leaves exactly when the change that it tells of is committed.
//!
//! Problem: a change in the database and a message to a broker cannot be one act. Sending first tells of changes that
//! are rolled back; sending after the commit loses the message when the process dies between the two.
//!
//! Rule: the event is a row in the transaction of the change ([`enqueue`]). A relay publishes rows later, in id
//! order, and marks each on the broker's delivery report. It asks for `published_at is null` and never for "greater
//! than the last id", since transactions that commit late make smaller ids appear. It marks and prunes by the ids
//! that it read, so that a row it never saw is never touched. Whoever commits calls [`Outbox::wake`], in the process:
//! a NOTIFY in every transaction would queue all commits on one lock of the server.
//!
//! Not for messages that may be lost: they cost two writes each.
//!
//! When copying: the table is in `migrations/durable`; published rows stay for [`RETENTION`], so that a broker that
//! lost its data can be told again, and every consumer needs an inbox.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use contracts::{Event, EventId, event::EventData, topic::Topic};
use sqlx::{PgConnection, PgPool};
use tokio::sync::Notify;

use crate::lease::{Lease, interval};

/// How long published rows are kept.
pub const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// Writes `event` into the caller's transaction. The key of the message is the event's subject.
pub async fn enqueue(conn: &mut PgConnection, topic: Topic, event: &Event) -> sqlx::Result<()> {
    let payload = serde_json::to_string(event).map_err(|e| sqlx::Error::Encode(e.into()))?;
    sqlx::query("insert into outbox (event_id, topic, key, payload, traceparent) values ($1, $2, $3, $4, $5)")
        .bind(event.id())
        .bind(topic.name)
        .bind(event.subject.to_string())
        .bind(payload)
        .bind(event.traceparent.as_deref())
        .execute(conn)
        .await
        .map(drop)
}

/// Wraps `data` in an envelope and writes it to the topic that its type belongs to.
pub async fn enqueue_data<D: EventData>(
    conn: &mut PgConnection,
    data: &D,
    version: i64,
    traceparent: Option<String>,
    now: DateTime<Utc>,
) -> sqlx::Result<EventId> {
    let event = Event::new(data, version, traceparent, now).map_err(|e| sqlx::Error::Encode(e.into()))?;
    enqueue(conn, D::TOPIC, &event).await?;
    Ok(event.id)
}

/// The outbox of one database, shared between those who fill it and the relay that empties it.
#[derive(Debug, Clone)]
pub struct Outbox {
    pool: PgPool,
    filled: Arc<Notify>,
}

/// A row that waits to be published.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct OutboxRow {
    pub id: i64,
    pub topic: String,
    pub key: String,
    pub payload: String,
    pub traceparent: Option<String>,
}

/// What waits to be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    pub count: i64,
    /// Zero when nothing waits.
    pub oldest_age: Duration,
}

impl Outbox {
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self { pool, filled: Arc::new(Notify::new()) }
    }

    /// Tells the relay in this process that rows were committed. Forgetting it costs the relay's poll interval; calling
    /// it before the commit is in vain.
    pub fn wake(&self) {
        self.filled.notify_one();
    }

    /// Ends at the next [`Outbox::wake`], or at once if there was one since the last time.
    pub async fn filled(&self) {
        self.filled.notified().await;
    }

    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    pub async fn backlog(&self) -> sqlx::Result<Backlog> {
        let (count, age): (i64, f64) = sqlx::query_as(
            "select count(*), coalesce(extract(epoch from clock_timestamp() - min(created_at)), 0)::float8
               from outbox where published_at is null",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(Backlog { count, oldest_age: Duration::try_from_secs_f64(age).unwrap_or_default() })
    }

    /// The oldest rows that wait, but for those of the keys that are `held` back.
    pub async fn unpublished(&self, held: &[String], limit: i64) -> sqlx::Result<Vec<OutboxRow>> {
        sqlx::query_as(
            "select id, topic, key, payload, traceparent from outbox
              where published_at is null and key <> all($1) order by id limit $2",
        )
        .bind(held)
        .bind(limit)
        .fetch_all(&self.pool)
        .await
    }

    /// Marks the rows that the broker reported as delivered. False: the lease is lost and nothing was marked. Then
    /// somebody else publishes them again, which is harmless; a mark could hide rows from a broker that never had them.
    pub async fn mark_published(&self, lease: &Lease, ids: &[i64]) -> sqlx::Result<bool> {
        let (held,): (bool,) = sqlx::query_as(
            "with held as (
                 select 1 from leases where name = $1 and token = $2 and expires_at > clock_timestamp() for share),
             marked as (
                 update outbox set published_at = clock_timestamp()
                  where id = any($3) and published_at is null and exists (select 1 from held))
             select exists (select 1 from held)",
        )
        .bind(lease.name())
        .bind(lease.token())
        .bind(ids)
        .fetch_one(&self.pool)
        .await?;
        Ok(held)
    }

    /// Remembers which broker the rows go to from now on. If it is another one than the last, all retained rows are
    /// unpublished first: it has none of them. Returns how many those are, or `None` when the lease is lost.
    pub async fn move_to_broker(&self, lease: &Lease, broker: &str) -> sqlx::Result<Option<u64>> {
        let last: Option<(String,)> =
            sqlx::query_as("select broker from outbox_broker").fetch_optional(&self.pool).await?;
        let mut unpublished = 0;
        // In pieces, so that no statement outlives its timeout. A crash half-way leaves the old name, and it all starts
        // again; nobody publishes in between, since that takes the lease.
        while last.as_ref().is_some_and(|(name,)| name != broker) {
            let piece = sqlx::query(
                "with held as (
                     select 1 from leases where name = $1 and token = $2 and expires_at > clock_timestamp() for share)
                 update outbox set published_at = null
                  where id in (select id from outbox where published_at is not null order by published_at limit 5000)
                    and exists (select 1 from held)",
            )
            .bind(lease.name())
            .bind(lease.token())
            .execute(&self.pool)
            .await?
            .rows_affected();
            if piece == 0 {
                break;
            }
            unpublished += piece;
        }
        let remembered = sqlx::query(
            "with held as (
                 select 1 from leases where name = $1 and token = $2 and expires_at > clock_timestamp() for share)
             insert into outbox_broker (broker) select $3 where exists (select 1 from held)
             on conflict on constraint outbox_broker_pkey do update set broker = excluded.broker, seen_at = now()",
        )
        .bind(lease.name())
        .bind(lease.token())
        .bind(broker)
        .execute(&self.pool)
        .await?;
        Ok((remembered.rows_affected() == 1).then_some(unpublished))
    }

    /// Deletes at most `limit` published rows older than `retention`, by the ids that were read, and says how many.
    pub async fn prune(&self, retention: Duration, limit: i64) -> sqlx::Result<u64> {
        let deleted = sqlx::query(
            "delete from outbox
              where published_at is not null
                and id = any(array(
                    select id from outbox where published_at < now() - $1 order by published_at limit $2))",
        )
        .bind(interval(retention))
        .bind(limit)
        .execute(&self.pool)
        .await?;
        Ok(deleted.rows_affected())
    }
}
