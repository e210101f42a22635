//! Idempotency keys: a request that is sent again has the effect of one.
//!
//! Problem: a client whose answer was lost has to send again, and cannot know whether the first request did its work.
//! Checking for a key and then inserting it lets two through; a key whose request died blocks for ever; a lease alone
//! lets the first run, back from a pause, write beside the second.
//!
//! Rule: the claim is one insert that commits on its own, before any work, so that a duplicate is told at once instead
//! of waiting on a row lock. It **fixes the id of what is to be made**, so that whoever takes the work over resumes it
//! and never makes another. It carries a lease, and an `attempt` that a take-over raises: each later phase checks in
//! its own transaction that the attempt is still its own ([`still_held`]), and the outcome is recorded in the
//! transaction that makes it true ([`complete`]). A key is given back ([`release`]) only when nothing can have
//! happened under it.
//!
//! Not for requests that are naturally idempotent (PUT to an id that the client chose): their id is the key.
//!
//! When copying: the table is in `migrations/order/0100_idempotency.sql`. The lease has to outlast the longest run.
//! Keys must not be pruned while what they made can still change; that condition is the owner's, see its prune job.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::lease::interval;

/// Whose key it is, and for what. The same key of another user, or on another route, is another key.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub user: Uuid,
    pub method: &'a str,
    pub path: &'a str,
    pub key: &'a str,
}

/// A hash of what was asked for, so that a key cannot be used for something else.
pub type Fingerprint = [u8; 32];

/// What a claim found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The work is the caller's.
    Held(Held),
    /// An earlier run holds it for this much longer.
    InFlight { lease_left: Duration },
    /// The key was used for another request.
    Reused,
    /// The work came to its outcome: this status.
    Done { resource: Uuid, status: u16 },
}

/// The right to work on `resource`, until somebody takes it over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    pub resource: Uuid,
    pub attempt: i32,
}

impl Held {
    /// Whether an earlier run may have done part of the work.
    #[must_use]
    pub const fn is_take_over(&self) -> bool {
        self.attempt > 1
    }
}

#[derive(sqlx::FromRow)]
struct KeyRow {
    resource_id: Uuid,
    fingerprint: Vec<u8>,
    attempt: i32,
    outcome: Option<i16>,
    lease_left_ms: i64,
}

/// How often a claim looks again when the row changes under its eyes.
const MAX_LOOKS: u32 = 5;

/// Claims the key, or says who has it. `new_resource` becomes the resource's id if the key is new.
pub async fn claim(
    pool: &PgPool,
    scope: Scope<'_>,
    fingerprint: &Fingerprint,
    new_resource: Uuid,
    lease: Duration,
) -> sqlx::Result<Claim> {
    for _ in 0..MAX_LOOKS {
        if insert(pool, scope, fingerprint, new_resource, lease).await? {
            return Ok(Claim::Held(Held { resource: new_resource, attempt: 1 }));
        }
        // Gone again: its work was given back between the two statements.
        let Some(row) = find(pool, scope).await? else { continue };
        if row.fingerprint != fingerprint {
            return Ok(Claim::Reused);
        }
        if let Some(status) = row.outcome {
            return Ok(Claim::Done { resource: row.resource_id, status: status.unsigned_abs() });
        }
        if let Ok(left @ 1..) = u64::try_from(row.lease_left_ms) {
            return Ok(Claim::InFlight { lease_left: Duration::from_millis(left) });
        }
        if let Some(attempt) = take_over(pool, row.resource_id, row.attempt, lease).await? {
            return Ok(Claim::Held(Held { resource: row.resource_id, attempt }));
        }
    }
    Ok(Claim::InFlight { lease_left: Duration::ZERO })
}

async fn insert(
    pool: &PgPool,
    scope: Scope<'_>,
    fingerprint: &Fingerprint,
    resource: Uuid,
    lease: Duration,
) -> sqlx::Result<bool> {
    let inserted = sqlx::query(
        "insert into idempotency_keys (user_id, method, path, key, fingerprint, resource_id, lease_until)
         values ($1, $2, $3, $4, $5, $6, clock_timestamp() + $7)
         on conflict on constraint idempotency_keys_pkey do nothing",
    )
    .bind(scope.user)
    .bind(scope.method)
    .bind(scope.path)
    .bind(scope.key)
    .bind(fingerprint.as_slice())
    .bind(resource)
    .bind(interval(lease))
    .execute(pool)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

async fn find(pool: &PgPool, scope: Scope<'_>) -> sqlx::Result<Option<KeyRow>> {
    sqlx::query_as(
        "select resource_id, fingerprint, attempt, outcome,
                ceil(extract(epoch from lease_until - clock_timestamp()) * 1000)::bigint as lease_left_ms
           from idempotency_keys where user_id = $1 and method = $2 and path = $3 and key = $4",
    )
    .bind(scope.user)
    .bind(scope.method)
    .bind(scope.path)
    .bind(scope.key)
    .fetch_optional(pool)
    .await
}

/// Takes the work over from a run whose lease has expired, unless somebody else was faster.
async fn take_over(pool: &PgPool, resource: Uuid, attempt: i32, lease: Duration) -> sqlx::Result<Option<i32>> {
    sqlx::query_scalar(
        "update idempotency_keys set attempt = attempt + 1, lease_until = clock_timestamp() + $3
          where resource_id = $1 and attempt = $2 and outcome is null and lease_until <= clock_timestamp()
          returning attempt",
    )
    .bind(resource)
    .bind(attempt)
    .bind(interval(lease))
    .fetch_optional(pool)
    .await
}

/// Takes over up to `limit` resources of the `candidates` whose run has died. Rows that another replica is taking
/// over at this moment are skipped.
pub async fn take_over_expired(
    pool: &PgPool,
    candidates: &[Uuid],
    lease: Duration,
    limit: i64,
) -> sqlx::Result<Vec<Held>> {
    let rows: Vec<(Uuid, i32)> = sqlx::query_as(
        "update idempotency_keys set attempt = attempt + 1, lease_until = clock_timestamp() + $2
          where resource_id in (
                select resource_id from idempotency_keys
                 where resource_id = any($1) and outcome is null and lease_until <= clock_timestamp()
                 order by lease_until limit $3 for update skip locked)
          returning resource_id, attempt",
    )
    .bind(candidates)
    .bind(interval(lease))
    .bind(limit)
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|(resource, attempt)| Held { resource, attempt }).collect())
}

/// Whether `held` is still the caller's. Asked in the transaction of every phase; the row stays locked until its end,
/// so that nobody takes over in between.
pub async fn still_held(conn: &mut PgConnection, held: Held) -> sqlx::Result<bool> {
    let row: Option<(i32,)> = sqlx::query_as(
        "select attempt from idempotency_keys where resource_id = $1 and attempt = $2 and outcome is null for update",
    )
    .bind(held.resource)
    .bind(held.attempt)
    .fetch_optional(conn)
    .await?;
    Ok(row.is_some())
}

/// Records the status by which the work was first answered. Does nothing if there is one already.
pub async fn complete(conn: &mut PgConnection, resource: Uuid, status: u16) -> sqlx::Result<()> {
    sqlx::query("update idempotency_keys set outcome = $2 where resource_id = $1 and outcome is null")
        .bind(resource)
        .bind(i16::try_from(status).unwrap_or(i16::MAX))
        .execute(conn)
        .await
        .map(drop)
}

/// Gives the key back, so that the client's next request with it starts anew.
pub async fn release(conn: &mut PgConnection, resource: Uuid) -> sqlx::Result<()> {
    sqlx::query("delete from idempotency_keys where resource_id = $1 and outcome is null")
        .bind(resource)
        .execute(conn)
        .await
        .map(drop)
}
