//! Reservations and their items.

use contracts::{
    Currency, OrderId,
    inventory::{Reservation, ReservationState},
    order::OrderItem,
};
use sqlx::PgConnection;

use super::{corrupt, currency};
use crate::Error;

/// The order's reservation, if it ever had one.
pub async fn find(conn: &mut PgConnection, order: OrderId) -> Result<Option<Reservation>, Error> {
    let rows: Vec<Row> = sqlx::query_as(
        "select r.state, i.sku, i.name, i.quantity, i.unit_price_minor, i.currency
           from reservations r left join reservation_items i on i.order_id = r.order_id
          where r.order_id = $1
          order by i.position",
    )
    .bind(order.as_uuid())
    .fetch_all(conn)
    .await?;
    assemble(order, rows)
}

/// [`find`], and nobody else changes it before the transaction ends. Its items never change.
pub async fn lock(conn: &mut PgConnection, order: OrderId) -> Result<Option<Reservation>, Error> {
    // A statement of its own: one that waits for the lock reads the row as it is then, but its items as they were.
    sqlx::query("select from reservations where order_id = $1 for update")
        .bind(order.as_uuid())
        .execute(&mut *conn)
        .await?;
    find(conn, order).await
}

/// Makes the order's row, in `state`. False: it was there. A transaction that makes it at the same time is waited for.
pub async fn insert(conn: &mut PgConnection, order: OrderId, state: ReservationState) -> Result<bool, Error> {
    let inserted = sqlx::query(
        "insert into reservations (order_id, state) values ($1, $2)
         on conflict on constraint reservations_pkey do nothing",
    )
    .bind(order.as_uuid())
    .bind(state.as_str())
    .execute(conn)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

pub async fn advance(
    conn: &mut PgConnection,
    order: OrderId,
    from: ReservationState,
    to: ReservationState,
) -> Result<(), Error> {
    let updated =
        sqlx::query("update reservations set state = $3, updated_at = now() where order_id = $1 and state = $2")
            .bind(order.as_uuid())
            .bind(from.as_str())
            .bind(to.as_str())
            .execute(conn)
            .await?;
    if updated.rows_affected() == 1 { Ok(()) } else { Err(Error::Conflict) }
}

/// Seconds since the oldest reservation that is still held was made; 0 where none is.
pub async fn oldest_hold_age(conn: &mut PgConnection) -> Result<f64, Error> {
    let age: Option<f64> = sqlx::query_scalar(
        "select extract(epoch from now() - min(created_at))::float8 from reservations where state = 'held'",
    )
    .fetch_one(conn)
    .await?;
    Ok(age.unwrap_or(0.0))
}

type Row = (String, Option<String>, Option<String>, Option<i64>, Option<i64>, Option<String>);

fn assemble(order: OrderId, rows: Vec<Row>) -> Result<Option<Reservation>, Error> {
    let Some((state, ..)) = rows.first() else { return Ok(None) };
    let state = read_state(state)?;
    // A tombstone has no items, and so no currency of its own.
    let mut priced_in = Currency::USD;
    let mut items = Vec::with_capacity(rows.len());
    for row in rows {
        if let (_, Some(sku), Some(name), Some(quantity), Some(unit_price_minor), Some(code)) = row {
            priced_in = currency(&code)?;
            items.push(OrderItem { sku, name, quantity, unit_price_minor });
        }
    }
    Ok(Some(Reservation { order_id: order, state, items, currency: priced_in }))
}

fn read_state(text: &str) -> Result<ReservationState, Error> {
    use ReservationState as S;
    [S::Held, S::Committed, S::Returned, S::Released]
        .into_iter()
        .find(|state| state.as_str() == text)
        .ok_or_else(|| corrupt(format!("reservations.state: {text}")))
}
