//! Commit and release, the same for a request and for an event.

use contracts::{
    OrderId,
    coupon::{Redemption, RedemptionState},
};
use durable::Database;
use resilience::Deadline;
use sqlx::PgConnection;

use super::shown;
use crate::{
    Error,
    domain::{Command, Decision, Record, decide},
    store::{coupons, redemptions},
};

/// [`settle`] in a transaction of its own.
pub async fn settle_once(
    database: &Database,
    deadline: Deadline,
    order: OrderId,
    command: Command<'_>,
) -> Result<Redemption, Error> {
    let mut tx = database.begin(deadline).await?;
    let redemption = settle(&mut tx, order, command).await?;
    tx.commit().await?;
    Ok(redemption)
}

/// Commits or releases in the caller's transaction, and gives the redemption as it is then.
pub async fn settle(conn: &mut PgConnection, order: OrderId, command: Command<'_>) -> Result<Redemption, Error> {
    let mut current = redemptions::lock(conn, order).await?;
    loop {
        let decision = decide(current.as_ref(), command).map_err(|refusal| Error::Redemption { order, refusal })?;
        match (decision, current) {
            (Decision::Stands, Some(record)) => return Ok(shown(order, &record)),
            (Decision::Move { to, frees }, Some(record)) => {
                redemptions::advance(conn, order, record.state, to).await?;
                if let Some(content) = record.content.as_ref().filter(|_| frees) {
                    coupons::give_back(conn, &content.code).await?;
                }
                return Ok(shown(order, &Record { state: to, ..record }));
            }
            (Decision::Bury, None) => {
                let tombstone = Record { state: RedemptionState::Released, content: None, discount_minor: 0 };
                // Where a redemption came in between, the row is there from now on, and is decided about once more.
                redemptions::insert(conn, order, &tombstone).await?;
                current = redemptions::lock(conn, order).await?;
            }
            _ => return Err(Error::Conflict),
        }
    }
}
