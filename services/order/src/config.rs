//! The wiring of the order service: where its stores and its siblings are.

use chassis::{ConfigError, Env, crash};
use contracts::{Service, service::DEFAULT_PORT_BASE};
use events::KafkaConfig;

use crate::workflow;

#[derive(Debug, Clone)]
pub struct Config {
    /// `DATABASE_URL`
    pub database_url: String,
    /// `KAFKA_BOOTSTRAP`, `KAFKA_TOPIC_PREFIX`
    pub kafka: KafkaConfig,
    /// `REDIS_URL`: by default the local Redis. Nothing has to answer there.
    pub redis_url: String,
    /// `REDIS_KEY_PREFIX`: put before every key; empty unless several systems share one Redis.
    pub redis_key_prefix: String,
    /// `INVENTORY_URL`
    pub inventory_url: String,
    /// `PAYMENT_URL`
    pub payment_url: String,
    /// `COUPON_URL`
    pub coupon_url: String,
    /// `RECOMMENDATION_URL`
    pub recommendation_url: String,
}

impl Config {
    /// The defaults are the ports of a local system.
    pub fn from_env(env: &mut Env) -> Result<Self, ConfigError> {
        let mut sibling = |variable, service: Service| {
            let default = format!("http://127.0.0.1:{}", service.api_port(DEFAULT_PORT_BASE, 0));
            env.url_or(variable, &default)
        };
        let inventory_url = sibling("INVENTORY_URL", Service::Inventory)?;
        let payment_url = sibling("PAYMENT_URL", Service::Payment)?;
        let coupon_url = sibling("COUPON_URL", Service::Coupon)?;
        let recommendation_url = sibling("RECOMMENDATION_URL", Service::Recommendation)?;
        let mut kafka = KafkaConfig::new(env.kafka_bootstrap()?, Service::Order.as_str());
        kafka.topic_prefix = env.get("KAFKA_TOPIC_PREFIX").unwrap_or_default();
        let database_url = env.database_url(Service::Order)?;
        crash::arm(env, Service::Order, workflow::CRASH_POINTS)?;
        Ok(Self {
            database_url,
            kafka,
            redis_url: env.get("REDIS_URL").unwrap_or_else(|| "redis://127.0.0.1:16379".to_owned()),
            redis_key_prefix: env.get("REDIS_KEY_PREFIX").unwrap_or_default(),
            inventory_url,
            payment_url,
            coupon_url,
            recommendation_url,
        })
    }
}
