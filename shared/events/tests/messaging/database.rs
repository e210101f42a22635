//! A database of its own for each test, and what the pool does with one that is slow, silent or gone.

use std::time::Duration;

use durable::{
    Database,
    database::{DatabaseConfig, StorageError, within},
};
use resilience::Deadline;
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, postgres::PgPoolOptions};
use testkit::{Link, TestDatabase, eventually};

const MS: Duration = Duration::from_millis(1);

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

/// In milliseconds, as the server has them for this connection.
async fn limits(conn: &mut PgConnection) -> (i64, i64, i64) {
    sqlx::query_as(
        "select max(setting::bigint) filter (where name = 'statement_timeout'),
                max(setting::bigint) filter (where name = 'lock_timeout'),
                max(setting::bigint) filter (where name = 'idle_in_transaction_session_timeout')
           from pg_settings",
    )
    .fetch_one(conn)
    .await
    .unwrap()
}

#[tokio::test]
async fn the_server_gives_a_statement_what_is_left_of_the_deadline_and_never_more_than_the_rule() {
    let test = TestDatabase::create().await;
    let config = DatabaseConfig { statement_timeout: 5_000 * MS, lock_timeout: 300 * MS, ..test.config() };
    let database = Database::connect(&config, Duration::from_secs(5)).await.unwrap();
    let mut alone = database.pool().acquire().await.unwrap();
    assert_eq!(limits(&mut alone).await, (5_000, 300, 10_000), "a statement without a transaction");
    drop(alone);

    let mut tx = database.begin(Deadline::after(3_000 * MS)).await.unwrap();
    let (statement, ..) = limits(&mut tx).await;
    assert!((1..=3_000).contains(&statement), "{statement}");
    tx.commit().await.unwrap();
    let mut tx = database.begin(Deadline::after(60_000 * MS)).await.unwrap();
    assert_eq!(limits(&mut tx).await.0, 5_000, "and the next transaction has its own");

    // What takes longer is cut off by the server, and is told as a condition that passes.
    let mut tx = database.begin(Deadline::after(200 * MS)).await.unwrap();
    let error = sqlx::query("select pg_sleep(60)").execute(&mut *tx).await.unwrap_err();
    assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("57014"));
    assert!(matches!(StorageError::from(error), StorageError::Unavailable(_)));
}

#[tokio::test]
async fn a_full_pool_is_told_as_such_when_the_wait_for_it_or_the_deadline_is_over() {
    let test = TestDatabase::create().await;
    let config = DatabaseConfig { connections: 1, acquire_timeout: 50 * MS, ..test.config() };
    let database = Database::connect(&config, Duration::from_secs(5)).await.unwrap();
    let _held = database.begin(Deadline::after(60_000 * MS)).await.unwrap();
    for deadline in [60_000 * MS, MS] {
        let refused = database.begin(Deadline::after(deadline)).await.unwrap_err();
        assert!(matches!(refused, StorageError::Unavailable(sqlx::Error::PoolTimedOut)), "{refused:?}");
    }
    assert!(matches!(database.ping().await.unwrap_err(), StorageError::Unavailable(sqlx::Error::PoolTimedOut)));
}

/// sqlx#4349: each connection that leads nowhere would take its place in the pool with it.
#[tokio::test]
async fn a_server_that_falls_silent_in_the_middle_of_statements_costs_the_pool_no_place() {
    let test = TestDatabase::create().await;
    let link = Link::to(&test).await;
    let config = DatabaseConfig { url: link.url.clone(), connections: 3, statement_timeout: 100 * MS, ..test.config() };
    let database = Database::connect(&config, Duration::from_secs(5)).await.unwrap();
    // One in a transaction, one in a statement alone, one that has only just been taken.
    let mut tx = database.begin(Deadline::after(60_000 * MS)).await.unwrap();
    let mut alone = database.pool().acquire().await.unwrap();
    let idle = database.pool().acquire().await.unwrap();
    link.fall_silent();
    let in_tx = async move { Ok::<_, StorageError>(sqlx::query("select 1").execute(&mut *tx).await?) };
    let in_statement = async move { Ok::<_, StorageError>(sqlx::query("select 1").execute(&mut *alone).await?) };
    let (in_tx, in_statement) =
        tokio::join!(within(Deadline::after(50 * MS), in_tx), within(Deadline::after(50 * MS), in_statement));
    assert!(
        matches!(in_tx, Err(StorageError::Unavailable(_))) && matches!(in_statement, Err(StorageError::Unavailable(_)))
    );
    drop(idle);
    // New connections get through, and there is room for them.
    let begun = eventually("the whole pool can be used again", async || {
        let one = || database.begin(Deadline::after(300 * MS));
        let (a, b, c) = tokio::join!(one(), one(), one());
        Some((a.ok()?, b.ok()?, c.ok()?))
    });
    begun.await;
}
