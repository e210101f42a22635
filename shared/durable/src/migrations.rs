//! The tables of this crate, embedded in the binary so that a service can be started on an empty database.

/// Versions 1 to 99; a service's own begin at 100.
pub static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("../../migrations/durable");
