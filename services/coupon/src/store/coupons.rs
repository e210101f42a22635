//! Coupons, and how many shares of each are taken.

use chrono::{DateTime, Utc};
use contracts::{
    UserId,
    coupon::{Coupon, Discount},
};
use sqlx::{FromRow, PgConnection};

use super::{corrupt, currency};
use crate::Error;

/// The coupon and the database's time, since the clocks of replicas disagree about when it expires.
pub async fn find(conn: &mut PgConnection, code: &str) -> Result<Option<(Coupon, DateTime<Utc>)>, Error> {
    let row: Option<Row> = sqlx::query_as(
        "select code, kind, percent, amount_minor, currency, total_limit, per_user_limit, redeemed,
                valid_from, valid_until, now() as asked_at
           from coupons where code = $1",
    )
    .bind(code)
    .fetch_optional(conn)
    .await?;
    row.map(|row| Ok((row.coupon()?, row.asked_at))).transpose()
}

/// Takes a share, unless none is left. The coupon is locked until the transaction ends.
pub async fn take(conn: &mut PgConnection, code: &str) -> Result<bool, Error> {
    let updated = sqlx::query(
        "update coupons set redeemed = redeemed + 1
          where code = $1 and (total_limit is null or redeemed < total_limit)",
    )
    .bind(code)
    .execute(conn)
    .await?;
    Ok(updated.rows_affected() == 1)
}

/// Gives a share back.
pub async fn give_back(conn: &mut PgConnection, code: &str) -> Result<(), Error> {
    sqlx::query("update coupons set redeemed = redeemed - 1 where code = $1").bind(code).execute(conn).await?;
    Ok(())
}

/// Whether the user has more shares than one user may. Meaningful only after [`take`]: its lock makes everybody else
/// who takes a share of this coupon wait, and a statement begun under it sees all that did before.
pub async fn overdrawn(conn: &mut PgConnection, code: &str, user: UserId) -> Result<bool, Error> {
    let overdrawn: Option<bool> = sqlx::query_scalar(
        "select count(*) > (select per_user_limit from coupons where code = $1)
           from redemptions
          where code = $1 and user_id = $2 and state in ('held', 'committed')",
    )
    .bind(code)
    .bind(user.as_uuid())
    .fetch_one(conn)
    .await?;
    // Null where there is no limit.
    Ok(overdrawn.unwrap_or(false))
}

/// Adds the coupons that are not there yet, and says how many those were. The others keep what was redeemed of them.
pub async fn add_missing(conn: &mut PgConnection, coupons: &[Coupon]) -> Result<u64, Error> {
    let mut added = 0;
    for coupon in coupons {
        let (kind, percent, amount_minor, currency) = match &coupon.discount {
            Discount::Percent { percent } => ("percent", Some(i16::from(*percent)), None, None),
            Discount::Fixed { amount_minor, currency } => ("fixed", None, Some(*amount_minor), Some(currency.as_str())),
        };
        let inserted = sqlx::query(
            "insert into coupons (code, kind, percent, amount_minor, currency, total_limit, per_user_limit,
                                  valid_from, valid_until)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
             on conflict on constraint coupons_pkey do nothing",
        )
        .bind(&coupon.code)
        .bind(kind)
        .bind(percent)
        .bind(amount_minor)
        .bind(currency)
        .bind(coupon.total_limit)
        .bind(coupon.per_user_limit)
        .bind(coupon.valid_from)
        .bind(coupon.valid_until)
        .execute(&mut *conn)
        .await?;
        added += inserted.rows_affected();
    }
    Ok(added)
}

#[derive(FromRow)]
struct Row {
    code: String,
    kind: String,
    percent: Option<i16>,
    amount_minor: Option<i64>,
    currency: Option<String>,
    total_limit: Option<i64>,
    per_user_limit: Option<i64>,
    redeemed: i64,
    valid_from: DateTime<Utc>,
    valid_until: DateTime<Utc>,
    asked_at: DateTime<Utc>,
}

impl Row {
    fn coupon(&self) -> Result<Coupon, Error> {
        let discount = match (self.kind.as_str(), self.percent, self.amount_minor, &self.currency) {
            ("percent", Some(percent), None, None) => {
                Discount::Percent { percent: u8::try_from(percent).map_err(|_| corrupt("coupons.percent"))? }
            }
            ("fixed", None, Some(amount_minor), Some(code)) => {
                Discount::Fixed { amount_minor, currency: currency(code)? }
            }
            _ => return Err(corrupt(format!("coupons.kind: {}", self.kind))),
        };
        Ok(Coupon {
            code: self.code.clone(),
            discount,
            total_limit: self.total_limit,
            per_user_limit: self.per_user_limit,
            redeemed: self.redeemed,
            valid_from: self.valid_from,
            valid_until: self.valid_until,
        })
    }
}
