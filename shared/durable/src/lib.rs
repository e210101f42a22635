//! What has to survive a crash, over PostgreSQL.

pub mod inbox;
pub mod lease;
pub mod migrations;
pub mod outbox;
