//! What only the owner of an idempotency key can know: whose work stands still, and which keys may go.

use std::time::Duration;

use durable::idempotency::{self, Held};
use sqlx::{PgPool, postgres::types::PgInterval};
use uuid::Uuid;

/// Takes over orders that a dead run left in a state from which only a run can move them.
pub async fn take_over_standing(pool: &PgPool, lease: Duration, limit: i64) -> sqlx::Result<Vec<Held>> {
    let standing: Vec<Uuid> = sqlx::query_scalar(
        "select k.resource_id from idempotency_keys k join orders o on o.id = k.resource_id
          where k.outcome is null and k.lease_until <= clock_timestamp()
            and o.status in ('created', 'stock_reserved', 'payment_in_flight')
          order by k.lease_until limit $1",
    )
    .bind(limit)
    .fetch_all(pool)
    .await?;
    if standing.is_empty() {
        return Ok(Vec::new());
    }
    idempotency::take_over_expired(pool, &standing, lease, limit).await
}

/// Deletes at most `limit` keys older than `retention`, and says how many. A key stays while its order is not final,
/// its attempt unsettled or a refund due: the client's repeated request would otherwise make a second order while the
/// first can still be charged.
pub async fn prune(pool: &PgPool, retention: Duration, limit: i64) -> sqlx::Result<u64> {
    let retention = PgInterval::try_from(retention).map_err(sqlx::Error::Encode)?;
    let deleted = sqlx::query(
        "delete from idempotency_keys where resource_id in (
             select k.resource_id from idempotency_keys k left join orders o on o.id = k.resource_id
              where k.created_at < now() - $1
                and k.lease_until < now()
                and (o.id is null or (o.status in ('confirmed', 'rejected', 'cancelled')
                     and not exists (select 1 from refunds r where r.order_id = o.id and r.state = 'requested')
                     and o.payment_state in ('none', 'approved', 'declined', 'not_dispatched', 'fenced', 'refunded')))
              order by k.created_at limit $2)",
    )
    .bind(retention)
    .bind(limit)
    .execute(pool)
    .await?;
    Ok(deleted.rows_affected())
}
