//! The pool, its limits, and what its errors mean.
//!
//! A database that is slow must not be waited for longer than the request has left, and a database that is gone has
//! to be told from a mistake of ours: the first is a 503 that can be retried, the second a 500 that has to be fixed.

use std::{pin::pin, str::FromStr, time::Duration};

use contracts::{Problem, ProblemType};
use resilience::Deadline;
use sqlx::{
    ConnectOptions, Connection, PgPool, Postgres, Transaction,
    migrate::{MigrateError, Migration, Migrator},
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::time::Instant;

use crate::suspicion::{still_answers, suspect};

/// A transaction of the service's own database.
pub type Tx = Transaction<'static, Postgres>;

/// The limits of a pool; what they are and why is a rule.
#[derive(Debug, Clone)]
pub struct DatabaseConfig {
    pub url: String,
    pub connections: u32,
    pub acquire_timeout: Duration,
    pub lock_timeout: Duration,
    pub statement_timeout: Duration,
}

/// A service's own database.
#[derive(Debug, Clone)]
pub struct Database {
    pool: PgPool,
    acquire_timeout: Duration,
    statement_timeout: Duration,
}

/// Why a statement did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The database is gone, its pool is full, or a lock or statement took too long. Whether a commit that was under
    /// way took effect is not known: re-read by key.
    #[error("the database is unavailable")]
    Unavailable(#[source] sqlx::Error),
    /// A constraint that the statement ran into, by name, for callers that expect it.
    #[error("constraint {0}")]
    Constraint(String),
    /// A mistake of ours.
    #[error("the database refused a statement")]
    Bug(#[source] sqlx::Error),
}

impl Database {
    /// Connects, waiting up to `patience` for the server to come up.
    pub async fn connect(config: &DatabaseConfig, patience: Duration) -> Result<Self, StorageError> {
        let options = PgConnectOptions::from_str(&config.url).map_err(StorageError::Bug)?.options([
            ("statement_timeout", config.statement_timeout.as_millis().to_string()),
            ("lock_timeout", config.lock_timeout.as_millis().to_string()),
            // A transaction that its process forgot must not hold locks for ever.
            ("idle_in_transaction_session_timeout", "10000".to_owned()),
        ]);
        let statement_timeout = config.statement_timeout;
        let pool = PgPoolOptions::new()
            .max_connections(config.connections)
            .acquire_timeout(config.acquire_timeout)
            .idle_timeout(Duration::from_secs(300))
            .after_release(move |connection, _| Box::pin(still_answers(connection, statement_timeout)))
            .connect_lazy_with(options);
        let database =
            Self { pool, acquire_timeout: config.acquire_timeout, statement_timeout: config.statement_timeout };
        let give_up = Instant::now() + patience;
        loop {
            match database.ping().await {
                Ok(()) => return Ok(database),
                Err(error) if Instant::now() >= give_up => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, "waiting for the database");
                    tokio::time::sleep(Duration::from_millis(250)).await;
                }
            }
        }
    }

    /// Applies the migrations that every service has and the service's own, in one order of versions. Replicas that
    /// start at once wait for each other on the migrator's lock.
    pub async fn migrate(&self, shared: &Migrator, own: &Migrator) -> Result<(), MigrateError> {
        let mut all: Vec<Migration> = shared.iter().chain(own.iter()).cloned().collect();
        all.sort_by_key(|migration| migration.version);
        // A connection of its own: a migration may take longer than a request's statement may, and a start on a busy
        // machine longer than a request waits for the pool.
        let options = (*self.pool.connect_options()).clone();
        let mut connection = options.options([("statement_timeout", "0"), ("lock_timeout", "0")]).connect().await?;
        let mut migrator = Migrator::with_migrations(all);
        // A program of before has to start on what a newer one has migrated: while one is replaced by the other, and when
        // the newer one is taken back.
        migrator.set_ignore_missing(true);
        let applied = migrator.run(&mut connection).await;
        if let Err(error) = connection.close().await {
            tracing::debug!(%error, "the connection that migrated did not say good-bye");
        }
        applied
    }

    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// A transaction in which no statement outlasts `deadline`.
    pub async fn begin(&self, deadline: Deadline) -> Result<Tx, StorageError> {
        within(deadline, self.begin_limited(deadline)).await
    }

    async fn begin_limited(&self, deadline: Deadline) -> Result<Tx, StorageError> {
        let remaining = deadline.remaining();
        let wait = remaining.min(self.acquire_timeout);
        let beginning = pin!(self.pool.begin());
        let mut tx = match tokio::time::timeout(wait, beginning).await {
            Ok(begun) => begun?,
            Err(_) => {
                suspect();
                return Err(StorageError::Unavailable(sqlx::Error::PoolTimedOut));
            }
        };
        // Zero would mean no limit at all.
        let limit = deadline.remaining().min(self.statement_timeout).max(Duration::from_millis(1));
        sqlx::query("select set_config('statement_timeout', $1, true)")
            .bind(limit.as_millis().to_string())
            .execute(&mut *tx)
            .await?;
        Ok(tx)
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), StorageError> {
        sqlx::query("select 1").execute(&self.pool).await?;
        Ok(())
    }

    /// For `/internal/state` and the metrics.
    #[must_use]
    pub fn connections(&self) -> (u32, usize) {
        (self.pool.size(), self.pool.num_idle())
    }

    /// Sets the gauges of the pool to what they are now; for whoever is asked for the metrics.
    pub fn measure(&self) {
        let (open, idle) = self.connections();
        let open = usize::try_from(open).unwrap_or(usize::MAX);
        metrics::gauge!("db_pool_connections", "state" => "idle").set(idle as f64);
        metrics::gauge!("db_pool_connections", "state" => "in_use").set(open.saturating_sub(idle) as f64);
        metrics::gauge!("db_pool_connections_max").set(f64::from(self.pool.options().get_max_connections()));
    }

    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// `work`, as long as there is time. The server's own timeouts do nothing when it is stopped or the link hangs, so the
/// wait is bounded here as well; to the caller, a database that hangs is one that is gone, and what was under way may
/// have taken effect.
pub async fn within<T, E: From<StorageError>>(
    deadline: Deadline,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    // Pinned here, so that its connection goes back after the suspicion is told and not before.
    let work = pin!(work);
    match tokio::time::timeout_at(deadline.instant(), work).await {
        Ok(outcome) => outcome,
        Err(_) => {
            suspect();
            Err(StorageError::Unavailable(sqlx::Error::PoolTimedOut).into())
        }
    }
}

impl From<sqlx::Error> for StorageError {
    fn from(error: sqlx::Error) -> Self {
        use sqlx::Error as E;
        match &error {
            E::Io(_) | E::Tls(_) | E::PoolTimedOut | E::PoolClosed | E::WorkerCrashed | E::Protocol(_) => {
                Self::Unavailable(error)
            }
            E::Database(database) => {
                if let Some(constraint) = database.constraint() {
                    return Self::Constraint(constraint.to_owned());
                }
                match database.code().as_deref() {
                    Some(code) if is_passing(code) => Self::Unavailable(error),
                    _ => Self::Bug(error),
                }
            }
            _ => Self::Bug(error),
        }
    }
}

/// SQLSTATE codes of conditions that pass by themselves.
fn is_passing(code: &str) -> bool {
    const PASSING: [&str; 10] = [
        "57014", // query_canceled: statement_timeout
        "55P03", // lock_not_available: lock_timeout
        "40001", // serialization_failure
        "40P01", // deadlock_detected
        "57P01", // admin_shutdown
        "57P02", // crash_shutdown
        "57P03", // cannot_connect_now
        "55000", // object_not_in_prerequisite_state: the database refuses connections
        "3D000", // invalid_catalog_name: there is no such database, at the moment
        "25P03", // idle_in_transaction_session_timeout
    ];
    // 08: connection exceptions, 28: the server does not let us in, 53: insufficient resources (connections, disk).
    PASSING.contains(&code) || ["08", "28", "53"].iter().any(|class| code.starts_with(class))
}

impl From<StorageError> for Problem {
    /// Logged here with its cause, since nothing of the cause may leave in an answer.
    fn from(error: StorageError) -> Self {
        match &error {
            StorageError::Unavailable(cause) => {
                tracing::warn!(error = %cause, "storage unavailable");
                Self::new(ProblemType::StorageUnavailable, "the database did not answer in time")
                    .with_mechanism("storage")
            }
            StorageError::Constraint(name) => {
                tracing::error!(constraint = name, "an unexpected constraint violation");
                Self::new(ProblemType::Internal, "the request failed; its id is in the log")
            }
            StorageError::Bug(cause) => {
                tracing::error!(error = %cause, "the database refused a statement");
                Self::new(ProblemType::Internal, "the request failed; its id is in the log")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_database_that_hangs_is_waited_for_until_the_deadline() {
        let hanging = std::future::pending::<Result<(), StorageError>>();
        let outcome = within(Deadline::after(Duration::from_secs(1)), hanging).await;
        assert!(matches!(outcome, Err(StorageError::Unavailable(_))));
    }

    #[test]
    fn passing_conditions_are_told_from_mistakes() {
        for code in ["57014", "55P03", "40P01", "53300", "08006", "53100"] {
            assert!(is_passing(code), "{code}");
        }
        for code in ["42P01", "22003", "23505"] {
            assert!(!is_passing(code), "{code}");
        }
        assert!(matches!(StorageError::from(sqlx::Error::PoolTimedOut), StorageError::Unavailable(_)));
        assert!(matches!(StorageError::from(sqlx::Error::RowNotFound), StorageError::Bug(_)));
    }

    #[test]
    fn nothing_of_the_cause_leaves_in_the_problem() {
        let problem = Problem::from(StorageError::from(sqlx::Error::Protocol("secret detail".into())));
        assert_eq!(problem.kind, ProblemType::StorageUnavailable);
        assert!(!serde_json::to_string(&problem).unwrap().contains("secret"));
    }
}
