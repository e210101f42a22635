//! What has to survive a crash, over PostgreSQL: one pattern a file.

pub mod database;
pub mod idempotency;
pub mod inbox;
pub mod lease;
mod meters;
pub mod migrations;
pub mod outbox;
pub mod pruning;
pub mod retry;
pub mod suspicion;

pub use database::{Database, StorageError, Tx, within};
pub use meters::describe_metrics;
