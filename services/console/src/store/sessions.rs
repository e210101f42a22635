//! Sessions. One is over when its time is, when it was not used for too long, or when its operator ends it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgConnection};

use crate::{Error, domain::session::SessionHash};

/// A working day.
pub const LASTS: Duration = Duration::from_secs(8 * 60 * 60);
/// Longer than a look at something else.
pub const IDLE: Duration = Duration::from_secs(60 * 60);
/// Of one operator at once; the one that was not used for longest gives way.
const MOST: i64 = 20;

/// A session that is not over.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Session {
    pub operator: String,
    pub expires_at: DateTime<Utc>,
}

pub async fn begin(conn: &mut PgConnection, hash: &SessionHash, operator: &str) -> Result<Session, Error> {
    sqlx::query(
        "delete from sessions where id_hash in
            (select id_hash from sessions where operator = $1 order by used_at desc offset $2)",
    )
    .bind(operator)
    .bind(MOST - 1)
    .execute(&mut *conn)
    .await?;
    let begun = sqlx::query_as(
        "insert into sessions (id_hash, operator, expires_at) values ($1, $2, now() + make_interval(secs => $3))
         returning operator, expires_at",
    )
    .bind(hash.as_bytes())
    .bind(operator)
    .bind(LASTS.as_secs_f64())
    .fetch_one(conn)
    .await?;
    Ok(begun)
}

/// The session, if it is not over; it counts as used by this.
pub async fn find(conn: &mut PgConnection, hash: &SessionHash) -> Result<Option<Session>, Error> {
    let found: Option<(String, DateTime<Utc>, bool)> = sqlx::query_as(
        "select operator, expires_at, used_at < now() - interval '1 minute' from sessions
          where id_hash = $1 and expires_at > now() and used_at > now() - make_interval(secs => $2)",
    )
    .bind(hash.as_bytes())
    .bind(IDLE.as_secs_f64())
    .fetch_optional(&mut *conn)
    .await?;
    let Some((operator, expires_at, is_to_be_noted)) = found else { return Ok(None) };
    if is_to_be_noted {
        sqlx::query("update sessions set used_at = now() where id_hash = $1")
            .bind(hash.as_bytes())
            .execute(conn)
            .await?;
    }
    Ok(Some(Session { operator, expires_at }))
}

pub async fn end(conn: &mut PgConnection, hash: &SessionHash) -> Result<(), Error> {
    sqlx::query("delete from sessions where id_hash = $1").bind(hash.as_bytes()).execute(conn).await?;
    Ok(())
}

/// Removes those that are over.
pub async fn prune(conn: &mut PgConnection) -> Result<u64, Error> {
    let over =
        sqlx::query("delete from sessions where expires_at <= now() or used_at <= now() - make_interval(secs => $1)")
            .bind(IDLE.as_secs_f64())
            .execute(conn)
            .await?;
    Ok(over.rows_affected())
}
