//! Stock. Whoever touches several rows locks them in the order of their SKUs, so that no two wait for each other.

use contracts::{OrderId, inventory::StockLevel, order::ItemRequest, validate::Code};
use sqlx::{FromRow, PgConnection};

use super::currency;
use crate::{Error, domain::Movement};

/// A product that was asked for, as it was found.
#[derive(Debug, FromRow)]
pub struct Found {
    pub sku: String,
    pub name: String,
    pub quantity: i64,
    pub unit_price_minor: i64,
    pub currency: String,
    /// Before anything was taken.
    pub available: i64,
}

/// Reserves all of `items` for `order` and notes them with today's prices, or does nothing at all: then a product is
/// missing from the answer, or fewer units were available than asked for.
///
/// One statement, so that the rows are held for one round trip and the commit.
pub async fn reserve(conn: &mut PgConnection, order: OrderId, items: &[ItemRequest]) -> Result<Vec<Found>, Error> {
    let skus: Vec<&str> = items.iter().map(|item| item.sku.as_str()).collect();
    let quantities: Vec<i64> = items.iter().map(|item| item.quantity).collect();
    let found = sqlx::query_as(
        "with wanted as (
             select * from unnest($2::text[], $3::bigint[]) with ordinality as w (sku, quantity, position)
         ), locked as (
             select s.sku, s.on_hand - s.reserved as available, w.quantity, w.position
               from stock s join wanted w on w.sku = s.sku
              order by s.sku
                for update of s
         ), enough as (
             select count(*) = cardinality($2::text[]) and bool_and(available >= quantity) as yes from locked
         ), taken as (
             update stock s
                set reserved = s.reserved + l.quantity
               from locked l, enough
              where s.sku = l.sku and enough.yes and s.on_hand - s.reserved >= l.quantity
         ), noted as (
             insert into reservation_items (order_id, position, sku, name, quantity, unit_price_minor, currency)
             select $1, l.position, p.sku, p.name, l.quantity, p.unit_price_minor, p.currency
               from locked l join products p on p.sku = l.sku, enough
              where enough.yes
         )
         select p.sku, p.name, l.quantity, p.unit_price_minor, p.currency, l.available
           from locked l join products p on p.sku = l.sku
          order by l.position",
    )
    .bind(order.as_uuid())
    .bind(skus)
    .bind(quantities)
    .fetch_all(conn)
    .await?;
    Ok(found)
}

/// Moves the units of all items that `order` has reserved.
pub async fn shift(conn: &mut PgConnection, order: OrderId, movement: Movement) -> Result<(), Error> {
    let (on_hand, reserved, sold) = movement.per_unit();
    sqlx::query(
        "with locked as (
             select s.sku, i.quantity
               from stock s join reservation_items i on i.sku = s.sku
              where i.order_id = $1
              order by s.sku
                for update of s
         )
         update stock s
            set on_hand = s.on_hand + $2 * l.quantity,
                reserved = s.reserved + $3 * l.quantity,
                sold = s.sold + $4 * l.quantity
           from locked l
          where s.sku = l.sku",
    )
    .bind(order.as_uuid())
    .bind(on_hand)
    .bind(reserved)
    .bind(sold)
    .execute(conn)
    .await?;
    Ok(())
}

/// New goods. False: there is no such product.
pub async fn add(conn: &mut PgConnection, sku: &Code, units: i64) -> Result<bool, Error> {
    let updated = sqlx::query("update stock set on_hand = on_hand + $2, received = received + $2 where sku = $1")
        .bind(sku.as_str())
        .bind(units)
        .execute(conn)
        .await?;
    Ok(updated.rows_affected() == 1)
}

pub async fn level(conn: &mut PgConnection, sku: &Code) -> Result<Option<StockLevel>, Error> {
    let row: Option<Row> = sqlx::query_as(
        "select s.sku, p.name, p.unit_price_minor, p.currency, s.on_hand, s.reserved
           from stock s join products p on p.sku = s.sku
          where s.sku = $1",
    )
    .bind(sku.as_str())
    .fetch_optional(conn)
    .await?;
    row.map(StockLevel::try_from).transpose()
}

/// At most `limit` products by SKU, from the first one behind `after`.
pub async fn page(conn: &mut PgConnection, after: Option<&Code>, limit: i64) -> Result<Vec<StockLevel>, Error> {
    let rows: Vec<Row> = sqlx::query_as(
        "select s.sku, p.name, p.unit_price_minor, p.currency, s.on_hand, s.reserved
           from stock s join products p on p.sku = s.sku
          where s.sku > $1
          order by s.sku
          limit $2",
    )
    // The empty text sorts before every SKU.
    .bind(after.map_or("", Code::as_str))
    .bind(limit)
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(StockLevel::try_from).collect()
}

#[derive(FromRow)]
struct Row {
    sku: String,
    name: String,
    unit_price_minor: i64,
    currency: String,
    on_hand: i64,
    reserved: i64,
}

impl TryFrom<Row> for StockLevel {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self, Error> {
        Ok(Self {
            currency: currency(&row.currency)?,
            sku: row.sku,
            name: row.name,
            unit_price_minor: row.unit_price_minor,
            on_hand: row.on_hand,
            reserved: row.reserved,
            available: row.on_hand - row.reserved,
        })
    }
}
