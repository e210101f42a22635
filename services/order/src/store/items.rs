//! The lines of orders.

use std::collections::HashMap;

use contracts::OrderId;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::domain::{Line, Order};

#[derive(sqlx::FromRow)]
struct Row {
    order_id: Uuid,
    sku: String,
    quantity: i64,
    name: Option<String>,
    unit_price_minor: Option<i64>,
}

impl From<Row> for Line {
    fn from(row: Row) -> Self {
        Self { sku: row.sku, quantity: row.quantity, named: row.name.zip(row.unit_price_minor) }
    }
}

pub async fn insert(conn: &mut PgConnection, order: &Order) -> sqlx::Result<()> {
    let skus: Vec<&str> = order.lines.iter().map(|line| line.sku.as_str()).collect();
    let quantities: Vec<i64> = order.lines.iter().map(|line| line.quantity).collect();
    sqlx::query(
        "insert into order_items (order_id, line, sku, quantity)
         select $1, ordinality, sku, quantity from unnest($2::text[], $3::bigint[]) with ordinality as t(sku, quantity)",
    )
    .bind(order.id.as_uuid())
    .bind(skus)
    .bind(quantities)
    .execute(conn)
    .await
    .map(drop)
}

/// Writes the names and prices that the reservation has fixed.
pub async fn price(conn: &mut PgConnection, order: &Order) -> sqlx::Result<()> {
    let skus: Vec<&str> = order.lines.iter().map(|line| line.sku.as_str()).collect();
    let names: Vec<Option<&str>> =
        order.lines.iter().map(|line| line.named.as_ref().map(|(name, _)| name.as_str())).collect();
    let prices: Vec<Option<i64>> = order.lines.iter().map(|line| line.named.as_ref().map(|(_, p)| *p)).collect();
    sqlx::query(
        "update order_items i set name = t.name, unit_price_minor = t.price
           from unnest($2::text[], $3::text[], $4::bigint[]) as t(sku, name, price)
          where i.order_id = $1 and i.sku = t.sku",
    )
    .bind(order.id.as_uuid())
    .bind(skus)
    .bind(names)
    .bind(prices)
    .execute(conn)
    .await
    .map(drop)
}

pub async fn of(conn: &mut PgConnection, order: OrderId) -> sqlx::Result<Vec<Line>> {
    let rows: Vec<Row> = sqlx::query_as(
        "select order_id, sku, quantity, name, unit_price_minor from order_items where order_id = $1 order by line",
    )
    .bind(order.as_uuid())
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(Line::from).collect())
}

/// By order.
pub async fn of_all(pool: &PgPool, orders: &[Uuid]) -> sqlx::Result<HashMap<Uuid, Vec<Line>>> {
    let rows: Vec<Row> = sqlx::query_as(
        "select order_id, sku, quantity, name, unit_price_minor from order_items
          where order_id = any($1) order by order_id, line",
    )
    .bind(orders)
    .fetch_all(pool)
    .await?;
    let mut lines = HashMap::<Uuid, Vec<Line>>::new();
    for row in rows {
        lines.entry(row.order_id).or_default().push(row.into());
    }
    Ok(lines)
}
