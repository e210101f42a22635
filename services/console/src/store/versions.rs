//! Versions of the rules.

use chrono::{DateTime, Utc};
use contracts::ruling::{Version, VersionState, Versions};
use sqlx::{FromRow, PgConnection};

use super::{corrupt, paged};
use crate::Error;

/// Those before the version `below`, newest first.
pub async fn page(conn: &mut PgConnection, limit: i64, below: i64) -> Result<Versions, Error> {
    let rows: Vec<Row> = sqlx::query_as(
        "select version, state, author, owner, reason, based_on, canary, created_at, activated_at
           from rule_versions where version < $1 order by version desc limit $2",
    )
    .bind(below)
    .bind(limit + 1)
    .fetch_all(&mut *conn)
    .await?;
    let (rows, next_cursor) = paged(rows, limit, |row| row.version);
    let active =
        sqlx::query_scalar("select version from rule_versions where state = 'active'").fetch_optional(conn).await?;
    let items = rows.into_iter().map(Row::item).collect::<Result<_, _>>()?;
    Ok(Versions { items, next_cursor, active })
}

#[derive(FromRow)]
struct Row {
    version: i64,
    state: String,
    author: String,
    owner: String,
    reason: String,
    based_on: Option<i64>,
    canary: Option<Vec<String>>,
    created_at: DateTime<Utc>,
    activated_at: Option<DateTime<Utc>>,
}

impl Row {
    fn item(self) -> Result<Version, Error> {
        let Self { version, author, owner, reason, based_on, canary, created_at, activated_at, .. } = self;
        let state = state(&self.state)?;
        Ok(Version { version, state, author, owner, reason, created_at, activated_at, canary, based_on })
    }
}

fn state(text: &str) -> Result<VersionState, Error> {
    let known = VersionState::ALL.into_iter().find(|state| state.as_str() == text);
    known.ok_or_else(|| corrupt(format!("rule_versions.state: {text}")))
}
