//! Attempts and their history. Rows are never deleted, so an id that was seen once is known for good.

use chrono::{DateTime, Utc};
use contracts::{AttemptId, Money, provider::idempotency_key};
use durable::{StorageError, outbox};
use sqlx::PgConnection;

pub use super::attempt_row::NextQuestion;
use super::{
    attempt_row::Row,
    charges::{self, FoundBy, ProvenCharge, Role},
};
use crate::domain::attempt::{Announcement, Attempt, Event, Transition};

/// How an event of an attempt came about, beside the event itself.
#[derive(Debug, Clone)]
pub struct Source {
    pub found_by: FoundBy,
    /// Of whatever brought it; where nothing did, the attempt's own counts.
    pub traceparent: Option<String>,
    /// How much was charged, where whoever proves a charge says so.
    pub amount: Option<Money>,
}

impl Source {
    #[must_use]
    pub const fn of(found_by: FoundBy, traceparent: Option<String>) -> Self {
        Self { found_by, traceparent, amount: None }
    }
}

/// The attempt, if it was ever heard of.
pub async fn load(conn: &mut PgConnection, id: AttemptId) -> Result<Option<Attempt>, StorageError> {
    let row: Option<Row> =
        sqlx::query_as("select * from attempts where id = $1").bind(id.as_uuid()).fetch_optional(conn).await?;
    Ok(row.map(Attempt::try_from).transpose()?)
}

/// [`load`], and nobody changes it until the transaction ends.
pub async fn lock(conn: &mut PgConnection, id: AttemptId) -> Result<Option<Attempt>, StorageError> {
    Ok(lock_with_question(conn, id).await?.map(|(attempt, _)| attempt))
}

/// [`load`], and which message asks about it next.
pub async fn load_with_question(
    conn: &mut PgConnection,
    id: AttemptId,
) -> Result<Option<(Attempt, Option<NextQuestion>)>, StorageError> {
    let row: Option<Row> =
        sqlx::query_as("select * from attempts where id = $1").bind(id.as_uuid()).fetch_optional(conn).await?;
    row.map(Row::with_question).transpose()
}

/// [`load_with_question`], and nobody changes it until the transaction ends.
pub async fn lock_with_question(
    conn: &mut PgConnection,
    id: AttemptId,
) -> Result<Option<(Attempt, Option<NextQuestion>)>, StorageError> {
    let row: Option<Row> = sqlx::query_as("select * from attempts where id = $1 for update")
        .bind(id.as_uuid())
        .fetch_optional(conn)
        .await?;
    row.map(Row::with_question).transpose()
}

/// Makes the row of an attempt that is new, with its first line of history. False: there is one already, and nothing
/// was written. Of several that try at once, one is told true; the others wait for it to commit.
pub async fn insert(conn: &mut PgConnection, attempt: &Attempt, event: &Event) -> Result<bool, StorageError> {
    let content = attempt.content.as_ref();
    let inserted = sqlx::query(
        "with made as (
             insert into attempts (id, order_id, amount_minor, currency, payment_method, state, channel, dispatch_no,
                                   version, created_at, updated_at, last_may_have_left_at, primary_intent_at,
                                   backup_intent_at, not_dispatched_reason, deferred_at, traceparent)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $15, $16, $17, $18, $19)
             on conflict on constraint attempts_pkey do nothing
             returning id, version, state, updated_at)
         insert into attempt_history (attempt_id, version, to_state, event, detail, at)
         select id, version, state, $13, $14, updated_at from made",
    )
    .bind(attempt.id.as_uuid())
    .bind(content.map(|content| content.order_id.as_uuid()))
    .bind(content.map(|content| content.amount_minor))
    .bind(content.map(|content| content.currency.to_string()))
    .bind(content.map(|content| content.payment_method.as_str()))
    .bind(attempt.state.as_str())
    .bind(attempt.channel.map(|channel| channel.as_str()))
    .bind(attempt.dispatch_no)
    .bind(attempt.version)
    .bind(attempt.created_at)
    .bind(attempt.updated_at)
    .bind(attempt.last_may_have_left_at)
    .bind(event.name())
    .bind(event.detail())
    .bind(attempt.intents.primary)
    .bind(attempt.intents.backup)
    .bind(attempt.not_dispatched_reason.map(|reason| reason.as_str()))
    .bind(attempt.deferred_at)
    .bind(&attempt.traceparent)
    .execute(conn)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

/// Saves a transition of an attempt as it was `read`: the row, its history, its charge if it is proved, and the message
/// that goes with it. False: the row is no longer what was read, and nothing was written.
pub async fn apply(
    conn: &mut PgConnection,
    read: &Attempt,
    event: &Event,
    transition: &Transition,
    source: &Source,
) -> Result<bool, StorageError> {
    let next = &transition.next;
    let updated = sqlx::query(
        "with moved as (
             update attempts
                set state = $4, channel = $5, dispatch_no = $6, provider_ref = $7, decline_code = $8,
                    not_dispatched_reason = $9, version = $10, updated_at = $11, last_may_have_left_at = $12,
                    primary_intent_at = $16, backup_intent_at = $17, deferred_at = $18,
                    contradicted_at = case when $2 in ('fenced', 'declined') then $11 else contradicted_at end
              where id = $1 and state = $2 and dispatch_no = $3 and version = $15
             returning id, version, state, updated_at)
         insert into attempt_history (attempt_id, version, from_state, to_state, event, detail, at)
         select id, version, $2, state, $13, $14, updated_at from moved",
    )
    .bind(next.id.as_uuid())
    .bind(read.state.as_str())
    .bind(read.dispatch_no)
    .bind(next.state.as_str())
    .bind(next.channel.map(|channel| channel.as_str()))
    .bind(next.dispatch_no)
    .bind(next.provider_ref.as_deref())
    .bind(next.decline_code.as_deref())
    .bind(next.not_dispatched_reason.map(|reason| reason.as_str()))
    .bind(next.version)
    .bind(next.updated_at)
    .bind(next.last_may_have_left_at)
    .bind(event.name())
    .bind(event.detail())
    .bind(read.version)
    .bind(next.intents.primary)
    .bind(next.intents.backup)
    .bind(next.deferred_at)
    .execute(&mut *conn)
    .await?;
    if updated.rows_affected() == 0 {
        return Ok(false);
    }
    if let Some(announcement) = &transition.announcement {
        if let Announcement::Approved(approved) = announcement {
            let charge = ProvenCharge {
                channel: approved.channel,
                provider_ref: approved.provider_ref.clone(),
                key: idempotency_key(approved.attempt_id),
                attempt_id: Some(approved.attempt_id),
                amount_minor: approved.amount_minor,
                currency: approved.currency,
                found_by: source.found_by,
            };
            if !charges::insert(conn, &charge, Role::Settling).await? {
                tracing::error!(attempt_id = %next.id, "the provider gave one reference to two charges");
            }
        }
        announce(conn, next, announcement, source.traceparent.clone(), next.updated_at).await?;
    }
    Ok(true)
}

/// Puts the message of a transition, or once more that of a settlement, into the outbox; in the attempt's trace, unless
/// `traceparent` names a nearer one.
pub async fn announce(
    conn: &mut PgConnection,
    attempt: &Attempt,
    announcement: &Announcement,
    traceparent: Option<String>,
    now: DateTime<Utc>,
) -> Result<(), StorageError> {
    let version = attempt.version;
    let traceparent = traceparent.or_else(|| attempt.traceparent.clone());
    match announcement {
        Announcement::Approved(data) => outbox::enqueue_data(conn, data, version, traceparent, now).await?,
        Announcement::Declined(data) => outbox::enqueue_data(conn, data, version, traceparent, now).await?,
        Announcement::Fenced(data) => outbox::enqueue_data(conn, data, version, traceparent, now).await?,
        Announcement::Review(data) => outbox::enqueue_data(conn, data, version, traceparent, now).await?,
        Announcement::Reconcile(data) => {
            let event = outbox::enqueue_data(conn, data, version, traceparent, now).await?;
            refer(conn, attempt.id, NextQuestion { event, tier: 0, due: now }).await?;
            event
        }
    };
    Ok(())
}

/// Notes which message asks about the attempt next.
pub async fn refer(conn: &mut PgConnection, id: AttemptId, next: NextQuestion) -> Result<(), StorageError> {
    sqlx::query("update attempts set reconcile_event = $2, reconcile_tier = $3, reconcile_due_at = $4 where id = $1")
        .bind(id.as_uuid())
        .bind(next.event.as_uuid())
        .bind(i16::try_from(next.tier).unwrap_or(i16::MAX))
        .bind(next.due)
        .execute(conn)
        .await?;
    Ok(())
}
