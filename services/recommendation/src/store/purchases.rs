//! What one purchase adds.
//!
//! Every statement writes its rows in the order of their keys, and all purchases take the tables in the same order, so
//! that two of them never wait for each other in a circle.

use sqlx::PgConnection;

use crate::domain::Purchase;

/// To be called once a purchase, in the transaction of the inbox row.
pub async fn record(conn: &mut PgConnection, purchase: &Purchase) -> sqlx::Result<()> {
    let skus: Vec<&str> = purchase.products.iter().map(|product| product.sku.as_str()).collect();
    let names: Vec<&str> = purchase.products.iter().map(|product| product.name.as_str()).collect();
    // A name that did not change is not written again: most orders only read here.
    sqlx::query(
        "insert into products (sku, name, named_at)
         select sku, name, $3 from unnest($1::text[], $2::text[]) as bought (sku, name) order by sku
         on conflict on constraint products_pkey do update set name = excluded.name, named_at = excluded.named_at
          where products.name <> excluded.name and products.named_at < excluded.named_at",
    )
    .bind(&skus)
    .bind(&names)
    .bind(purchase.at)
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "insert into bought_together (sku, partner, last_bought_at)
         select a.sku, b.sku, $2 from unnest($1::text[]) as a (sku) cross join unnest($1::text[]) as b (sku)
          where a.sku <> b.sku order by a.sku, b.sku
         on conflict on constraint bought_together_pkey do update
            set orders = bought_together.orders + 1,
                last_bought_at = greatest(bought_together.last_bought_at, excluded.last_bought_at)",
    )
    .bind(&skus)
    .bind(purchase.at)
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "insert into trending (day, sku)
         select ($2 at time zone 'utc')::date, sku from unnest($1::text[]) as bought (sku) order by sku
         on conflict on constraint trending_pkey do update set orders = trending.orders + 1",
    )
    .bind(&skus)
    .bind(purchase.at)
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "insert into recent_purchases (user_id, sku, bought_at)
         select $2, sku, $3 from unnest($1::text[]) as bought (sku) order by sku
         on conflict on constraint recent_purchases_pkey do update
            set bought_at = greatest(recent_purchases.bought_at, excluded.bought_at)",
    )
    .bind(&skus)
    .bind(purchase.user.as_uuid())
    .bind(purchase.at)
    .execute(&mut *conn)
    .await?;
    Ok(())
}
