//! The librdkafka consumer: its settings, and what it calls back.

use std::sync::Arc;

use rdkafka::{
    ClientContext, Statistics,
    consumer::{BaseConsumer, ConsumerContext, Rebalance, StreamConsumer},
    error::KafkaError,
};
use tokio::sync::mpsc;

use super::partition::Partition;
use crate::KafkaConfig;

pub(super) fn create(
    kafka: &KafkaConfig,
    group: &str,
    context: Context,
) -> Result<StreamConsumer<Context>, KafkaError> {
    kafka
        .client()
        .set("group.id", kafka.prefixed(group))
        // Offsets are stored by us, after the effect, and committed in the background.
        .set("enable.auto.offset.store", "false")
        .set("enable.auto.commit", "true")
        .set("auto.commit.interval.ms", "1000")
        // A group that is new, or whose offsets were lost, begins at the beginning: the inbox makes that harmless, and
        // the default would skip what came before it.
        .set("auto.offset.reset", "earliest")
        // The embedded broker rebalances in the session timeout less a second, and never below these.
        .set("session.timeout.ms", "6000")
        .set("heartbeat.interval.ms", "500")
        // A topic that is created after us is found within this.
        .set("topic.metadata.refresh.interval.ms", "5000")
        // Read ahead by a megabyte at most a partition, not by 64.
        .set("queued.max.messages.kbytes", "1024")
        .set("statistics.interval.ms", "5000")
        .create_with_context(context)
}

/// Told by librdkafka, from within polling, so it only takes note.
pub(super) struct Context {
    group: String,
    revoked: mpsc::UnboundedSender<Vec<Partition>>,
}

impl Context {
    /// The receiver gets the partitions that this member has to let go of.
    pub(super) fn new(group: String) -> (Self, mpsc::UnboundedReceiver<Vec<Partition>>) {
        let (revoked, receiver) = mpsc::unbounded_channel();
        (Self { group, revoked }, receiver)
    }
}

impl ClientContext for Context {
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, group = self.group, "Kafka client");
    }

    fn stats(&self, statistics: Statistics) {
        for (topic, of_topic) in &statistics.topics {
            // -1: not assigned to us, or not known yet.
            let lags = of_topic.partitions.values().map(|partition| partition.consumer_lag).filter(|lag| *lag >= 0);
            metrics::gauge!("kafka_consumer_lag", "group" => self.group.clone(), "topic" => topic.clone())
                .set(lags.sum::<i64>() as f64);
        }
    }
}

impl ConsumerContext for Context {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(partitions) => {
                tracing::info!(group = self.group, partitions = partitions.count(), "partitions were assigned");
            }
            Rebalance::Revoke(partitions) => {
                tracing::info!(group = self.group, partitions = partitions.count(), "partitions were revoked");
                let revoked = partitions.elements();
                let revoked = revoked
                    .iter()
                    .map(|element| Partition { topic: Arc::from(element.topic()), number: element.partition() });
                // Nobody listens any more while the consumer closes.
                let _ = self.revoked.send(revoked.collect());
            }
            Rebalance::Error(error) => tracing::warn!(%error, group = self.group, "a rebalance failed"),
        }
    }
}
