//! Events between services, over Kafka. This crate alone knows rdkafka.
//!
//! Reading order: [`config`], [`relay`] (outbox to Kafka), [`consumer`] (Kafka to a handler) with [`dead_letter`],
//! [`dlq`] (looking after dead letters), [`broker`] (which broker is this, and has it our topics), and [`embedded`] for
//! development without a broker.

pub mod advertise;
pub mod broker;
pub mod config;
pub mod consumer;
pub mod dead_letter;
pub mod dlq;
pub mod embedded;
mod header;
mod meters;
pub mod relay;

pub use config::KafkaConfig;
pub use consumer::{Consumer, ConsumerConfig, HandleError, Handler, Outcome};
pub use meters::describe_metrics;
pub use rdkafka::error::KafkaError;
pub use relay::{Relay, RelayConfig};
