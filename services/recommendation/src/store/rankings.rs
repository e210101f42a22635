//! What purchases add up to.

use std::collections::HashSet;

use contracts::{UserId, recommendation::Recommended};
use sqlx::PgConnection;

use super::prune::{OWNED_DAYS, TRENDING_DAYS};

/// After so many days a purchase counts for half in what is trending.
const HALF_LIFE_DAYS: f64 = 2.0;

/// Products that a user owns and that are left out, at most.
const MAX_OWNED: i64 = 200;

type Row = (String, String, f64);

/// The products most often bought together with `sku`, scored by the number of orders.
pub async fn bought_together(conn: &mut PgConnection, sku: &str, limit: i64) -> sqlx::Result<Vec<Recommended>> {
    let rows: Vec<Row> = sqlx::query_as(
        "select t.partner, p.name, t.orders::float8 from bought_together t join products p on p.sku = t.partner
          where t.sku = $1 order by t.orders desc, t.last_bought_at desc, t.partner limit $2",
    )
    .bind(sku)
    .bind(limit)
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(recommended).collect())
}

/// The products in most orders of late, where an order of today counts as 1 and older ones for less.
pub async fn trending(conn: &mut PgConnection, limit: i64) -> sqlx::Result<Vec<Recommended>> {
    let rows: Vec<Row> = sqlx::query_as(
        "select t.sku, p.name, t.score from (
             select sku, sum(orders * power(0.5::float8, greatest(0, today - day) / $2::float8)) as score
               from trending, (select (now() at time zone 'utc')::date as today) as clock
              where day > today - $3::int group by sku order by score desc, sku limit $1
         ) as t join products p on p.sku = t.sku order by t.score desc, t.sku",
    )
    .bind(limit)
    .bind(HALF_LIFE_DAYS)
    .bind(TRENDING_DAYS)
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(recommended).collect())
}

/// What `user` bought of late.
pub async fn owned(conn: &mut PgConnection, user: UserId) -> sqlx::Result<HashSet<String>> {
    let skus: Vec<String> = sqlx::query_scalar(
        "select sku from recent_purchases where user_id = $1 and bought_at > now() - make_interval(days => $2)
          order by bought_at desc, sku limit $3",
    )
    .bind(user.as_uuid())
    .bind(OWNED_DAYS)
    .bind(MAX_OWNED)
    .fetch_all(conn)
    .await?;
    Ok(skus.into_iter().collect())
}

fn recommended((sku, name, score): Row) -> Recommended {
    Recommended { sku, name, score }
}
