//! A database of its own for each test.

use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, postgres::PgPoolOptions};

/// A new database with this crate's tables, and one for effects.
pub async fn fresh() -> PgPool {
    let server = std::env::var("TEST_DATABASE_URL").expect("TEST_DATABASE_URL names a PostgreSQL for tests");
    let name = format!("messaging_{}", uuid::Uuid::new_v4().simple());
    let mut admin = PgConnection::connect(&server).await.unwrap();
    sqlx::query(AssertSqlSafe(format!("create database {name}"))).execute(&mut admin).await.unwrap();
    let (base, _) = server.rsplit_once('/').unwrap();
    let pool = PgPoolOptions::new().max_connections(8).connect(&format!("{base}/{name}")).await.unwrap();
    durable::migrations::MIGRATIONS.run(&pool).await.unwrap();
    sqlx::query(
        "create table applied (seq bigint generated always as identity, event_id uuid not null, version bigint not null)",
    )
    .execute(&pool)
    .await
    .unwrap();
    pool
}
