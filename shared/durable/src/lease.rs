//! A lease: one process at a time may act, and one that lost the right cannot write any more.
//!
//! Problem: several replicas run the same background job, and a job that runs twice at once does harm or waste. A
//! lock held in an open transaction is lost with its connection and kept by a paused process.
//!
//! Rule: a row with a holder, an expiry on the *database's* clock and a token that every acquisition raises. The
//! holder renews it well before it expires, stops by itself when it cannot, and makes its writes conditional on the
//! token, because a paused process does not know that its time is over.
//!
//! Not for work on single rows: `for update skip locked` with a lease column on the row does that better.
//!
//! When copying: the time to live must exceed the longest pause that should not cost the lease, and it is also how
//! long nobody acts after a crash.

use std::time::Duration;

use sqlx::{PgExecutor, postgres::types::PgInterval};
use tokio::time::Instant;
use uuid::Uuid;

/// A lease that was granted, as its holder knows it.
#[derive(Debug, Clone)]
pub struct Lease {
    name: &'static str,
    token: i64,
    ttl: Duration,
    valid_until: Instant,
}

/// Asks for the lease `name` on behalf of `holder` (an id that a process makes at its start). `None` while somebody
/// else holds it. A holder that asks again gets it again, with a higher token.
pub async fn acquire(
    executor: impl PgExecutor<'_>,
    name: &'static str,
    holder: Uuid,
    ttl: Duration,
) -> sqlx::Result<Option<Lease>> {
    // Taken before the question leaves, so that our own idea of the expiry is never later than the database's.
    let asked = Instant::now();
    let token: Option<i64> = sqlx::query_scalar(
        "insert into leases (name, holder, expires_at) values ($1, $2, clock_timestamp() + $3)
         on conflict on constraint leases_pkey do update
            set holder = excluded.holder, token = leases.token + 1, expires_at = clock_timestamp() + $3
          where leases.expires_at <= clock_timestamp() or leases.holder = excluded.holder
         returning token",
    )
    .bind(name)
    .bind(holder)
    .bind(interval(ttl))
    .fetch_optional(executor)
    .await?;
    Ok(token.map(|token| Lease { name, token, ttl, valid_until: asked + ttl }))
}

impl Lease {
    /// Holds it for another time to live. False: it is lost, and the holder has to stop.
    pub async fn renew(&mut self, executor: impl PgExecutor<'_>) -> sqlx::Result<bool> {
        let asked = Instant::now();
        let renewed = sqlx::query(
            "update leases set expires_at = clock_timestamp() + $3
              where name = $1 and token = $2 and expires_at > clock_timestamp()",
        )
        .bind(self.name)
        .bind(self.token)
        .bind(interval(self.ttl))
        .execute(executor)
        .await?
        .rows_affected()
            == 1;
        if renewed {
            self.valid_until = asked + self.ttl;
        }
        Ok(renewed)
    }

    /// Lets the next one have it at once. Nothing happens when it is lost already.
    pub async fn release(self, executor: impl PgExecutor<'_>) -> sqlx::Result<()> {
        sqlx::query("update leases set expires_at = clock_timestamp() where name = $1 and token = $2")
            .bind(self.name)
            .bind(self.token)
            .execute(executor)
            .await
            .map(drop)
    }

    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Goes into the condition of every write that the lease protects.
    #[must_use]
    pub fn token(&self) -> i64 {
        self.token
    }

    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// When the holder has to stop, whatever the database would say if it could be asked.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.valid_until
    }
}

pub(crate) fn interval(duration: Duration) -> PgInterval {
    PgInterval { months: 0, days: 0, microseconds: i64::try_from(duration.as_micros()).unwrap_or(i64::MAX) }
}
