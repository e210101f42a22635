//! What makes work durable over PostgreSQL: one pattern a file.

pub mod database;

pub use database::{Database, StorageError, Tx};
