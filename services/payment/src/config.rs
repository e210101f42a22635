//! Wiring: where the neighbours are. What governs traffic is a rule and not here.

use chassis::{ConfigError, Env};
use contracts::Service;
use events::KafkaConfig;

#[derive(Debug, Clone)]
pub struct Config {
    /// `DATABASE_URL`: the service's own database, `postgres://postgres@127.0.0.1:15432/payment` by default, where
    /// `./dev up` puts it.
    pub database_url: String,
    /// `KAFKA_BOOTSTRAP`, `host:port` (127.0.0.1:19092), and `KAFKA_TOPIC_PREFIX` (empty), for several systems on one
    /// Kafka.
    pub kafka: KafkaConfig,
    /// `PROVIDER_PRIMARY_URL`: the provider's primary channel, by default the simulator of `./dev up`.
    pub provider_primary_url: String,
}

impl Config {
    pub fn from_env(env: &mut Env) -> Result<Self, ConfigError> {
        let mut kafka = KafkaConfig::new(env.kafka_bootstrap()?, Service::Payment.as_str());
        kafka.topic_prefix = env.get("KAFKA_TOPIC_PREFIX").unwrap_or_default();
        Ok(Self {
            database_url: env.database_url(Service::Payment)?,
            kafka,
            provider_primary_url: env.url_or("PROVIDER_PRIMARY_URL", "http://127.0.0.1:8086")?,
        })
    }
}
