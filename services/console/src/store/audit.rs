//! What operators did. A row is written in the transaction of what it tells, so that neither is there without the other.

use chrono::{DateTime, Utc};
use contracts::ruling::{Audit, OperatorAction};
use sqlx::{FromRow, PgConnection};

use super::paged;
use crate::Error;

/// What an operator does, to what, and why.
#[derive(Debug, Clone, Copy)]
pub struct Action<'a> {
    pub operator: &'a str,
    /// A word: `publish`, `promote`, `switch`, `replay`.
    pub action: &'a str,
    /// `version 4`, `payment = off`, `order->payment`.
    pub target: &'a str,
    pub reason: &'a str,
}

pub async fn record(conn: &mut PgConnection, action: Action<'_>) -> Result<(), Error> {
    sqlx::query("insert into operator_actions (operator, action, target, reason) values ($1, $2, $3, $4)")
        .bind(action.operator)
        .bind(action.action)
        .bind(action.target)
        .bind(action.reason)
        .execute(conn)
        .await?;
    Ok(())
}

/// Those before the action `below`, newest first.
pub async fn page(conn: &mut PgConnection, limit: i64, below: i64) -> Result<Audit, Error> {
    let rows: Vec<Row> = sqlx::query_as(
        "select id, at, operator, action, target, reason from operator_actions where id < $1 order by id desc limit $2",
    )
    .bind(below)
    .bind(limit + 1)
    .fetch_all(conn)
    .await?;
    let (rows, next_cursor) = paged(rows, limit, |row| row.id);
    Ok(Audit { items: rows.into_iter().map(Row::action).collect(), next_cursor })
}

#[derive(FromRow)]
struct Row {
    id: i64,
    at: DateTime<Utc>,
    operator: String,
    action: String,
    target: String,
    reason: String,
}

impl Row {
    fn action(self) -> OperatorAction {
        let Self { at, operator, action, target, reason, .. } = self;
        OperatorAction { at, operator, action, target, reason }
    }
}
