//! Messaging against a real PostgreSQL (`TEST_DATABASE_URL`) and a Kafka: the real one that `TEST_KAFKA_BOOTSTRAP`
//! names, else an embedded one a test.

#![expect(clippy::unwrap_used, reason = "what the tests share may fail them as they may themselves")]

mod consumer;
mod database;
mod delayed;
mod dlq;
mod in_flight;
mod inbox;
mod lease;
mod outbox;
mod relay;
mod retry;
mod world;
