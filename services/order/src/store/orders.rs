//! Orders and their lines.

use chrono::{DateTime, Utc};
use contracts::{
    AttemptId, OrderId, UserId,
    order::{OrderStatus, StatusReason},
};
use sqlx::{PgConnection, PgPool, types::Json};
use uuid::Uuid;

use super::{state, text};
use crate::domain::{Coupon, Line, Order, Payment, Price};

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    user_id: Uuid,
    tenant: Option<String>,
    status: String,
    status_reason: Option<String>,
    version: i64,
    currency: String,
    subtotal_minor: i64,
    discount_minor: i64,
    total_minor: i64,
    coupon_code: Option<String>,
    coupon_state: String,
    payment_method: String,
    attempt_id: Option<Uuid>,
    payment_state: String,
    payment_channel: Option<String>,
    refunded_minor: i64,
    degraded: Vec<String>,
    recommendations: Json<Vec<contracts::order::Suggestion>>,
    problem: Option<Json<contracts::Problem>>,
    traceparent: Option<String>,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

#[derive(sqlx::FromRow)]
struct LineRow {
    order_id: Uuid,
    sku: String,
    quantity: i64,
    name: Option<String>,
    unit_price_minor: Option<i64>,
}

/// A new order, as the claim on its key allows.
pub async fn insert(conn: &mut PgConnection, order: &Order) -> sqlx::Result<()> {
    sqlx::query(
        "insert into orders (id, user_id, tenant, status, currency, coupon_code, coupon_state, payment_method,
                             payment_state, degraded, traceparent, created_at, updated_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12)",
    )
    .bind(order.id.as_uuid())
    .bind(order.user_id.as_uuid())
    .bind(&order.tenant)
    .bind(order.status.as_str())
    .bind(order.price.currency.as_str())
    .bind(&order.coupon.code)
    .bind(text(&order.coupon.state)?)
    .bind(&order.payment_method)
    .bind(text(&order.payment.state)?)
    .bind(&order.degraded)
    .bind(&order.traceparent)
    .bind(order.created_at)
    .execute(&mut *conn)
    .await?;
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

/// The order under its row lock, which every change of it takes first.
pub async fn lock(conn: &mut PgConnection, id: OrderId) -> sqlx::Result<Option<Order>> {
    let row: Option<Row> = sqlx::query_as("select * from orders where id = $1 for update")
        .bind(id.as_uuid())
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else { return Ok(None) };
    let lines: Vec<LineRow> = sqlx::query_as(
        "select order_id, sku, quantity, name, unit_price_minor from order_items where order_id = $1 order by line",
    )
    .bind(id.as_uuid())
    .fetch_all(conn)
    .await?;
    assemble(row, lines).map(Some)
}

pub async fn find(pool: &PgPool, id: OrderId) -> sqlx::Result<Option<Order>> {
    let row: Option<Row> =
        sqlx::query_as("select * from orders where id = $1").bind(id.as_uuid()).fetch_optional(pool).await?;
    let Some(row) = row else { return Ok(None) };
    Ok(with_lines(pool, vec![row]).await?.pop())
}

/// The user's orders, newest first, from below `before`.
pub async fn page(pool: &PgPool, user: UserId, before: Option<OrderId>, limit: i64) -> sqlx::Result<Vec<Order>> {
    let rows: Vec<Row> = sqlx::query_as(
        "select * from orders where user_id = $1 and ($2::uuid is null or id < $2) order by id desc limit $3",
    )
    .bind(user.as_uuid())
    .bind(before.map(OrderId::as_uuid))
    .bind(limit)
    .fetch_all(pool)
    .await?;
    with_lines(pool, rows).await
}

/// Writes what `decide` made of an order that was read in state `from`. False: it was no longer in that state.
pub async fn update(conn: &mut PgConnection, order: &Order, from: OrderStatus, reprice: bool) -> sqlx::Result<bool> {
    let updated = sqlx::query(
        "update orders set status = $3, status_reason = $4, version = $5, currency = $6, subtotal_minor = $7,
                discount_minor = $8, total_minor = $9, coupon_state = $10, attempt_id = $11, payment_state = $12,
                payment_channel = $13, refunded_minor = $14, degraded = $15, recommendations = $16, problem = $17,
                updated_at = $18
          where id = $1 and status = $2",
    )
    .bind(order.id.as_uuid())
    .bind(from.as_str())
    .bind(order.status.as_str())
    .bind(order.reason.map(StatusReason::as_str))
    .bind(order.version)
    .bind(order.price.currency.as_str())
    .bind(order.price.subtotal_minor)
    .bind(order.price.discount_minor)
    .bind(order.price.total_minor)
    .bind(text(&order.coupon.state)?)
    .bind(order.payment.attempt_id.map(AttemptId::as_uuid))
    .bind(text(&order.payment.state)?)
    .bind(order.payment.channel.map(contracts::payment::Channel::as_str))
    .bind(order.payment.refunded_minor)
    .bind(&order.degraded)
    .bind(Json(&order.suggestions))
    .bind(order.problem.as_ref().map(Json))
    .bind(order.updated_at)
    .execute(&mut *conn)
    .await?;
    if updated.rows_affected() == 0 {
        return Ok(false);
    }
    if reprice {
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
        .await?;
    }
    Ok(true)
}

/// How many orders wait for their payment, and since when the oldest does.
pub async fn pending(pool: &PgPool) -> sqlx::Result<(i64, Option<DateTime<Utc>>)> {
    sqlx::query_as("select count(*), min(updated_at) from orders where status = 'payment_pending'")
        .fetch_one(pool)
        .await
}

async fn with_lines(pool: &PgPool, rows: Vec<Row>) -> sqlx::Result<Vec<Order>> {
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let mut lines: Vec<LineRow> = sqlx::query_as(
        "select order_id, sku, quantity, name, unit_price_minor from order_items
          where order_id = any($1) order by order_id, line",
    )
    .bind(&ids)
    .fetch_all(pool)
    .await?;
    rows.into_iter()
        .map(|row| {
            let (own, others) = lines.drain(..).partition(|line| line.order_id == row.id);
            lines = others;
            assemble(row, own)
        })
        .collect()
}

fn assemble(row: Row, lines: Vec<LineRow>) -> sqlx::Result<Order> {
    let currency = row.currency.parse().map_err(|e: contracts::money::NotACurrency| sqlx::Error::Decode(e.into()))?;
    let line =
        |line: LineRow| Line { sku: line.sku, quantity: line.quantity, named: line.name.zip(line.unit_price_minor) };
    Ok(Order {
        id: OrderId::from_uuid(row.id),
        user_id: UserId::from_uuid(row.user_id),
        tenant: row.tenant,
        status: state(row.status)?,
        reason: row.status_reason.map(state).transpose()?,
        version: row.version,
        lines: lines.into_iter().map(line).collect(),
        price: Price {
            currency,
            subtotal_minor: row.subtotal_minor,
            discount_minor: row.discount_minor,
            total_minor: row.total_minor,
        },
        coupon: Coupon { code: row.coupon_code, state: state(row.coupon_state)? },
        payment_method: row.payment_method,
        payment: Payment {
            attempt_id: row.attempt_id.map(AttemptId::from_uuid),
            state: state(row.payment_state)?,
            channel: row.payment_channel.map(state).transpose()?,
            refunded_minor: row.refunded_minor,
        },
        degraded: row.degraded,
        suggestions: row.recommendations.0,
        problem: row.problem.map(|problem| problem.0),
        traceparent: row.traceparent,
        created_at: row.created_at,
        updated_at: row.updated_at,
    })
}
