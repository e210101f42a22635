//! The librdkafka consumer: its settings, and what it calls back.

use std::sync::Arc;

use rdkafka::{
    ClientContext, Statistics,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer as _, ConsumerContext, Rebalance, StreamConsumer},
    error::KafkaError,
    statistics,
};
use tokio::sync::mpsc;

use super::partition::Partition;
use crate::{KafkaConfig, config::Quiet};

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
        // As long as librdkafka waits for the answer to a request to join: one that is lost, because the broker stood still
        // at that moment, would keep a new member idle for five minutes by default. We poll all the time.
        .set("max.poll.interval.ms", "20000")
        // A topic that is created after us is found within this.
        .set("topic.metadata.refresh.interval.ms", "5000")
        // Read ahead by a megabyte at most, not by 64; and having done so, read on soon and not in a second.
        .set("queued.max.messages.kbytes", "1024")
        .set("fetch.queue.backoff.ms", "20")
        // The embedded broker does not cut a wait short when a message comes, so this is its latency; and a partition
        // that is resumed waits for the answer to the request that went out without it.
        .set("fetch.wait.max.ms", "100")
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
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        Quiet.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        Quiet.error(error, reason);
    }

    fn stats(&self, statistics: Statistics) {
        for (topic, of_topic) in &statistics.topics {
            let ours = of_topic.partitions.values().filter(|partition| partition.desired);
            metrics::gauge!("kafka_consumer_lag", "group" => self.group.clone(), "topic" => topic.clone())
                .set(ours.map(lag).sum::<i64>() as f64);
        }
    }
}

impl ConsumerContext for Context {
    fn pre_rebalance(&self, client: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(partitions) => {
                tracing::info!(group = self.group, partitions = partitions.count(), "partitions were assigned");
                // A partition that we had paused before it was taken from us stays paused in the client when it comes
                // back, and nobody here would know of it.
                if let Err(error) = client.resume(partitions) {
                    tracing::warn!(%error, group = self.group, "assigned partitions are not resumed");
                }
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

/// How many messages of a partition have not taken effect. librdkafka's own figure is unknown (-1) until the first
/// offset is stored, which hides a consumer that is stuck on its first message.
fn lag(partition: &statistics::Partition) -> i64 {
    if partition.consumer_lag_stored >= 0 {
        return partition.consumer_lag_stored;
    }
    let done = [partition.committed_offset, partition.lo_offset, 0].into_iter().max().unwrap_or(0);
    (partition.hi_offset - done).max(0)
}
