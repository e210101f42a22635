//! What the provider told us by itself: stored first, acted upon later, each once.

use std::time::Duration;

use contracts::{payment::Channel, provider::Webhook};
use durable::StorageError;
use sqlx::PgConnection;

use super::variant;

/// A notice that is to be acted upon.
#[derive(Debug, Clone)]
pub struct Notice {
    pub channel: Option<Channel>,
    pub webhook: Webhook,
}

#[derive(sqlx::FromRow)]
struct Row {
    channel: Option<String>,
    body: sqlx::types::Json<Webhook>,
}

/// False: it came before.
pub async fn store(conn: &mut PgConnection, channel: Option<Channel>, webhook: &Webhook) -> Result<bool, StorageError> {
    let inserted = sqlx::query(
        "insert into provider_events (id, channel, body) values ($1, $2, $3)
         on conflict on constraint provider_events_pkey do nothing",
    )
    .bind(&webhook.id)
    .bind(channel.map(Channel::as_str))
    .bind(sqlx::types::Json(webhook))
    .execute(conn)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

/// The one that is due first and that nobody is at, locked until the transaction ends.
pub async fn next(conn: &mut PgConnection) -> Result<Option<Notice>, StorageError> {
    let row: Option<Row> = sqlx::query_as(
        "select channel, body from provider_events
          where processed_at is null and next_try_at <= clock_timestamp()
          order by next_try_at limit 1 for update skip locked",
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(Notice::try_from).transpose()?)
}

/// It is looked at again after `wait`.
pub async fn postpone(conn: &mut PgConnection, id: &str, wait: Duration) -> Result<(), StorageError> {
    sqlx::query("update provider_events set next_try_at = clock_timestamp() + make_interval(secs => $2) where id = $1")
        .bind(id)
        .bind(wait.as_secs_f64())
        .execute(conn)
        .await?;
    Ok(())
}

/// It was acted upon.
pub async fn processed(conn: &mut PgConnection, id: &str, outcome: &str) -> Result<(), StorageError> {
    sqlx::query("update provider_events set processed_at = now(), outcome = $2 where id = $1")
        .bind(id)
        .bind(outcome)
        .execute(conn)
        .await?;
    Ok(())
}

impl TryFrom<Row> for Notice {
    type Error = sqlx::Error;

    fn try_from(row: Row) -> Result<Self, sqlx::Error> {
        Ok(Self { channel: row.channel.as_deref().map(variant).transpose()?, webhook: row.body.0 })
    }
}
