//! Refunds: whoever is owed money has a row here until it is back.

use std::time::Duration;

use chrono::{DateTime, Utc};
use contracts::{AttemptId, OrderId, RefundId, payment::RefundState};
use durable::{StorageError, outbox};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{charges::ProvenCharge, variant};
use crate::domain::refund::{Asker, Refund, Transition};

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    channel: String,
    provider_ref: String,
    amount_minor: i64,
    currency: String,
    reason: String,
    order_id: Option<Uuid>,
    attempt_id: Option<Uuid>,
    state: String,
    sends: i32,
    provider_refund_ref: Option<String>,
    traceparent: Option<String>,
    version: i64,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

/// False: there is one with this id.
pub async fn insert(conn: &mut PgConnection, refund: &Refund) -> Result<bool, StorageError> {
    let inserted = sqlx::query(
        "insert into refunds (id, channel, provider_ref, amount_minor, currency, reason, order_id, attempt_id, state,
                              version, created_at, updated_at, traceparent)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11, $12)
         on conflict on constraint refunds_pkey do nothing",
    )
    .bind(refund.id.as_uuid())
    .bind(refund.channel.as_str())
    .bind(&refund.provider_ref)
    .bind(refund.amount_minor)
    .bind(refund.currency.to_string())
    .bind(&refund.reason)
    .bind(refund.asked_by.map(|asker| asker.order_id.as_uuid()))
    .bind(refund.asked_by.map(|asker| asker.attempt_id.as_uuid()))
    .bind(refund.state.as_str())
    .bind(refund.version)
    .bind(refund.created_at)
    .bind(&refund.traceparent)
    .execute(conn)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

/// The whole of a charge that settles nothing goes back.
pub async fn insert_extra(
    conn: &mut PgConnection,
    id: RefundId,
    charge: &ProvenCharge,
    reason: &str,
    traceparent: Option<String>,
    now: DateTime<Utc>,
) -> Result<bool, StorageError> {
    let refund = Refund {
        id,
        channel: charge.channel,
        provider_ref: charge.provider_ref.clone(),
        amount_minor: charge.amount_minor,
        currency: charge.currency,
        reason: reason.to_owned(),
        asked_by: None,
        state: RefundState::Requested,
        sends: 0,
        provider_refund_ref: None,
        traceparent,
        version: 1,
        created_at: now,
        updated_at: now,
    };
    insert(conn, &refund).await
}

pub async fn load(conn: &mut PgConnection, id: RefundId) -> Result<Option<Refund>, StorageError> {
    let row: Option<Row> =
        sqlx::query_as("select * from refunds where id = $1").bind(id.as_uuid()).fetch_optional(conn).await?;
    Ok(row.map(Refund::try_from).transpose()?)
}

/// What is promised already of the charge that settled an attempt, other than by `but`. The caller holds the attempt's
/// row, so that no two promises are made at once.
pub async fn promised_minor(conn: &mut PgConnection, attempt: AttemptId, but: RefundId) -> Result<i64, StorageError> {
    let sum: i64 = sqlx::query_scalar(
        "select coalesce(sum(amount_minor), 0)::bigint from refunds where attempt_id = $1 and id <> $2",
    )
    .bind(attempt.as_uuid())
    .bind(but.as_uuid())
    .fetch_one(conn)
    .await?;
    Ok(sum)
}

/// Takes up to `limit` refunds that are due, for `lease`: nobody else sends them meanwhile.
pub async fn claim_due(conn: &mut PgConnection, limit: i64, lease: Duration) -> Result<Vec<Refund>, StorageError> {
    let rows: Vec<Row> = sqlx::query_as(
        "update refunds set next_send_at = clock_timestamp() + make_interval(secs => $2)
          where id in (select id from refunds where state <> 'refunded' and next_send_at <= clock_timestamp()
                        order by next_send_at limit $1 for update skip locked)
          returning *",
    )
    .bind(limit)
    .bind(lease.as_secs_f64())
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(Refund::try_from).collect::<Result<_, _>>()?)
}

/// Saves a transition of a refund as it was `read`, with its event. False: it is no longer what was read.
pub async fn apply(conn: &mut PgConnection, read: &Refund, transition: &Transition) -> Result<bool, StorageError> {
    let next = &transition.next;
    let updated = sqlx::query(
        "update refunds set state = $3, sends = $4, provider_refund_ref = $5, version = $6, updated_at = $7
          where id = $1 and version = $2",
    )
    .bind(next.id.as_uuid())
    .bind(read.version)
    .bind(next.state.as_str())
    .bind(next.sends)
    .bind(next.provider_refund_ref.as_deref())
    .bind(next.version)
    .bind(next.updated_at)
    .execute(&mut *conn)
    .await?;
    if updated.rows_affected() == 0 {
        return Ok(false);
    }
    if let Some(refunded) = &transition.announcement {
        outbox::enqueue_data(conn, refunded, next.version, next.traceparent.clone(), next.updated_at).await?;
    }
    Ok(true)
}

/// The event of a refund that was made, once more.
pub async fn announce(
    conn: &mut PgConnection,
    refund: &Refund,
    traceparent: Option<String>,
    now: DateTime<Utc>,
) -> Result<(), StorageError> {
    if let Some(refunded) = refund.settlement() {
        outbox::enqueue_data(conn, &refunded, refund.version, traceparent, now).await?;
    }
    Ok(())
}

/// It is sent next after `wait`.
pub async fn due_in(conn: &mut PgConnection, id: RefundId, wait: Duration) -> Result<(), StorageError> {
    sqlx::query("update refunds set next_send_at = clock_timestamp() + make_interval(secs => $2) where id = $1")
        .bind(id.as_uuid())
        .bind(wait.as_secs_f64())
        .execute(conn)
        .await?;
    Ok(())
}

impl TryFrom<Row> for Refund {
    type Error = sqlx::Error;

    fn try_from(row: Row) -> Result<Self, sqlx::Error> {
        let asked_by = row.order_id.zip(row.attempt_id).map(|(order, attempt)| Asker {
            order_id: OrderId::from_uuid(order),
            attempt_id: AttemptId::from_uuid(attempt),
        });
        Ok(Self {
            id: RefundId::from_uuid(row.id),
            channel: variant(&row.channel)?,
            provider_ref: row.provider_ref,
            amount_minor: row.amount_minor,
            currency: row.currency.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))?,
            reason: row.reason,
            asked_by,
            state: variant(&row.state)?,
            sends: row.sends,
            provider_refund_ref: row.provider_refund_ref,
            traceparent: row.traceparent,
            version: row.version,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}
