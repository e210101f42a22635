//! What the recoverer looks after, and how much of it there is.
//!
//! A claim is one statement that skips rows which another replica is claiming, and dates them, so that nobody else
//! looks after them for a while.

use std::time::Duration;

use chrono::{DateTime, Utc};
use contracts::OrderId;
use sqlx::{PgConnection, PgPool, postgres::types::PgInterval};
use uuid::Uuid;

use crate::domain::{Acknowledged, Order};

/// An order that ended, and what has been seen of it so far.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    pub id: OrderId,
    pub acknowledged: Acknowledged,
}

/// Orders that wait for their payment longer than `max_age`, or that their user wants back, and were not asked about
/// for `pause`.
pub async fn claim_pending(
    pool: &PgPool,
    max_age: Duration,
    pause: Duration,
    limit: i64,
) -> sqlx::Result<Vec<OrderId>> {
    let ids: Vec<Uuid> = sqlx::query_scalar(
        "update orders set walked_at = clock_timestamp(), walks = walks + 1
          where id in (
                select id from orders
                 where status = 'payment_pending' and (cancel_requested or pending_since <= clock_timestamp() - $1)
                   and (walked_at is null or walked_at <= clock_timestamp() - $2)
                 order by coalesce(walked_at, pending_since) limit $3 for update skip locked)
          returning id",
    )
    .bind(interval(max_age)?)
    .bind(interval(pause)?)
    .bind(limit)
    .fetch_all(pool)
    .await?;
    Ok(ids.into_iter().map(OrderId::from_uuid).collect())
}

/// Orders that ended and have more to tell, first after `pause`, then after twice as long each time, up to `max_pause`.
pub async fn claim_ended(pool: &PgPool, pause: Duration, max_pause: Duration, limit: i64) -> sqlx::Result<Vec<Ended>> {
    let rows: Vec<(Uuid, bool, bool)> = sqlx::query_as(
        "update orders set walked_at = clock_timestamp(), walks = walks + 1
          where id in (
                select id from orders
                 where unacknowledged_since is not null
                   and coalesce(walked_at, unacknowledged_since)
                       <= clock_timestamp() - least($1 * power(2, least(walks, 20)), $2)
                 order by coalesce(walked_at, unacknowledged_since) limit $3 for update skip locked)
          returning id, stock_acknowledged, coupon_acknowledged",
    )
    .bind(interval(pause)?)
    .bind(interval(max_pause)?)
    .bind(limit)
    .fetch_all(pool)
    .await?;
    let ended =
        |(id, stock, coupon)| Ended { id: OrderId::from_uuid(id), acknowledged: Acknowledged { stock, coupon } };
    Ok(rows.into_iter().map(ended).collect())
}

/// Records what was seen of an order that the caller has locked. `done`: it is no longer looked after.
pub async fn acknowledge(conn: &mut PgConnection, order: &Order, seen: Acknowledged, done: bool) -> sqlx::Result<()> {
    sqlx::query(
        "update orders set version = $2, stock_acknowledged = $3, coupon_acknowledged = $4,
                unacknowledged_since = case when $5 then null else unacknowledged_since end
          where id = $1",
    )
    .bind(order.id.as_uuid())
    .bind(order.version)
    .bind(seen.stock)
    .bind(seen.coupon)
    .bind(done)
    .execute(conn)
    .await
    .map(drop)
}

/// Inventory has said that it holds nothing for this dead order any more.
pub async fn stock_released(pool: &PgPool, order: OrderId) -> sqlx::Result<()> {
    sqlx::query("update orders set stock_acknowledged = true where id = $1 and status = 'rejected'")
        .bind(order.as_uuid())
        .execute(pool)
        .await
        .map(drop)
}

/// Earlier orders of the same user that were refused with an invitation to try again, and for which goods that `order`
/// wants may still be held.
pub async fn holds_in_the_way(pool: &PgPool, order: &Order, limit: i64) -> sqlx::Result<Vec<OrderId>> {
    let skus: Vec<&str> = order.lines.iter().map(|line| line.sku.as_str()).collect();
    let ids: Vec<Uuid> = sqlx::query_scalar(
        "select o.id from orders o
          where o.user_id = $1 and o.id <> $2 and o.status = 'rejected' and o.unacknowledged_since is not null
            and not o.stock_acknowledged and (o.problem ->> 'retryable')::boolean
            and exists (select from order_items i where i.order_id = o.id and i.sku = any($3))
          order by o.id limit $4",
    )
    .bind(order.user_id.as_uuid())
    .bind(order.id.as_uuid())
    .bind(&skus)
    .bind(limit)
    .fetch_all(pool)
    .await?;
    Ok(ids.into_iter().map(OrderId::from_uuid).collect())
}

/// So many, the oldest since then.
pub type Backlog = (i64, Option<DateTime<Utc>>);

/// Orders that wait for their payment.
pub async fn pending(pool: &PgPool) -> sqlx::Result<Backlog> {
    sqlx::query_as("select count(*), min(pending_since) from orders where status = 'payment_pending'")
        .fetch_one(pool)
        .await
}

/// Orders that ended and have more to tell.
pub async fn unacknowledged(pool: &PgPool) -> sqlx::Result<Backlog> {
    sqlx::query_as("select count(*), min(unacknowledged_since) from orders where unacknowledged_since is not null")
        .fetch_one(pool)
        .await
}

/// Of these, the ones whose discount the coupon service has still to settle.
pub async fn compensations(pool: &PgPool) -> sqlx::Result<Backlog> {
    sqlx::query_as(
        "select count(*), min(unacknowledged_since) from orders o
          where unacknowledged_since is not null and status = 'confirmed' and coupon_state = 'pending'
            and not exists (select 1 from refunds r where r.order_id = o.id and r.purpose = 'coupon')",
    )
    .fetch_one(pool)
    .await
}

fn interval(duration: Duration) -> sqlx::Result<PgInterval> {
    PgInterval::try_from(duration).map_err(sqlx::Error::Encode)
}
