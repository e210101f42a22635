//! Reserving: all of an order's items, or none of them.
//!
//! The order's own row is made first, so that a request which was sent twice waits there, before it holds any product.
//! The products come last and are held for one statement and the commit, since others queue for them.

use contracts::{
    OrderId,
    inventory::{Reservation, ReservationState},
    order::{ItemRequest, OrderItem},
};
use durable::Database;
use resilience::Deadline;

use crate::{
    Error,
    domain::{Command, Decision, decide},
    store::{
        self, reservations,
        stock::{self, Found},
    },
};

/// A reservation that stands now.
#[derive(Debug)]
pub enum Reserved {
    New(Reservation),
    /// It stood before.
    Again(Reservation),
}

/// A refusal means that nothing was reserved by this call. Where the database did not answer, it may have been: the
/// commit may have taken effect. The same call again finds out.
pub async fn reserve(
    database: &Database,
    deadline: Deadline,
    order: OrderId,
    items: &[ItemRequest],
) -> Result<Reserved, Error> {
    let mut tx = database.begin(deadline).await?;
    let current = if reservations::insert(&mut tx, order, ReservationState::Held).await? {
        None
    } else {
        reservations::find(&mut tx, order).await?
    };
    let decision =
        decide(current.as_ref(), Command::Reserve(items)).map_err(|refusal| Error::Reservation { order, refusal })?;
    match (decision, current) {
        (Decision::Hold, None) => {
            let found = stock::reserve(&mut tx, order, items).await?;
            match judge(order, items, found) {
                Ok(reservation) => {
                    tx.commit().await?;
                    Ok(Reserved::New(reservation))
                }
                Err(refusal) => {
                    // Others are waiting for these rows; a transaction that is only dropped ends a little later.
                    tx.rollback().await?;
                    Err(refusal)
                }
            }
        }
        (Decision::Stands, Some(mut reservation)) => {
            let place = |sku: &str| items.iter().position(|item| item.sku == sku);
            reservation.items.sort_by_key(|item| place(&item.sku));
            Ok(Reserved::Again(reservation))
        }
        _ => Err(Error::Conflict),
    }
}

/// The reservation, or why there is none.
fn judge(order: OrderId, items: &[ItemRequest], found: Vec<Found>) -> Result<Reservation, Error> {
    if let Some(unknown) = items.iter().find(|item| !found.iter().any(|f| f.sku == item.sku)) {
        return Err(Error::UnknownSku { sku: unknown.sku.clone() });
    }
    if let Some(short) = found.iter().find(|f| f.available < f.quantity) {
        return Err(Error::OutOfStock { sku: short.sku.clone(), available: short.available });
    }
    let first = found.first().map(|f| f.currency.clone()).unwrap_or_default();
    if let Some(item) = found.iter().position(|f| f.currency != first) {
        return Err(Error::SeveralCurrencies { item });
    }
    let currency = store::currency(&first)?;
    let items = found
        .into_iter()
        .map(|f| OrderItem { sku: f.sku, name: f.name, quantity: f.quantity, unit_price_minor: f.unit_price_minor })
        .collect();
    Ok(Reservation { order_id: order, state: ReservationState::Held, items, currency })
}
