//! Messaging against a real PostgreSQL (`TEST_DATABASE_URL`) and a Kafka: the real one that `TEST_KAFKA_BOOTSTRAP`
//! names, else an embedded one a test.

mod consumer;
mod database;
mod inbox;
mod lease;
mod outbox;
mod relay;
mod world;
