//! A Kafka for one test: the real one that `TEST_KAFKA_BOOTSTRAP` names, shared by a prefix, else an embedded one.

use anyhow::Context;
use events::{KafkaConfig, broker, embedded::EmbeddedBroker};
use uuid::Uuid;

/// A broker with the test's topics on it, and nobody else's messages. The embedded one ends when this is dropped.
#[derive(Debug)]
pub struct TestBroker {
    pub config: KafkaConfig,
    embedded: Option<EmbeddedBroker>,
}

impl TestBroker {
    /// `None` on a real broker.
    #[must_use]
    pub fn embedded(&self) -> Option<&EmbeddedBroker> {
        self.embedded.as_ref()
    }
}

/// Starts or borrows a broker and creates `topics` (name and partitions) on it.
pub async fn broker(topics: &[(String, i32)]) -> anyhow::Result<TestBroker> {
    match real_bootstrap() {
        Some(bootstrap) => {
            let mut config = KafkaConfig::new(bootstrap, "test");
            config.topic_prefix = format!("test-{}.", Uuid::new_v4().simple());
            broker::ensure_topics(&config, topics).await.context("the real Kafka does not create topics")?;
            Ok(TestBroker { config, embedded: None })
        }
        None => embedded(topics),
    }
}

/// Always the embedded one, for what is done to it (cut off, replaced) and cannot be done to a shared broker.
pub fn embedded(topics: &[(String, i32)]) -> anyhow::Result<TestBroker> {
    let broker = EmbeddedBroker::start(topics).context("the embedded Kafka does not start")?;
    Ok(TestBroker { config: KafkaConfig::new(broker.bootstrap(), "test"), embedded: Some(broker) })
}

fn real_bootstrap() -> Option<String> {
    std::env::var("TEST_KAFKA_BOOTSTRAP").ok().filter(|bootstrap| !bootstrap.is_empty())
}
