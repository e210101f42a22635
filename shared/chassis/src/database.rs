//! The service's own database, as the rules say: how many connections, and how long anything may wait for one.
//!
//! The pattern is [`durable::Database`]; here it meets the rules of the start. A pool is opened once, so these rules
//! take effect at the next start.

use std::time::Duration;

use anyhow::Context;
use durable::{Database, database::DatabaseConfig, migrations};
use sqlx::migrate::Migrator;

use crate::Wiring;

/// How long a start waits for the database: longer than a server takes that was started at the same moment.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connects to the database at `url` and brings it up to date with what every service has and with `own`.
pub async fn open(wiring: &Wiring, url: String, own: &Migrator) -> anyhow::Result<Database> {
    let limits = limits(&wiring.rules.rules.database, url);
    let database = Database::connect(&limits, PATIENCE).await.context("DATABASE_URL: the database does not answer")?;
    database.migrate(&migrations::MIGRATIONS, own).await.context("the migrations do not apply")?;
    Ok(database)
}

fn limits(rule: &rules::Database, url: String) -> DatabaseConfig {
    DatabaseConfig {
        url,
        connections: rule.connections(),
        acquire_timeout: rule.acquire_timeout,
        lock_timeout: rule.lock_timeout,
        statement_timeout: rule.statement_timeout,
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn every_limit_of_the_pool_is_the_rules() {
        let ms = Duration::from_millis;
        let rule = rules::Database {
            pool: NonZeroU32::new(3),
            acquire_timeout: ms(1),
            lock_timeout: ms(2),
            statement_timeout: ms(4),
        };
        let said = limits(&rule, "postgres://host/database".to_owned());
        assert_eq!((said.url.as_str(), said.connections), ("postgres://host/database", 3));
        assert_eq!((said.acquire_timeout, said.lock_timeout, said.statement_timeout), (ms(1), ms(2), ms(4)));
    }
}
