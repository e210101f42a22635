//! The catalogue.

use sqlx::PgConnection;

use crate::Error;

/// A product and what of it is there at first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewProduct {
    pub sku: String,
    pub name: String,
    pub unit_price_minor: i64,
    pub currency: &'static str,
    pub on_hand: i64,
}

/// Adds the products that are not there yet, each with its stock, and says how many those were. The others keep the
/// stock that they have.
pub async fn add_missing(conn: &mut PgConnection, products: &[NewProduct]) -> Result<u64, Error> {
    let added = sqlx::query(
        "with listed as (
             select * from unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[])
                 as l (sku, name, unit_price_minor, currency, on_hand)
         ), added as (
             insert into products (sku, name, unit_price_minor, currency)
             select sku, name, unit_price_minor, currency from listed order by sku
             on conflict on constraint products_pkey do nothing
             returning sku
         )
         insert into stock (sku, on_hand, received)
         select l.sku, l.on_hand, l.on_hand from listed l join added a on a.sku = l.sku",
    )
    .bind(products.iter().map(|p| p.sku.as_str()).collect::<Vec<_>>())
    .bind(products.iter().map(|p| p.name.as_str()).collect::<Vec<_>>())
    .bind(products.iter().map(|p| p.unit_price_minor).collect::<Vec<_>>())
    .bind(products.iter().map(|p| p.currency).collect::<Vec<_>>())
    .bind(products.iter().map(|p| p.on_hand).collect::<Vec<_>>())
    .execute(conn)
    .await?;
    Ok(added.rows_affected())
}
