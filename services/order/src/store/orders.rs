//! Orders and their lines.

use chrono::{DateTime, Utc};
use contracts::{
    AttemptId, OrderId, UserId,
    order::{OrderStatus, StatusReason},
};
use sqlx::{PgConnection, PgPool, types::Json};
use uuid::Uuid;

use super::{items, state, text};
use crate::domain::{Coupon, Line, Order, Payment, Price, Refund};

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
    cancel_requested: bool,
    refunds: Json<Vec<Refund>>,
    degraded: Vec<String>,
    recommendations: Json<Vec<contracts::order::Suggestion>>,
    problem: Option<Json<contracts::Problem>>,
    traceparent: Option<String>,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

/// An order with its refunds, which few have; `$condition` says which.
macro_rules! select_order {
    ($condition:literal) => {
        concat!(
            "select o.*, (select coalesce(jsonb_agg(jsonb_build_object('id', r.refund_id, 'reason', r.reason,
                                 'amount_minor', r.amount_minor, 'state', r.state) order by r.requested_at), '[]')
                            from refunds r where r.order_id = o.id) as refunds
               from orders o where ",
            $condition
        )
    };
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
    items::insert(conn, order).await
}

/// The order under its row lock, which every change of it takes first.
pub async fn lock(conn: &mut PgConnection, id: OrderId) -> sqlx::Result<Option<Order>> {
    let row: Option<Row> = sqlx::query_as(select_order!("o.id = $1 for update of o"))
        .bind(id.as_uuid())
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else { return Ok(None) };
    let lines = items::of(conn, id).await?;
    assemble(row, lines).map(Some)
}

pub async fn find(pool: &PgPool, id: OrderId) -> sqlx::Result<Option<Order>> {
    let row: Option<Row> = sqlx::query_as(select_order!("o.id = $1")).bind(id.as_uuid()).fetch_optional(pool).await?;
    let Some(row) = row else { return Ok(None) };
    Ok(with_lines(pool, vec![row]).await?.pop())
}

/// The user's orders, newest first, from below `before`.
pub async fn page(pool: &PgPool, user: UserId, before: Option<OrderId>, limit: i64) -> sqlx::Result<Vec<Order>> {
    let rows: Vec<Row> =
        sqlx::query_as(select_order!("o.user_id = $1 and ($2::uuid is null or o.id < $2) order by o.id desc limit $3"))
            .bind(user.as_uuid())
            .bind(before.map(OrderId::as_uuid))
            .bind(limit)
            .fetch_all(pool)
            .await?;
    with_lines(pool, rows).await
}

/// Which of everybody's orders an operator wants to see.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub user: Option<UserId>,
    pub status: Option<OrderStatus>,
    pub before: Option<OrderId>,
}

/// Anybody's orders, newest first. The statements differ in the index that they read along: among all orders, those that
/// are open or came to nothing are few, and a page of them would be looked for through everything that was ever sold.
pub async fn any(pool: &PgPool, wanted: Wanted, limit: i64) -> sqlx::Result<Vec<Order>> {
    let statement = match (wanted.user, wanted.status) {
        (Some(_), _) => select_order!(
            "o.user_id = $4 and ($1::text is null or o.status = $1) and ($2::uuid is null or o.id < $2)
             order by o.id desc limit $3"
        ),
        (None, Some(status)) if !status.is_final() => select_order!(
            "o.status in ('created', 'stock_reserved', 'payment_in_flight', 'payment_pending') and o.status = $1
             and ($2::uuid is null or o.id < $2) and $4::uuid is null order by o.id desc limit $3"
        ),
        (None, Some(OrderStatus::Rejected | OrderStatus::Cancelled)) => select_order!(
            "o.status in ('rejected', 'cancelled') and o.status = $1 and ($2::uuid is null or o.id < $2)
             and $4::uuid is null order by o.id desc limit $3"
        ),
        (None, _) => select_order!(
            "($1::text is null or o.status = $1) and ($2::uuid is null or o.id < $2) and $4::uuid is null
             order by o.id desc limit $3"
        ),
    };
    let rows: Vec<Row> = sqlx::query_as(statement)
        .bind(wanted.status.map(OrderStatus::as_str))
        .bind(wanted.before.map(OrderId::as_uuid))
        .bind(limit)
        .bind(wanted.user.map(UserId::as_uuid))
        .fetch_all(pool)
        .await?;
    with_lines(pool, rows).await
}

/// How many orders stand in each status that is not final.
pub async fn open(pool: &PgPool) -> sqlx::Result<Vec<(String, i64)>> {
    sqlx::query_as(
        "select status, count(*) from orders
          where status in ('created', 'stock_reserved', 'payment_in_flight', 'payment_pending') group by status",
    )
    .fetch_all(pool)
    .await
}

/// What an update needs to know of the transition that it writes.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    /// The state that the order was read in.
    pub from: OrderStatus,
    /// Whether its lines got their names and prices.
    pub prices: bool,
    /// Whether an order that has ended told something, so that its taking effect is to be seen (again).
    pub to_acknowledge: bool,
}

/// Writes what `decide` made of an order. False: it was no longer in the state that it was read in.
pub async fn update(conn: &mut PgConnection, order: &Order, change: Change) -> sqlx::Result<bool> {
    let updated = sqlx::query(
        "update orders set status = $3, status_reason = $4, version = $5, currency = $6, subtotal_minor = $7,
                discount_minor = $8, total_minor = $9, coupon_state = $10, attempt_id = $11, payment_state = $12,
                payment_channel = $13, refunded_minor = $14, degraded = $15, recommendations = $16, problem = $17,
                updated_at = $18, cancel_requested = $19,
                pending_since = case when $3 = 'payment_pending' and $2 <> $3 then $18 else pending_since end,
                unacknowledged_since = case when $20 then $18 else unacknowledged_since end,
                stock_acknowledged = stock_acknowledged and not $20,
                coupon_acknowledged = coupon_acknowledged and not $20,
                walked_at = case when $20 then null else walked_at end, walks = case when $20 then 0 else walks end
          where id = $1 and status = $2",
    )
    .bind(order.id.as_uuid())
    .bind(change.from.as_str())
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
    .bind(order.cancel_requested)
    .bind(change.to_acknowledge)
    .execute(&mut *conn)
    .await?;
    if updated.rows_affected() == 0 {
        return Ok(false);
    }
    if change.prices {
        items::price(conn, order).await?;
    }
    Ok(true)
}

async fn with_lines(pool: &PgPool, rows: Vec<Row>) -> sqlx::Result<Vec<Order>> {
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let mut lines = items::of_all(pool, &ids).await?;
    rows.into_iter()
        .map(|row| {
            let own = lines.remove(&row.id).unwrap_or_default();
            assemble(row, own)
        })
        .collect()
}

fn assemble(row: Row, lines: Vec<Line>) -> sqlx::Result<Order> {
    let currency = row.currency.parse().map_err(|e: contracts::money::NotACurrency| sqlx::Error::Decode(e.into()))?;
    Ok(Order {
        id: OrderId::from_uuid(row.id),
        user_id: UserId::from_uuid(row.user_id),
        tenant: row.tenant,
        status: state(row.status)?,
        reason: row.status_reason.map(state).transpose()?,
        version: row.version,
        lines,
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
        cancel_requested: row.cancel_requested,
        refunds: row.refunds.0,
        degraded: row.degraded,
        suggestions: row.recommendations.0,
        problem: row.problem.map(|problem| problem.0),
        traceparent: row.traceparent,
        created_at: row.created_at,
        updated_at: row.updated_at,
    })
}
