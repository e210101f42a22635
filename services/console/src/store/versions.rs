//! Versions of the rules.

use chrono::{DateTime, Utc};
use contracts::ruling::{Version, VersionState, VersionWithDocument, Versions};
use sqlx::{FromRow, PgConnection};

use super::{corrupt, paged};
use crate::{
    Error,
    domain::{Change, Held, InForce, Refusal, Standing},
};

/// A version on its way into the history.
#[derive(Debug, Clone, Copy)]
pub struct Written<'a> {
    pub version: i64,
    /// `Draft`, or `Active` for one that comes into force at once.
    pub state: VersionState,
    pub document: &'a str,
    pub author: &'a str,
    pub owner: &'a str,
    pub reason: &'a str,
    pub based_on: Option<i64>,
}

/// Every version with its state, for a decision that holds until the transaction ends: whoever else wants to decide
/// waits, and reading goes on.
pub async fn to_decide_on(conn: &mut PgConnection) -> Result<Vec<Standing>, Error> {
    sqlx::query("lock table rule_versions in share row exclusive mode").execute(&mut *conn).await?;
    let rows: Vec<(i64, String)> =
        sqlx::query_as("select version, state from rule_versions order by version").fetch_all(conn).await?;
    rows.into_iter().map(|(version, text)| Ok(Standing { version, state: state(&text)? })).collect()
}

pub async fn add(conn: &mut PgConnection, new: Written<'_>) -> Result<(), Error> {
    sqlx::query(
        "insert into rule_versions (version, state, document, author, owner, reason, based_on, activated_at)
         values ($1, $2, $3, $4, $5, $6, $7, case when $2 = 'active' then now() end)",
    )
    .bind(new.version)
    .bind(new.state.as_str())
    .bind(new.document)
    .bind(new.author)
    .bind(new.owner)
    .bind(new.reason)
    .bind(new.based_on)
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn change(conn: &mut PgConnection, change: &Change) -> Result<(), Error> {
    let updated = sqlx::query(
        "update rule_versions
            set state = $3, canary = $4, activated_at = case when $3 = 'active' then now() else activated_at end
          where version = $1 and state = $2",
    )
    .bind(change.version)
    .bind(change.from.as_str())
    .bind(change.to.as_str())
    .bind(change.canary.as_ref())
    .execute(conn)
    .await?;
    if updated.rows_affected() == 1 { Ok(()) } else { Err(Error::Conflict) }
}

/// What is in force, and where.
pub async fn in_force(conn: &mut PgConnection) -> Result<InForce, Error> {
    let rows: Vec<(i64, String, String, Option<Vec<String>>)> = sqlx::query_as(
        "select version, state, document, canary from rule_versions where state in ('active', 'canary')",
    )
    .fetch_all(&mut *conn)
    .await?;
    let ever = sqlx::query_scalar("select exists (select from rule_versions where state <> 'draft')");
    let mut found = InForce { ever: ever.fetch_one(conn).await?, ..InForce::default() };
    for (version, _, document, canary) in rows {
        let held = Held { version, document: document.into() };
        match canary {
            Some(instances) => found.canary = Some((held, instances)),
            None => found.active = Some(held),
        }
    }
    Ok(found)
}

pub async fn find(conn: &mut PgConnection, version: i64) -> Result<VersionWithDocument, Error> {
    let row: Option<RowWithDocument> = sqlx::query_as(
        "select version, state, author, owner, reason, based_on, canary, created_at, activated_at, document
           from rule_versions where version = $1",
    )
    .bind(version)
    .fetch_optional(conn)
    .await?;
    let row = row.ok_or(Refusal::Unknown(version))?;
    Ok(VersionWithDocument { item: row.row.item()?, document: row.document })
}

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
struct RowWithDocument {
    #[sqlx(flatten)]
    row: Row,
    document: String,
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
