//! The wiring that is recommendation's own.

use ::events::KafkaConfig;
use chassis::{ConfigError, Env};
use contracts::Service;

#[derive(Debug, Clone)]
pub struct Config {
    /// `DATABASE_URL`: recommendation's own database; by default the one that a local system has.
    pub database_url: String,
    /// `KAFKA_BOOTSTRAP` (`host:port`, several separated by commas; by default the local broker) and
    /// `KAFKA_TOPIC_PREFIX` (put before every topic and group; empty unless several systems share one Kafka).
    pub kafka: KafkaConfig,
    /// `REDIS_URL`: by default the local Redis. Nothing has to answer there.
    pub redis_url: String,
    /// `REDIS_KEY_PREFIX`: put before every key; empty unless several systems share one Redis.
    pub redis_key_prefix: String,
}

impl Config {
    pub fn from_env(env: &mut Env) -> Result<Self, ConfigError> {
        let mut kafka = KafkaConfig::new(env.kafka_bootstrap()?, Service::Recommendation.as_str());
        kafka.topic_prefix = env.get("KAFKA_TOPIC_PREFIX").unwrap_or_default();
        Ok(Self {
            database_url: env.database_url(Service::Recommendation)?,
            kafka,
            redis_url: env.get("REDIS_URL").unwrap_or_else(|| "redis://127.0.0.1:16379".to_owned()),
            redis_key_prefix: env.get("REDIS_KEY_PREFIX").unwrap_or_default(),
        })
    }
}
