//! A start on a machine that is busy, and on a database that is ahead.

use std::time::Duration;

use durable::{Database, database::DatabaseConfig, migrations::MIGRATIONS};
use sqlx::migrate::Migrator;
use testkit::TestDatabase;

#[tokio::test]
async fn a_pool_that_has_nothing_to_give_in_time_does_not_stop_the_migrations() {
    let made = TestDatabase::create().await;
    let config = DatabaseConfig { connections: 1, acquire_timeout: Duration::from_millis(500), ..made.config() };
    let database = Database::connect(&config, Duration::from_secs(30)).await.unwrap();
    let taken = database.pool().acquire().await.unwrap();
    database.migrate(&MIGRATIONS, &Migrator::DEFAULT).await.unwrap();
    drop(taken);
}

#[tokio::test]
async fn a_program_of_before_starts_on_a_database_that_a_newer_one_has_migrated() {
    static NEWER: Migrator = sqlx::migrate!("../../migrations/recommendation");
    let made = TestDatabase::create().await;
    let database = Database::connect(&made.config(), Duration::from_secs(30)).await.unwrap();
    database.migrate(&MIGRATIONS, &NEWER).await.unwrap();
    database.migrate(&MIGRATIONS, &Migrator::DEFAULT).await.unwrap();
}
