//! Redemptions.

use contracts::{
    OrderId, UserId,
    coupon::{RedeemCoupon, RedemptionState},
};
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use super::{corrupt, currency};
use crate::{Error, domain::Record};

/// The order's redemption, if it ever had one.
pub async fn find(conn: &mut PgConnection, order: OrderId) -> Result<Option<Record>, Error> {
    let row: Option<Row> = sqlx::query_as(
        "select state, code, user_id, subtotal_minor, currency, discount_minor from redemptions where order_id = $1",
    )
    .bind(order.as_uuid())
    .fetch_optional(conn)
    .await?;
    row.map(Record::try_from).transpose()
}

/// [`find`], and nobody else changes it before the transaction ends.
pub async fn lock(conn: &mut PgConnection, order: OrderId) -> Result<Option<Record>, Error> {
    let row: Option<Row> = sqlx::query_as(
        "select state, code, user_id, subtotal_minor, currency, discount_minor from redemptions
          where order_id = $1 for update",
    )
    .bind(order.as_uuid())
    .fetch_optional(conn)
    .await?;
    row.map(Record::try_from).transpose()
}

/// Makes the order's row. False: it was there. A transaction that makes it at the same time is waited for.
pub async fn insert(conn: &mut PgConnection, order: OrderId, record: &Record) -> Result<bool, Error> {
    let content = record.content.as_ref();
    let inserted = sqlx::query(
        "insert into redemptions (order_id, state, code, user_id, subtotal_minor, currency, discount_minor)
         values ($1, $2, $3, $4, $5, $6, $7)
         on conflict on constraint redemptions_pkey do nothing",
    )
    .bind(order.as_uuid())
    .bind(record.state.as_str())
    .bind(content.map(|c| c.code.as_str()))
    .bind(content.map(|c| c.user_id.as_uuid()))
    .bind(content.map(|c| c.subtotal_minor))
    .bind(content.map(|c| c.currency.to_string()))
    .bind(record.discount_minor)
    .execute(conn)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

pub async fn advance(
    conn: &mut PgConnection,
    order: OrderId,
    from: RedemptionState,
    to: RedemptionState,
) -> Result<(), Error> {
    let updated =
        sqlx::query("update redemptions set state = $3, updated_at = now() where order_id = $1 and state = $2")
            .bind(order.as_uuid())
            .bind(from.as_str())
            .bind(to.as_str())
            .execute(conn)
            .await?;
    if updated.rows_affected() == 1 { Ok(()) } else { Err(Error::Conflict) }
}

#[derive(FromRow)]
struct Row {
    state: String,
    code: Option<String>,
    user_id: Option<Uuid>,
    subtotal_minor: Option<i64>,
    currency: Option<String>,
    discount_minor: i64,
}

impl TryFrom<Row> for Record {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self, Error> {
        use RedemptionState as S;
        let state = [S::Held, S::Committed, S::Released, S::Returned].into_iter().find(|s| s.as_str() == row.state);
        let state = state.ok_or_else(|| corrupt(format!("redemptions.state: {}", row.state)))?;
        let content = match (row.code, row.user_id, row.subtotal_minor, row.currency) {
            (Some(code), Some(user), Some(subtotal_minor), Some(text)) => Some(RedeemCoupon {
                code,
                user_id: UserId::from_uuid(user),
                subtotal_minor,
                currency: currency(&text)?,
            }),
            _ => None,
        };
        Ok(Self { state, content, discount_minor: row.discount_minor })
    }
}
