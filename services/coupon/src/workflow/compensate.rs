//! Honouring a discount that was promised while this service did not answer: once an order, however often it is asked
//! for.
//!
//! One transaction holds the inbox row of the message, the redemption, what became of the compensation, and the event
//! that tells order. The redemption is tried within a savepoint, so that what it ran into is rolled back alone and the
//! next try is enqueued in the same transaction.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use contracts::{
    Event, OrderId,
    coupon::RedeemCoupon,
    event::{CompensationDue, CouponOutcome, CouponSettled},
    topic::{COMPENSATE, RETRY_TIERS},
};
use durable::{
    outbox,
    retry::{Hop, retry_later},
};
use sqlx::{Connection, PgConnection};

use super::{redeem::hold, settle};
use crate::{
    Error,
    domain::{Command, Decision, Verdict, decide, judge},
    store::{
        compensations::{self, State},
        redemptions,
    },
};

/// A next try that is overdue by so much was lost, and another message may start over.
const LOST_AFTER: TimeDelta = TimeDelta::seconds(60);

/// What a message about a compensation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compensated {
    Honoured {
        discount_minor: i64,
    },
    /// Another try will come; `None`: by another message, which is under way.
    Later(Option<Hop>),
    /// On the manual list from now on.
    Refused {
        reason: String,
    },
    /// The order died meanwhile.
    Dropped,
    /// It was settled before; order is told once more.
    Again,
}

/// Where a message comes from and how long the next one waits.
#[derive(Debug, Clone, Copy)]
pub struct Try<'a> {
    pub event: &'a Event,
    pub tier: usize,
    pub delays: &'a [Duration; RETRY_TIERS],
    pub now: DateTime<Utc>,
}

/// In the caller's transaction; an error rolls back all of it.
pub async fn compensate(
    conn: &mut PgConnection,
    due: &CompensationDue,
    attempt: Try<'_>,
) -> Result<Compensated, Error> {
    let (order, event) = (due.order_id, attempt.event);
    let next = match compensations::lock(conn, order).await? {
        State::Waiting { next } => next,
        State::Honoured { discount_minor } => {
            tell(conn, event, order, CouponOutcome::Honoured { discount_minor }, attempt.now).await?;
            return Ok(Compensated::Again);
        }
        State::Refused { reason } => {
            tell(conn, event, order, CouponOutcome::Refused { reason }, attempt.now).await?;
            return Ok(Compensated::Again);
        }
    };
    let mut savepoint = conn.begin().await?;
    let tried = redeem_now(&mut savepoint, due).await;
    match &tried {
        Ok(_) => savepoint.commit().await?,
        // Fails when the connection is gone; then nothing at all has happened.
        Err(_) => savepoint.rollback().await?,
    }
    match judge(tried, attempt.tier >= RETRY_TIERS) {
        Verdict::Honour { discount_minor } => {
            compensations::honour(conn, order, discount_minor, event.id()).await?;
            tell(conn, event, order, CouponOutcome::Honoured { discount_minor }, attempt.now).await?;
            Ok(Compensated::Honoured { discount_minor })
        }
        Verdict::Again { reason } => {
            let by_another = |(id, at): &(uuid::Uuid, _)| *id != event.id() && *at + LOST_AFTER > attempt.now;
            if next.as_ref().is_some_and(by_another) {
                return Ok(Compensated::Later(None));
            }
            let hop = retry_later(conn, &COMPENSATE, attempt.tier, event, attempt.delays, attempt.now).await?;
            if let Some(hop) = &hop {
                compensations::wait(conn, order, hop, &reason).await?;
            }
            Ok(Compensated::Later(hop))
        }
        Verdict::Refuse { reason } => {
            compensations::refuse(conn, order, &reason, event.id()).await?;
            compensations::list_manually(conn, due, &reason).await?;
            tell(conn, event, order, CouponOutcome::Refused { reason: reason.clone() }, attempt.now).await?;
            Ok(Compensated::Refused { reason })
        }
        Verdict::Drop { reason } => {
            compensations::refuse(conn, order, &reason, event.id()).await?;
            tell(conn, event, order, CouponOutcome::Refused { reason }, attempt.now).await?;
            Ok(Compensated::Dropped)
        }
    }
}

/// A redemption of a paid order is committed at once. One that was held for it, by a request whose answer order never
/// saw, is the one that it gets.
async fn redeem_now(conn: &mut PgConnection, due: &CompensationDue) -> Result<i64, Error> {
    let order = due.order_id;
    let wanted = RedeemCoupon {
        code: due.code.clone(),
        user_id: due.user_id,
        subtotal_minor: due.subtotal_minor,
        currency: due.currency,
    };
    let mut current = redemptions::lock(conn, order).await?;
    loop {
        let decision = decide(current.as_ref(), Command::Redeem(&wanted))
            .map_err(|refusal| Error::Redemption { order, refusal })?;
        let record = match (decision, current) {
            (Decision::Stands, Some(record)) => record,
            (Decision::Hold, None) => match hold(conn, order, &wanted).await? {
                Some(record) => record,
                // Somebody else made the row meanwhile; it is there from now on.
                None => {
                    current = redemptions::lock(conn, order).await?;
                    continue;
                }
            },
            _ => return Err(Error::Conflict),
        };
        settle(conn, order, Command::Commit).await?;
        return Ok(record.discount_minor);
    }
}

async fn tell(
    conn: &mut PgConnection,
    cause: &Event,
    order_id: OrderId,
    outcome: CouponOutcome,
    now: DateTime<Utc>,
) -> Result<(), Error> {
    let settled = CouponSettled { order_id, outcome };
    outbox::enqueue_data(conn, &settled, cause.version, cause.traceparent.clone(), now).await?;
    Ok(())
}
