//! Money that goes back.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};

use crate::domain::Order;

/// Writes the refunds of an order that `decide` has changed. None is ever taken back, or asked for with another sum.
pub async fn save(conn: &mut PgConnection, order: &Order, now: DateTime<Utc>) -> sqlx::Result<()> {
    for refund in &order.refunds {
        sqlx::query(
            "insert into refunds (refund_id, order_id, purpose, reason, amount_minor, state, requested_at, refunded_at)
             values ($1, $2, $3, $4, $5, $6, $7, case when $6 = 'refunded' then $7 end)
             on conflict on constraint refunds_pkey do update set state = $6, refunded_at = $7
              where refunds.state = 'requested' and $6 = 'refunded'",
        )
        .bind(refund.id.as_uuid())
        .bind(order.id.as_uuid())
        .bind(refund.reason.purpose().as_str())
        .bind(refund.reason.as_str())
        .bind(refund.amount_minor)
        .bind(refund.state.as_str())
        .bind(now)
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

/// How many are due, and since when the oldest is.
pub async fn due(pool: &PgPool) -> sqlx::Result<(i64, Option<DateTime<Utc>>)> {
    sqlx::query_as("select count(*), min(requested_at) from refunds where state = 'requested'").fetch_one(pool).await
}
