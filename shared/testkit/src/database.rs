//! A database of its own for each test, on the server that `TEST_DATABASE_URL` names.

use std::time::Duration;

use durable::{Database, database::DatabaseConfig};
use sqlx::{Connection, PgConnection, migrate::Migrator};
use uuid::Uuid;

/// Dropped with this value.
pub struct TestDatabase {
    server: String,
    name: String,
}

impl TestDatabase {
    /// An empty database.
    ///
    /// # Panics
    /// Without `TEST_DATABASE_URL`; `./dev test` starts a server and sets it.
    pub async fn create() -> Self {
        let server = std::env::var("TEST_DATABASE_URL")
            .expect("TEST_DATABASE_URL names no PostgreSQL server; run `./dev test`, which starts one");
        let name = format!("test_{}", Uuid::new_v4().simple());
        let mut connection = PgConnection::connect(&server).await.expect("the test server answers");
        sqlx::query(sqlx::AssertSqlSafe(format!("create database {name}")))
            .execute(&mut connection)
            .await
            .expect("a new database");
        Self { server, name }
    }

    #[must_use]
    pub fn url(&self) -> String {
        let (server, _) = self.server.rsplit_once('/').unwrap_or((&self.server, ""));
        format!("{server}/{}", self.name)
    }

    /// The limits of production, but patient: a test machine is slow without being broken.
    #[must_use]
    pub fn config(&self) -> DatabaseConfig {
        DatabaseConfig {
            url: self.url(),
            connections: 8,
            acquire_timeout: Duration::from_secs(5),
            lock_timeout: Duration::from_secs(2),
            statement_timeout: Duration::from_secs(5),
        }
    }

    /// Ends every connection to it and refuses new ones, as a server does that is going down.
    ///
    /// # Panics
    /// When the test server does not answer.
    pub async fn refuse_connections(&self) {
        let mut connection = PgConnection::connect(&self.server).await.expect("the test server answers");
        let refuse = sqlx::AssertSqlSafe(format!("alter database {} allow_connections false", self.name));
        sqlx::query(refuse).execute(&mut connection).await.expect("the database refuses connections");
        sqlx::query("select pg_terminate_backend(pid) from pg_stat_activity where datname = $1")
            .bind(&self.name)
            .execute(&mut connection)
            .await
            .expect("its connections end");
    }

    /// A pool on it.
    pub async fn connect(&self) -> Database {
        Database::connect(&self.config(), Duration::from_secs(5)).await.expect("the test database answers")
    }

    /// A pool on it, with the migrations in.
    pub async fn migrated(&self, shared: &Migrator, own: &Migrator) -> Database {
        let database = self.connect().await;
        database.migrate(shared, own).await.expect("the migrations apply");
        database
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // A thread of its own, since this may run inside a runtime. A database that stays behind harms no other test.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            runtime.block_on(async {
                let mut connection = PgConnection::connect(&server).await.ok()?;
                let statement = sqlx::AssertSqlSafe(format!("drop database if exists {name} with (force)"));
                sqlx::query(statement).execute(&mut connection).await.ok()
            })
        });
        drop(dropped.join());
    }
}
