//! Attempts and their history. Rows are never deleted, so an id that was seen once is known for good.

use chrono::{DateTime, Utc};
use contracts::{AttemptId, EventId, OrderId, payment::Charge, provider::idempotency_key};
use durable::{StorageError, outbox};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{
    charges::{self, FoundBy, ProvenCharge, Role},
    variant,
};
use crate::domain::attempt::{Announcement, Attempt, Event, Intents, Transition};

#[derive(sqlx::FromRow)]
pub(super) struct Row {
    id: Uuid,
    order_id: Option<Uuid>,
    amount_minor: Option<i64>,
    currency: Option<String>,
    payment_method: Option<String>,
    state: String,
    channel: Option<String>,
    dispatch_no: i32,
    primary_intent_at: Option<DateTime<Utc>>,
    backup_intent_at: Option<DateTime<Utc>>,
    provider_ref: Option<String>,
    decline_code: Option<String>,
    not_dispatched_reason: Option<String>,
    deferred_at: Option<DateTime<Utc>>,
    version: i64,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    last_may_have_left_at: Option<DateTime<Utc>>,
}

/// How an event of an attempt came about, beside the event itself.
#[derive(Debug, Clone)]
pub struct Source {
    pub found_by: FoundBy,
    pub traceparent: Option<String>,
}

/// The message that asks the provider about an attempt next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextQuestion {
    pub event: EventId,
    pub tier: usize,
    pub due: DateTime<Utc>,
}

/// The attempt, if it was ever heard of.
pub async fn load(conn: &mut PgConnection, id: AttemptId) -> Result<Option<Attempt>, StorageError> {
    let row: Option<Row> =
        sqlx::query_as("select * from attempts where id = $1").bind(id.as_uuid()).fetch_optional(conn).await?;
    Ok(row.map(Attempt::try_from).transpose()?)
}

/// Makes the row of an attempt that is new, with its first line of history. False: there is one already, and nothing
/// was written. Of several that try at once, one is told true; the others wait for it to commit.
pub async fn insert(conn: &mut PgConnection, attempt: &Attempt, event: &Event) -> Result<bool, StorageError> {
    let content = attempt.content.as_ref();
    let inserted = sqlx::query(
        "with made as (
             insert into attempts (id, order_id, amount_minor, currency, payment_method, state, channel, dispatch_no,
                                   version, created_at, updated_at, last_may_have_left_at, primary_intent_at,
                                   backup_intent_at, not_dispatched_reason, deferred_at)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $15, $16, $17, $18)
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
                    primary_intent_at = $16, backup_intent_at = $17, deferred_at = $18
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
            charges::insert(conn, &charge, Role::Settling).await?;
        }
        announce(conn, next, announcement, source.traceparent.clone(), next.updated_at).await?;
    }
    Ok(true)
}

/// Puts the message of a transition, or once more that of a settlement, into the outbox.
pub async fn announce(
    conn: &mut PgConnection,
    attempt: &Attempt,
    announcement: &Announcement,
    traceparent: Option<String>,
    now: DateTime<Utc>,
) -> Result<(), StorageError> {
    let version = attempt.version;
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

impl TryFrom<Row> for Attempt {
    type Error = sqlx::Error;

    fn try_from(row: Row) -> Result<Self, sqlx::Error> {
        let content = match (row.order_id, row.amount_minor, row.currency, row.payment_method) {
            (Some(order), Some(amount_minor), Some(currency), Some(payment_method)) => Some(Charge {
                order_id: OrderId::from_uuid(order),
                amount_minor,
                currency: currency.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))?,
                payment_method,
            }),
            _ => None,
        };
        Ok(Self {
            id: AttemptId::from_uuid(row.id),
            content,
            state: variant(&row.state)?,
            channel: row.channel.as_deref().map(variant).transpose()?,
            dispatch_no: row.dispatch_no,
            intents: Intents { primary: row.primary_intent_at, backup: row.backup_intent_at },
            provider_ref: row.provider_ref,
            decline_code: row.decline_code,
            not_dispatched_reason: row.not_dispatched_reason.as_deref().map(variant).transpose()?,
            deferred_at: row.deferred_at,
            version: row.version,
            created_at: row.created_at,
            updated_at: row.updated_at,
            last_may_have_left_at: row.last_may_have_left_at,
        })
    }
}
