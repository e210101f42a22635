//! What the tests have in common: a database and a broker, events, effects, and waiting for a condition.

use std::{
    collections::{BTreeSet, HashMap},
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use chrono::Utc;
use contracts::{
    Event, OrderId,
    event::OrderRejected,
    order::StatusReason,
    topic::{DEAD_LETTER_SUFFIX, Topic},
};
use durable::{inbox, outbox, outbox::Outbox};
use events::{Consumer, ConsumerConfig, HandleError, Handler, KafkaConfig, Outcome, Relay, RelayConfig};
use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    message::OwnedMessage,
    producer::{FutureProducer, FutureRecord},
};
use sqlx::PgPool;
use testkit::{eventually, kafka::TestBroker};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::database;

/// The longest that an end may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The consumers' group, and their name in the inbox.
pub const GROUP: &str = "recorder";

pub struct World {
    pub pool: PgPool,
    pub outbox: Outbox,
    pub broker: TestBroker,
    pub topic: Topic,
}

impl World {
    pub async fn new(partitions: i32) -> Self {
        let topic = Topic { name: "orders", partitions };
        let broker = testkit::kafka::broker(&topics(topic)).await.unwrap();
        Self::with_broker(topic, broker).await
    }

    /// On a broker of its own even where a real one is to be had.
    pub async fn embedded(partitions: i32) -> Self {
        let topic = Topic { name: "orders", partitions };
        let broker = testkit::kafka::embedded(&topics(topic)).unwrap();
        Self::with_broker(topic, broker).await
    }

    async fn with_broker(topic: Topic, broker: TestBroker) -> Self {
        let pool = database::fresh().await;
        Self { outbox: Outbox::new(pool.clone()), pool, broker, topic }
    }

    /// Enqueues and commits events of one order, with versions.
    pub async fn commit(&self, order: OrderId, versions: std::ops::RangeInclusive<i64>) {
        let mut tx = self.pool.begin().await.unwrap();
        for version in versions {
            outbox::enqueue(&mut tx, self.topic, &event(order, version)).await.unwrap();
        }
        tx.commit().await.unwrap();
        self.outbox.wake();
    }

    pub fn relay(&self) -> Running {
        self.relay_to(self.broker.config.clone())
    }

    pub fn relay_to(&self, kafka: KafkaConfig) -> Running {
        self.relay_with(kafka, relay_config(self.topic))
    }

    pub fn relay_with(&self, kafka: KafkaConfig, config: RelayConfig) -> Running {
        let relay = Relay::new(self.outbox.clone(), kafka, config);
        Running::start(|stop| async move { relay.run(stop).await })
    }

    pub fn consumer<H: Handler>(&self, handler: H) -> Running {
        self.consumer_with(handler, ConsumerConfig { retry_after: Duration::from_millis(20), ..in_turn() })
    }

    pub fn consumer_with<H: Handler>(&self, handler: H, config: ConsumerConfig) -> Running {
        let consumer = Consumer::new(self.broker.config.clone(), GROUP, &[self.topic], handler, config);
        Running::start(|stop| async move { consumer.run(stop).await.unwrap() })
    }

    pub fn reader(&self) -> Reader {
        Reader::new(&self.broker.config, self.topic.name, self.topic.partitions)
    }

    /// Puts bytes on a partition, past the outbox.
    pub async fn produce(&self, partition: i32, key: &str, payload: &[u8]) {
        let producer: FutureProducer =
            ClientConfig::new().set("bootstrap.servers", &self.broker.config.bootstrap).create().unwrap();
        let topic = self.broker.config.prefixed(self.topic.name);
        let record = FutureRecord::to(&topic).partition(partition).key(key).payload(payload);
        producer.send(record, Duration::from_secs(5)).await.unwrap();
    }

    pub async fn produce_event(&self, partition: i32, event: &Event) {
        self.produce(partition, &event.subject.to_string(), &serde_json::to_vec(event).unwrap()).await;
    }

    pub async fn backlog(&self) -> i64 {
        self.outbox.backlog().await.unwrap().count
    }

    pub async fn everything_is_published(&self) {
        eventually("the outbox is empty", async || (self.backlog().await == 0).then_some(())).await;
    }

    /// Versions that took effect, in that order.
    pub async fn applied(&self) -> Vec<i64> {
        sqlx::query_scalar("select version from applied order by seq").fetch_all(&self.pool).await.unwrap()
    }

    pub async fn applied_are(&self, expected: &[i64]) {
        eventually(&format!("{expected:?} took effect"), async || {
            let applied = self.applied().await;
            assert!(applied.len() <= expected.len(), "{applied:?} took effect, {expected:?} should");
            (applied.len() == expected.len()).then_some(())
        })
        .await;
        assert_eq!(self.applied().await, expected);
    }

    pub async fn lease_token(&self) -> Option<i64> {
        sqlx::query_scalar("select token from leases").fetch_optional(&self.pool).await.unwrap()
    }

    pub async fn somebody_leads(&self) -> i64 {
        eventually("a relay leads", async || self.lease_token().await).await
    }
}

/// A task of ours, ended like a process: with a signal, or without one.
pub struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    fn start<F: Future<Output = ()> + Send + 'static>(run: impl FnOnce(CancellationToken) -> F) -> Self {
        let stop = CancellationToken::new();
        Self { task: tokio::spawn(run(stop.clone())), stop }
    }

    pub async fn stop(self) {
        self.begin_to_stop();
        tokio::time::timeout(PATIENCE, self.task).await.expect("it stops").unwrap();
    }

    pub fn begin_to_stop(&self) {
        self.stop.cancel();
    }

    /// Gone in the middle of whatever it did.
    pub async fn crash(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

/// One message of a partition after the other, whatever their keys.
pub fn in_turn() -> ConsumerConfig {
    ConsumerConfig { max_in_flight_per_partition: NonZeroUsize::MIN, ..ConsumerConfig::default() }
}

pub fn topics(topic: Topic) -> Vec<(String, i32)> {
    vec![(topic.name.to_owned(), topic.partitions), (topic.dead_letters(), 1)]
}

pub fn relay_config(topic: Topic) -> RelayConfig {
    RelayConfig {
        topics: topics(topic),
        lease_ttl: Duration::from_secs(2),
        delivery_timeout: Duration::from_secs(3),
        retry_after_max: Duration::from_millis(500),
        broker_check_interval: Duration::from_millis(300),
        ..RelayConfig::default()
    }
}

pub const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

pub fn event(order: OrderId, version: i64) -> Event {
    let data = OrderRejected { order_id: order, reason: StatusReason::OutOfStock };
    Event::new(&data, version, Some(TRACEPARENT.to_owned()), Utc::now()).unwrap()
}

/// Records an event's version in the transaction of its inbox row.
#[derive(Clone)]
pub struct Recording(pub PgPool);

impl Handler for Recording {
    async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        let mut tx = self.0.begin().await?;
        if !inbox::first_delivery(&mut tx, GROUP, event.id).await? {
            return Ok(Outcome::Duplicate);
        }
        sqlx::query("insert into applied (event_id, version) values ($1, $2)")
            .bind(event.id())
            .bind(event.version)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(Outcome::Applied)
    }
}

/// Reads a topic from the beginning, without a group.
pub struct Reader(BaseConsumer);

impl Reader {
    pub fn new(kafka: &KafkaConfig, topic: &str, partitions: i32) -> Self {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &kafka.bootstrap)
            .set("group.id", "reader")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .create()
            .unwrap();
        let mut all = TopicPartitionList::new();
        for partition in 0..partitions {
            all.add_partition_offset(&kafka.prefixed(topic), partition, Offset::Beginning).unwrap();
        }
        consumer.assign(&all).unwrap();
        Self(consumer)
    }

    pub fn dead_letters(world: &World) -> Self {
        Self::new(&world.broker.config, &format!("{}{DEAD_LETTER_SUFFIX}", world.topic.name), 1)
    }

    /// How many partitions the broker says that a topic has; 0 when it has no such topic.
    pub fn partitions(kafka: &KafkaConfig, topic: &str) -> usize {
        let client: BaseConsumer = ClientConfig::new().set("bootstrap.servers", &kafka.bootstrap).create().unwrap();
        let metadata = client.fetch_metadata(None, Duration::from_secs(5)).unwrap();
        metadata.topics().iter().find(|found| found.name() == topic).map_or(0, |found| found.partitions().len())
    }

    /// The next `count` messages.
    pub async fn read(&self, count: usize) -> Vec<OwnedMessage> {
        let mut messages = Vec::new();
        eventually(&format!("{count} messages are on the topic"), async || {
            while messages.len() < count {
                // An error is the end of a partition, or a broker that is away.
                messages.extend(self.0.poll(Duration::ZERO)?.ok().map(|message| message.detach()));
            }
            Some(())
        })
        .await;
        messages
    }
}

pub fn version(message: &OwnedMessage) -> i64 {
    serde_json::from_slice::<Event>(message.payload().unwrap()).unwrap().version
}

/// Keeps what is counted. Install it with [`metrics::set_default_local_recorder`]; tests run on one thread.
#[derive(Clone, Default)]
pub struct Counted(Arc<Mutex<HashMap<String, Arc<Value>>>>);

#[derive(Default)]
struct Value(AtomicU64, Mutex<BTreeSet<String>>);

impl Counted {
    /// The sum or the last value under a name, whatever the labels. Whole numbers suffice here.
    pub fn get(&self, name: &str) -> u64 {
        self.0.lock().unwrap().get(name).map_or(0, |value| value.0.load(Ordering::SeqCst))
    }

    /// The names of the labels under a name.
    pub fn labels(&self, name: &str) -> Vec<String> {
        let values = self.0.lock().unwrap();
        values.get(name).map(|value| value.1.lock().unwrap().iter().cloned().collect()).unwrap_or_default()
    }

    fn value(&self, key: &Key) -> Arc<Value> {
        let value = Arc::clone(self.0.lock().unwrap().entry(key.name().to_owned()).or_default());
        value.1.lock().unwrap().extend(key.labels().map(|label| label.key().to_owned()));
        value
    }
}

impl Recorder for Counted {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.value(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.value(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

impl CounterFn for Value {
    fn increment(&self, by: u64) {
        self.0.fetch_add(by, Ordering::SeqCst);
    }

    fn absolute(&self, value: u64) {
        self.0.store(value, Ordering::SeqCst);
    }
}

impl GaugeFn for Value {
    fn increment(&self, _: f64) {}
    fn decrement(&self, _: f64) {}

    fn set(&self, value: f64) {
        self.0.store(value as u64, Ordering::SeqCst);
    }
}
