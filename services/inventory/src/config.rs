//! The wiring that is inventory's own.

use ::events::KafkaConfig;
use chassis::{ConfigError, Env};
use contracts::Service;

#[derive(Debug, Clone)]
pub struct Config {
    /// `DATABASE_URL`: inventory's own database; by default the one that a local system has.
    pub database_url: String,
    /// `KAFKA_BOOTSTRAP` (`host:port`, several separated by commas; by default the local broker) and
    /// `KAFKA_TOPIC_PREFIX` (put before every topic and group; empty unless several systems share one Kafka).
    pub kafka: KafkaConfig,
}

impl Config {
    pub fn from_env(env: &mut Env) -> Result<Self, ConfigError> {
        let mut kafka = KafkaConfig::new(env.kafka_bootstrap()?, Service::Inventory.as_str());
        kafka.topic_prefix = env.get("KAFKA_TOPIC_PREFIX").unwrap_or_default();
        Ok(Self { database_url: env.database_url(Service::Inventory)?, kafka })
    }
}
