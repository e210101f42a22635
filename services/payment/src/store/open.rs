//! What stands still, waits, or is being asked after: looked up by the jobs. All of it is under one small partial index.

use std::time::Duration;

use chrono::{DateTime, Utc};
use contracts::{
    AttemptId, OrderId, RefundId,
    payment::{PaymentReview, RefundReview},
    trace::TraceContext,
};
use durable::StorageError;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::variant;

/// How long an attempt may stand in each state before somebody looks after it.
#[derive(Debug, Clone, Copy)]
pub struct Leases {
    pub dispatched: Duration,
    pub withheld: Duration,
    pub question: Duration,
}

/// Up to `limit` attempts that nobody is at any more, oldest first. Nothing is locked: whoever takes one up looks again.
pub async fn abandoned(conn: &mut PgConnection, leases: Leases, limit: i64) -> Result<Vec<AttemptId>, StorageError> {
    let ids: Vec<Uuid> = sqlx::query_scalar(
        "select id from attempts
          where (state = 'dispatched' or state = 'created' and deferred_at is null)
                and updated_at < clock_timestamp() - make_interval(secs => $1)
             or state = 'not_dispatched' and deferred_at is null
                and updated_at < clock_timestamp() - make_interval(secs => $2)
             or state in ('unknown', 'review')
                and coalesce(reconcile_due_at, updated_at) < clock_timestamp() - make_interval(secs => $3)
          order by updated_at limit $4",
    )
    .bind(leases.dispatched.as_secs_f64())
    .bind(leases.withheld.as_secs_f64())
    .bind(leases.question.as_secs_f64())
    .bind(limit)
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(AttemptId::from_uuid).collect())
}

/// Up to `limit` attempts whose charge order was last told of longer than `again` ago, after it had been told that there is
/// none; each is taken for this turn. Left out are those that came to it longer than `memory` ago.
pub async fn contradicted(
    conn: &mut PgConnection,
    again: Duration,
    memory: Duration,
    limit: i64,
) -> Result<Vec<AttemptId>, StorageError> {
    let ids: Vec<Uuid> = sqlx::query_scalar(
        "update attempts set contradicted_at = clock_timestamp()
          where id in (select id from attempts
                        where contradicted_at < clock_timestamp() - make_interval(secs => $1)
                          and updated_at > clock_timestamp() - make_interval(secs => $2)
                        order by contradicted_at limit $3 for update skip locked)
         returning id",
    )
    .bind(again.as_secs_f64())
    .bind(memory.as_secs_f64())
    .bind(limit)
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(AttemptId::from_uuid).collect())
}

/// Order acts upon the charge: it need not be told again.
pub async fn acknowledged(conn: &mut PgConnection, id: AttemptId) -> Result<(), StorageError> {
    sqlx::query("update attempts set contradicted_at = null where id = $1 and contradicted_at is not null")
        .bind(id.as_uuid())
        .execute(conn)
        .await?;
    Ok(())
}

/// Up to `limit` deferred charges that wait, those that were tried longest ago first, each with its trace.
pub async fn deferred(
    conn: &mut PgConnection,
    limit: i64,
) -> Result<Vec<(AttemptId, Option<TraceContext>)>, StorageError> {
    let waiting: Vec<(Uuid, Option<String>)> = sqlx::query_as(
        "select id, traceparent from attempts
          where state in ('created', 'not_dispatched') and deferred_at is not null
          order by updated_at limit $1",
    )
    .bind(limit)
    .fetch_all(conn)
    .await?;
    let trace = |traceparent: Option<String>| traceparent.and_then(|text| text.parse().ok());
    Ok(waiting.into_iter().map(|(id, traceparent)| (AttemptId::from_uuid(id), trace(traceparent))).collect())
}

/// What is open, for metrics and people.
#[derive(Debug, Clone, Default, PartialEq, sqlx::FromRow)]
pub struct Backlog {
    /// Attempts that may have been sent and are not settled.
    pub pending: i64,
    pub pending_oldest_seconds: f64,
    pub reviews: i64,
    pub deferred: i64,
    pub refunds: i64,
    pub refunds_oldest_seconds: f64,
    pub refund_reviews: i64,
    pub webhooks: i64,
}

pub async fn backlog(pool: &PgPool) -> sqlx::Result<Backlog> {
    sqlx::query_as(
        "select count(*) filter (where state in ('dispatched', 'unknown', 'review')) as pending,
                coalesce(extract(epoch from clock_timestamp() - min(created_at)
                    filter (where state in ('dispatched', 'unknown', 'review'))), 0)::float8 as pending_oldest_seconds,
                count(*) filter (where state = 'review') as reviews,
                count(*) filter (where state in ('created', 'not_dispatched') and deferred_at is not null) as deferred,
                (select count(*) from refunds where state <> 'refunded') as refunds,
                (select coalesce(extract(epoch from clock_timestamp() - min(created_at)), 0)::float8
                   from refunds where state <> 'refunded') as refunds_oldest_seconds,
                (select count(*) from refunds where state = 'review') as refund_reviews,
                (select count(*) from provider_events where processed_at is null) as webhooks
           from attempts where state in ('created', 'dispatched', 'unknown', 'not_dispatched', 'review')",
    )
    .fetch_one(pool)
    .await
}

/// The oldest attempts that wait for a person.
pub async fn reviews(pool: &PgPool, limit: i64) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar("select id from attempts where state = 'review' order by updated_at limit $1")
        .bind(limit)
        .fetch_all(pool)
        .await
}

/// The oldest refunds that wait for a person.
pub async fn refund_reviews(pool: &PgPool, limit: i64) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar("select id from refunds where state = 'review' order by updated_at limit $1")
        .bind(limit)
        .fetch_all(pool)
        .await
}

#[derive(sqlx::FromRow)]
struct ReviewRow {
    id: Uuid,
    order_id: Uuid,
    amount_minor: i64,
    currency: String,
    channel: Option<String>,
    updated_at: DateTime<Utc>,
    reconcile_due_at: Option<DateTime<Utc>>,
    event: String,
    detail: Option<String>,
}

/// Up to `limit` attempts that wait for a person, by age, from above `after`.
pub async fn in_review(
    conn: &mut PgConnection,
    after: Option<AttemptId>,
    limit: i64,
) -> Result<Vec<PaymentReview>, StorageError> {
    // One in review has content: only a fenced one may be without.
    let rows: Vec<ReviewRow> = sqlx::query_as(
        "select a.id, a.order_id, a.amount_minor, a.currency, a.channel, a.updated_at, a.reconcile_due_at,
                last.event, last.detail
           from attempts a
           join lateral (select event, detail from attempt_history h
                          where h.attempt_id = a.id order by h.version desc limit 1) last on true
          where a.state = 'review' and ($1::uuid is null or a.id > $1)
          order by a.id limit $2",
    )
    .bind(after.map(AttemptId::as_uuid))
    .bind(limit)
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(|row| Ok(review(row)?)).collect()
}

fn review(row: ReviewRow) -> sqlx::Result<PaymentReview> {
    Ok(PaymentReview {
        attempt_id: AttemptId::from_uuid(row.id),
        order_id: OrderId::from_uuid(row.order_id),
        amount_minor: row.amount_minor,
        currency: row.currency.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))?,
        channel: row.channel.as_deref().map(variant).transpose()?,
        since: row.updated_at,
        last_answer: row.detail.map_or_else(|| row.event.clone(), |detail| format!("{}: {detail}", row.event)),
        asked_again_at: row.reconcile_due_at,
    })
}

#[derive(sqlx::FromRow)]
struct RefundReviewRow {
    id: Uuid,
    order_id: Option<Uuid>,
    attempt_id: Option<Uuid>,
    amount_minor: i64,
    currency: String,
    channel: String,
    provider_ref: String,
    reason: String,
    updated_at: DateTime<Utc>,
    sends: i32,
    next_send_at: DateTime<Utc>,
}

/// Up to `limit` refunds that wait for a person, by age, from above `after`.
pub async fn refunds_in_review(
    conn: &mut PgConnection,
    after: Option<RefundId>,
    limit: i64,
) -> Result<Vec<RefundReview>, StorageError> {
    let rows: Vec<RefundReviewRow> = sqlx::query_as(
        "select id, order_id, attempt_id, amount_minor, currency, channel, provider_ref, reason, updated_at, sends,
                next_send_at
           from refunds
          where state = 'review' and ($1::uuid is null or id > $1)
          order by id limit $2",
    )
    .bind(after.map(RefundId::as_uuid))
    .bind(limit)
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(|row| Ok(refund_review(row)?)).collect()
}

fn refund_review(row: RefundReviewRow) -> sqlx::Result<RefundReview> {
    Ok(RefundReview {
        refund_id: RefundId::from_uuid(row.id),
        order_id: row.order_id.map(OrderId::from_uuid),
        attempt_id: row.attempt_id.map(AttemptId::from_uuid),
        amount_minor: row.amount_minor,
        currency: row.currency.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))?,
        channel: variant(&row.channel)?,
        provider_ref: row.provider_ref,
        reason: row.reason,
        since: row.updated_at,
        sends: row.sends,
        sent_again_at: row.next_send_at,
    })
}
