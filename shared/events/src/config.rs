//! How to reach Kafka, and the settings that every client of ours has in common.

use std::time::Duration;

use rdkafka::{
    ClientConfig, ClientContext, config::RDKafkaLogLevel, consumer::ConsumerContext, error::KafkaError,
    producer::FutureProducer,
};

/// Wiring of one process to one Kafka.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaConfig {
    /// `host:port`, several separated by commas.
    pub bootstrap: String,
    /// Put before every topic and group, so that several systems can share one Kafka. Usually empty.
    pub topic_prefix: String,
    /// Shows in the broker's logs; the service's name.
    pub client_id: String,
}

impl KafkaConfig {
    #[must_use]
    pub fn new(bootstrap: impl Into<String>, client_id: impl Into<String>) -> Self {
        Self { bootstrap: bootstrap.into(), topic_prefix: String::new(), client_id: client_id.into() }
    }

    /// The name on the broker of a topic or a group that we call `name`.
    #[must_use]
    pub fn prefixed(&self, name: &str) -> String {
        format!("{}{name}", self.topic_prefix)
    }

    pub(crate) fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.bootstrap)
            .set("client.id", &self.client_id)
            .set("allow.auto.create.topics", "false")
            // By default the pause between connection attempts grows to 10 s, which an outage of any length adds to.
            .set("reconnect.backoff.ms", "100")
            .set("reconnect.backoff.max.ms", "1000")
            .set("socket.keepalive.enable", "true");
        config
    }

    /// A producer that keeps order and makes no duplicates of its own, and that tells within `delivery_timeout` what
    /// became of a message.
    pub(crate) fn producer(&self, delivery_timeout: Duration) -> Result<Producer, KafkaError> {
        self.client()
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("linger.ms", "1")
            .set("message.timeout.ms", delivery_timeout.as_millis().to_string())
            // The broker takes 1 048 588 bytes by default and librdkafka stops at a million: a dead letter of a message
            // of that size needs room for its headers.
            .set("message.max.bytes", "1040000")
            .create_with_context(Quiet)
    }
}

pub(crate) type Producer = FutureProducer<Quiet>;

/// Keeps librdkafka's complaints about a broker that is away out of the log: whoever waits for the broker says so in
/// words of its own, and at a bearable rate.
pub(crate) struct Quiet;

impl ClientContext for Quiet {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
                tracing::error!(facility, message, "librdkafka");
            }
            _ => tracing::debug!(facility, message, "librdkafka"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "librdkafka");
    }
}

impl ConsumerContext for Quiet {}
