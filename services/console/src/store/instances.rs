//! What each instance said last of the rules that it runs on.

use chrono::{DateTime, Utc};
use contracts::ruling::{AppliedRules, Instance};
use sqlx::{FromRow, PgConnection};

use crate::Error;

pub async fn put(conn: &mut PgConnection, applied: &AppliedRules) -> Result<(), Error> {
    sqlx::query(
        "insert into rule_instances (service, instance, version, origin, error) values ($1, $2, $3, $4, $5)
         on conflict on constraint rule_instances_pkey
         do update set version = excluded.version, origin = excluded.origin, error = excluded.error, at = now()",
    )
    .bind(applied.service.as_str())
    .bind(&applied.instance)
    .bind(applied.version)
    .bind(&applied.origin)
    .bind(&applied.error)
    .execute(conn)
    .await?;
    Ok(())
}

/// All, by name; what each should run on is not known here.
pub async fn all(conn: &mut PgConnection) -> Result<Vec<Instance>, Error> {
    let rows: Vec<Row> = sqlx::query_as(
        "select service, instance, version, origin, error, at from rule_instances order by service, instance",
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(Row::instance).collect())
}

/// One that runs on rules which came from no version.
pub async fn on_rules_of_its_own(conn: &mut PgConnection) -> Result<Option<String>, Error> {
    let found = sqlx::query_scalar(
        "select instance from rule_instances where origin in ('file', 'last_known_good') order by instance limit 1",
    );
    Ok(found.fetch_optional(conn).await?)
}

/// Forgets those that have said nothing for a day: they report every minute, so that they are gone.
pub async fn forget_gone(conn: &mut PgConnection) -> Result<u64, Error> {
    let gone = sqlx::query("delete from rule_instances where at < now() - interval '1 day'").execute(conn).await?;
    Ok(gone.rows_affected())
}

#[derive(FromRow)]
struct Row {
    service: String,
    instance: String,
    version: i64,
    origin: String,
    error: Option<String>,
    at: DateTime<Utc>,
}

impl Row {
    fn instance(self) -> Instance {
        let Self { service, instance, version, origin, error, at } = self;
        Instance { service, instance, version, origin, at, error, expected: None }
    }
}
