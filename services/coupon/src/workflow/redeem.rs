//! Redeeming: a share of a coupon for one order.
//!
//! The order's own row is made first, so that a request which was sent twice waits there, before it holds the coupon.
//! The coupon comes last and is held for two statements and the commit, since others queue for it.

use contracts::{
    Money, OrderId,
    coupon::{RedeemCoupon, Redemption, RedemptionState},
};
use durable::Database;
use resilience::Deadline;
use sqlx::PgConnection;

use super::shown;
use crate::{
    Error,
    domain::{Command, Decision, Record, decide, discount},
    store::{coupons, redemptions},
};

/// A redemption that stands now.
#[derive(Debug)]
pub enum Redeemed {
    New(Redemption),
    /// It stood before, whatever has become of the coupon since.
    Again(Redemption),
}

/// An error means that nothing was redeemed by this call.
pub async fn redeem(
    database: &Database,
    deadline: Deadline,
    order: OrderId,
    wanted: &RedeemCoupon,
) -> Result<Redeemed, Error> {
    let mut tx = database.begin(deadline).await?;
    let mut current = redemptions::find(&mut tx, order).await?;
    loop {
        let decision = decide(current.as_ref(), Command::Redeem(wanted))
            .map_err(|refusal| Error::Redemption { order, refusal })?;
        match (decision, current) {
            (Decision::Stands, Some(record)) => return Ok(Redeemed::Again(shown(order, &record))),
            (Decision::Hold, None) => match hold(&mut tx, order, wanted).await {
                Ok(Some(record)) => {
                    tx.commit().await?;
                    return Ok(Redeemed::New(shown(order, &record)));
                }
                // Somebody else made the row meanwhile; it is there from now on, and is decided about once more.
                Ok(None) => current = redemptions::find(&mut tx, order).await?,
                Err(refusal) => {
                    // Others are waiting for the coupon; a transaction that is only dropped ends a little later.
                    tx.rollback().await?;
                    return Err(refusal);
                }
            },
            _ => return Err(Error::Conflict),
        }
    }
}

/// `None`: the order has a row already.
pub(super) async fn hold(
    conn: &mut PgConnection,
    order: OrderId,
    wanted: &RedeemCoupon,
) -> Result<Option<Record>, Error> {
    let code = &wanted.code;
    let (coupon, now) = coupons::find(conn, code).await?.ok_or_else(|| Error::UnknownCode(code.clone()))?;
    let discount_minor = discount(&coupon, Money::new(wanted.subtotal_minor, wanted.currency), now)
        .map_err(|reason| Error::NoDiscount { code: code.clone(), reason })?;
    let record = Record { state: RedemptionState::Held, content: Some(wanted.clone()), discount_minor };
    if !redemptions::insert(conn, order, &record).await? {
        return Ok(None);
    }
    if !coupons::take(conn, code).await? {
        return Err(Error::Exhausted(code.clone()));
    }
    if coupons::overdrawn(conn, code, wanted.user_id).await? {
        return Err(Error::AlreadyUsed(code.clone()));
    }
    Ok(Some(record))
}
