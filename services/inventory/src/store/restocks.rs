//! Deliveries by reference.

use contracts::validate::Code;
use sqlx::PgConnection;

use crate::Error;

/// What became of writing a delivery down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted {
    New,
    /// The same delivery was told of before.
    Again,
    /// The reference belongs to another delivery.
    Other,
}

pub async fn note(conn: &mut PgConnection, reference: &str, sku: &Code, quantity: i64) -> Result<Noted, Error> {
    let inserted = sqlx::query(
        "insert into restocks (reference, sku, quantity) values ($1, $2, $3)
         on conflict on constraint restocks_pkey do nothing",
    )
    .bind(reference)
    .bind(sku.as_str())
    .bind(quantity)
    .execute(&mut *conn)
    .await?;
    if inserted.rows_affected() == 1 {
        return Ok(Noted::New);
    }
    let same: bool = sqlx::query_scalar("select sku = $2 and quantity = $3 from restocks where reference = $1")
        .bind(reference)
        .bind(sku.as_str())
        .bind(quantity)
        .fetch_one(conn)
        .await?;
    Ok(if same { Noted::Again } else { Noted::Other })
}
