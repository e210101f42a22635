//! What became of discounts that were promised, and the list of those that a person has to decide about.

use chrono::{DateTime, Utc};
use contracts::{OrderId, UserId, coupon::ManualCompensation, event::CompensationDue};
use durable::retry::Hop;
use serde::Serialize;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use super::{corrupt, currency};
use crate::Error;

/// An order's compensation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// With the message that tries next and when; none before the first try.
    Waiting {
        next: Option<(Uuid, DateTime<Utc>)>,
    },
    Honoured {
        discount_minor: i64,
    },
    Refused {
        reason: String,
    },
}

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct Manual {
    pub order_id: Uuid,
    pub code: String,
    pub user_id: Uuid,
    pub subtotal_minor: i64,
    pub currency: String,
    pub reason: String,
    pub created_at: DateTime<Utc>,
}

/// How much is open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backlog {
    pub waiting: i64,
    pub manual: i64,
    /// The oldest of the manual ones.
    pub oldest: Vec<Manual>,
}

/// The order's compensation, made if there was none. Nobody else changes it before the transaction ends.
pub async fn lock(conn: &mut PgConnection, order: OrderId) -> Result<State, Error> {
    sqlx::query(
        "insert into compensations (order_id) values ($1) on conflict on constraint compensations_pkey do nothing",
    )
    .bind(order.as_uuid())
    .execute(&mut *conn)
    .await?;
    let row: Row = sqlx::query_as(
        "select state, next_event, due_at, discount_minor, reason from compensations where order_id = $1 for update",
    )
    .bind(order.as_uuid())
    .fetch_one(conn)
    .await?;
    State::try_from(row)
}

/// waiting → waiting, for another try.
pub async fn wait(conn: &mut PgConnection, order: OrderId, hop: &Hop, reason: &str) -> Result<(), Error> {
    let updated = sqlx::query(
        "update compensations set next_event = $2, due_at = $3, reason = $4, updated_at = now()
          where order_id = $1 and state = 'waiting'",
    )
    .bind(order.as_uuid())
    .bind(hop.id.as_uuid())
    .bind(hop.due)
    .bind(reason)
    .execute(conn)
    .await?;
    if updated.rows_affected() == 1 { Ok(()) } else { Err(Error::Conflict) }
}

/// waiting → honoured
pub async fn honour(conn: &mut PgConnection, order: OrderId, discount_minor: i64, by: Uuid) -> Result<(), Error> {
    let updated = sqlx::query(
        "update compensations
            set state = 'honoured', discount_minor = $2, reason = null, settled_by = $3, next_event = null,
                due_at = null, updated_at = now()
          where order_id = $1 and state = 'waiting'",
    )
    .bind(order.as_uuid())
    .bind(discount_minor)
    .bind(by)
    .execute(conn)
    .await?;
    if updated.rows_affected() == 1 { Ok(()) } else { Err(Error::Conflict) }
}

/// waiting → refused
pub async fn refuse(conn: &mut PgConnection, order: OrderId, reason: &str, by: Uuid) -> Result<(), Error> {
    let updated = sqlx::query(
        "update compensations
            set state = 'refused', reason = $2, settled_by = $3, next_event = null, due_at = null, updated_at = now()
          where order_id = $1 and state = 'waiting'",
    )
    .bind(order.as_uuid())
    .bind(reason)
    .bind(by)
    .execute(conn)
    .await?;
    if updated.rows_affected() == 1 { Ok(()) } else { Err(Error::Conflict) }
}

/// Why this very message settled its order with a refusal that is on the manual list, if it did.
pub async fn refused_by(conn: &mut PgConnection, event: Uuid) -> Result<Option<String>, Error> {
    let reason = sqlx::query_scalar(
        "select m.reason from compensations c join manual_compensations m on m.order_id = c.order_id
          where c.settled_by = $1 and c.state = 'refused'",
    )
    .bind(event)
    .fetch_optional(conn)
    .await?;
    Ok(reason)
}

/// Puts the order on the list of those that a person has to decide about.
pub async fn list_manually(conn: &mut PgConnection, due: &CompensationDue, reason: &str) -> Result<(), Error> {
    sqlx::query(
        "insert into manual_compensations (order_id, code, user_id, subtotal_minor, currency, reason)
         values ($1, $2, $3, $4, $5, $6)
         on conflict on constraint manual_compensations_pkey do nothing",
    )
    .bind(due.order_id.as_uuid())
    .bind(&due.code)
    .bind(due.user_id.as_uuid())
    .bind(due.subtotal_minor)
    .bind(due.currency.as_str())
    .bind(reason)
    .execute(conn)
    .await?;
    Ok(())
}

/// An order that died is owed nothing.
pub async fn unlist(conn: &mut PgConnection, order: OrderId) -> Result<(), Error> {
    sqlx::query("delete from manual_compensations where order_id = $1").bind(order.as_uuid()).execute(conn).await?;
    Ok(())
}

/// What is open, and the `limit` oldest rows of the manual list. An order that died while it was being listed does not
/// count either.
pub async fn backlog(pool: &PgPool, limit: i64) -> Result<Backlog, Error> {
    let (waiting, manual): (i64, i64) = sqlx::query_as(
        "select (select count(*) from compensations where state = 'waiting'),
                (select count(*) from manual_compensations m
                  where not exists (select from redemptions r
                                     where r.order_id = m.order_id and r.state in ('released', 'returned')))",
    )
    .fetch_one(pool)
    .await?;
    let oldest = sqlx::query_as(
        "select order_id, code, user_id, subtotal_minor, currency, reason, created_at from manual_compensations m
          where not exists (select from redemptions r
                             where r.order_id = m.order_id and r.state in ('released', 'returned'))
          order by created_at, order_id limit $1",
    )
    .bind(limit)
    .fetch_all(pool)
    .await?;
    Ok(Backlog { waiting, manual, oldest })
}

/// Up to `limit` rows of the manual list by order, from above `after`, without those of orders that died.
pub async fn manual(
    conn: &mut PgConnection,
    after: Option<OrderId>,
    limit: i64,
) -> Result<Vec<ManualCompensation>, Error> {
    let rows: Vec<Manual> = sqlx::query_as(
        "select order_id, code, user_id, subtotal_minor, currency, reason, created_at from manual_compensations m
          where ($1::uuid is null or order_id > $1)
            and not exists (select from redemptions r
                             where r.order_id = m.order_id and r.state in ('released', 'returned'))
          order by order_id limit $2",
    )
    .bind(after.map(OrderId::as_uuid))
    .bind(limit)
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(ManualCompensation {
                order_id: OrderId::from_uuid(row.order_id),
                user_id: UserId::from_uuid(row.user_id),
                code: row.code,
                subtotal_minor: row.subtotal_minor,
                currency: currency(&row.currency)?,
                reason: row.reason,
                since: row.created_at,
            })
        })
        .collect()
}

#[derive(FromRow)]
struct Row {
    state: String,
    next_event: Option<Uuid>,
    due_at: Option<DateTime<Utc>>,
    discount_minor: i64,
    reason: Option<String>,
}

impl TryFrom<Row> for State {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self, Error> {
        match row.state.as_str() {
            "waiting" => Ok(Self::Waiting { next: row.next_event.zip(row.due_at) }),
            "honoured" => Ok(Self::Honoured { discount_minor: row.discount_minor }),
            "refused" => Ok(Self::Refused { reason: row.reason.unwrap_or_default() }),
            other => Err(corrupt(format!("compensations.state: {other}"))),
        }
    }
}
