//! Commit and release, the same for a request and for an event.

use contracts::{
    OrderId,
    inventory::{Reservation, ReservationState},
};
use durable::Database;
use resilience::Deadline;
use sqlx::PgConnection;

use crate::{
    Error,
    domain::{Command, Decision, decide},
    store::{reservations, stock},
};

/// [`settle`] in a transaction of its own.
pub async fn settle_once(
    database: &Database,
    deadline: Deadline,
    order: OrderId,
    command: Command<'_>,
) -> Result<Reservation, Error> {
    let mut tx = database.begin(deadline).await?;
    let reservation = settle(&mut tx, order, command).await?;
    tx.commit().await?;
    Ok(reservation)
}

/// Commits or releases in the caller's transaction, and gives the reservation as it is then.
pub async fn settle(conn: &mut PgConnection, order: OrderId, command: Command<'_>) -> Result<Reservation, Error> {
    let mut current = reservations::lock(conn, order).await?;
    loop {
        let decision = decide(current.as_ref(), command).map_err(|refusal| Error::Reservation { order, refusal })?;
        match (decision, current) {
            (Decision::Stands, Some(reservation)) => return Ok(reservation),
            (Decision::Move { to, movement }, Some(reservation)) => {
                reservations::advance(conn, order, reservation.state, to).await?;
                stock::shift(conn, order, movement).await?;
                return Ok(Reservation { state: to, ..reservation });
            }
            (Decision::Bury, None) => {
                // Where a reservation came in between, the row is there from now on, and is decided about once more.
                reservations::insert(conn, order, ReservationState::Released).await?;
                current = reservations::lock(conn, order).await?;
            }
            _ => return Err(Error::Conflict),
        }
    }
}
