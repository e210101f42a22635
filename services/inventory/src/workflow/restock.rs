//! New goods, once for each reference.

use contracts::{
    inventory::{Restock, StockLevel},
    validate::Code,
};
use durable::Database;
use resilience::Deadline;

use crate::{
    Error,
    store::{
        restocks::{self, Noted},
        stock,
    },
};

/// The level afterwards, which is also what a repetition gets.
pub async fn restock(
    database: &Database,
    deadline: Deadline,
    sku: &Code,
    delivery: &Restock,
) -> Result<StockLevel, Error> {
    let mut tx = database.begin(deadline).await?;
    match restocks::note(&mut tx, &delivery.reference, sku, delivery.quantity).await? {
        Noted::New if stock::add(&mut tx, sku, delivery.quantity).await? => {}
        Noted::New => return Err(Error::NoProduct(sku.as_str().to_owned())),
        Noted::Again => {}
        Noted::Other => return Err(Error::ReferenceReused(delivery.reference.clone())),
    }
    let level = stock::level(&mut tx, sku).await?.ok_or_else(|| Error::NoProduct(sku.as_str().to_owned()))?;
    tx.commit().await?;
    Ok(level)
}
