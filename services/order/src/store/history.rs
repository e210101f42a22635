//! Every transition of an order, in the transaction that made it.

use chrono::{DateTime, Utc};
use contracts::{
    OrderId,
    order::{HistoryEntry, OrderStatus},
};
use sqlx::{PgConnection, PgPool};

use super::state;

pub async fn insert(conn: &mut PgConnection, order: OrderId, entry: &HistoryEntry) -> sqlx::Result<()> {
    sqlx::query(
        "insert into order_history (order_id, at, from_status, to_status, event, detail)
         values ($1, $2, $3, $4, $5, $6)",
    )
    .bind(order.as_uuid())
    .bind(entry.at)
    .bind(entry.from.map(OrderStatus::as_str))
    .bind(entry.to.as_str())
    .bind(&entry.event)
    .bind(&entry.detail)
    .execute(conn)
    .await
    .map(drop)
}

#[derive(sqlx::FromRow)]
struct Row {
    at: DateTime<Utc>,
    from_status: Option<String>,
    to_status: String,
    event: String,
    detail: Option<String>,
}

/// Oldest first.
pub async fn of(pool: &PgPool, order: OrderId) -> sqlx::Result<Vec<HistoryEntry>> {
    let rows: Vec<Row> = sqlx::query_as(
        "select at, from_status, to_status, event, detail from order_history where order_id = $1 order by id",
    )
    .bind(order.as_uuid())
    .fetch_all(pool)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(HistoryEntry {
                at: row.at,
                from: row.from_status.map(state).transpose()?,
                to: state(row.to_status)?,
                event: row.event,
                detail: row.detail,
            })
        })
        .collect()
}
