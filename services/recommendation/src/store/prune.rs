//! What no longer says anything is deleted, a bounded number of rows at a time.

use sqlx::PgPool;

/// An order weighs less than a hundredth after this.
pub const TRENDING_DAYS: i32 = 14;
/// So long a purchase keeps a product from being recommended to its buyer again.
pub const OWNED_DAYS: i32 = 30;
/// Half a year without a common order: the season or the catalogue has changed.
pub const TOGETHER_DAYS: i32 = 180;

/// Deletes at most `limit` rows of each table, and says how many rows it deleted of the fullest.
pub async fn prune(pool: &PgPool, limit: i64) -> sqlx::Result<u64> {
    let trending = sqlx::query(
        "delete from trending where (day, sku) in (
             select day, sku from trending where day <= (now() at time zone 'utc')::date - $1::int
              order by day, sku limit $2)",
    )
    .bind(TRENDING_DAYS)
    .bind(limit)
    .execute(pool)
    .await?;
    let owned = sqlx::query(
        "delete from recent_purchases where (user_id, sku) in (
             select user_id, sku from recent_purchases where bought_at <= now() - make_interval(days => $1)
              order by bought_at limit $2)",
    )
    .bind(OWNED_DAYS)
    .bind(limit)
    .execute(pool)
    .await?;
    let together = sqlx::query(
        "delete from bought_together where (sku, partner) in (
             select sku, partner from bought_together where last_bought_at <= now() - make_interval(days => $1)
              order by sku, partner limit $2)",
    )
    .bind(TOGETHER_DAYS)
    .bind(limit)
    .execute(pool)
    .await?;
    Ok(trending.rows_affected().max(owned.rows_affected()).max(together.rows_affected()))
}
