//! The consumer: from Kafka to a handler, at least once, one message at a time per key.
//!
//! Problem: a message must not be lost between its arrival and its effect, one message that cannot be used must not
//! stop those behind it, and trouble with one key or partition must not stop the others.
//!
//! Rule: an offset is stored after the handler has committed, never before, and only as the end of a contiguous prefix
//! that took effect, whatever the order in which messages end; the client commits stored offsets in the background.
//! What may succeed later is tried again in place for ever; what never can goes to the dead-letter topic, and only then
//! counts as done. An event that is not due (`notbefore`) holds up its partition until it is. Each partition has a
//! worker; the polling loop never waits for one, and pauses a partition whose worker lags behind.
//!
//! Not for handlers without an inbox: rebalances, crashes and replays deliver twice.
//!
//! When copying: `session.timeout.ms` is how long a crashed consumer's partitions stand still, and `max_waiting` is how
//! many messages of a partition come again after a crash, at most.

mod client;
mod config;
mod handler;
mod partition;
mod prefix;
mod process;

use std::{collections::HashMap, sync::Arc, time::Duration};

use contracts::topic::{Queue, Topic};
use rdkafka::{
    Message, TopicPartitionList,
    consumer::{CommitMode, Consumer as _, StreamConsumer},
    error::{KafkaError, RDKafkaErrorCode},
    message::OwnedMessage,
};
use tokio::{
    sync::{Semaphore, mpsc},
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{KafkaConfig, broker, dead_letter::DeadLetters};
pub use config::ConsumerConfig;
pub use handler::{HandleError, Handler, Outcome};

use client::Context;
use partition::{Partition, Worker};
use process::Processor;

/// One member of a consumer group.
#[derive(Debug)]
pub struct Consumer<H> {
    kafka: KafkaConfig,
    group: String,
    /// By the topic's name on the broker.
    handlers: HashMap<Arc<str>, Arc<H>>,
    config: ConsumerConfig,
}

impl<H: Handler> Consumer<H> {
    /// `group` without prefix; it is also what the service names itself in its inbox.
    #[must_use]
    pub fn new(kafka: KafkaConfig, group: &str, topics: &[Topic], handler: H, config: ConsumerConfig) -> Self {
        let handler = Arc::new(handler);
        Self::of(kafka, group, topics.iter().map(|topic| (*topic, Arc::clone(&handler))), config)
    }

    /// For a queue and its retry tiers: a handler each, made with the number of its tier, so that it knows what comes
    /// next. One group reads them all, since a partition that waits holds up no other.
    #[must_use]
    pub fn of_queue(
        kafka: KafkaConfig,
        group: &str,
        queue: &Queue,
        handler: impl Fn(usize) -> H,
        config: ConsumerConfig,
    ) -> Self {
        let tiers = queue.iter().enumerate();
        Self::of(kafka, group, tiers.map(|(tier, topic)| (*topic, Arc::new(handler(tier)))), config)
    }

    fn of(
        kafka: KafkaConfig,
        group: &str,
        handlers: impl Iterator<Item = (Topic, Arc<H>)>,
        config: ConsumerConfig,
    ) -> Self {
        let handlers = handlers.map(|(topic, handler)| (Arc::from(kafka.prefixed(topic.name)), handler)).collect();
        Self { kafka, group: group.to_owned(), handlers, config }
    }

    /// Works until `stop`, then finishes the messages in hand, commits and leaves the group. An error is one of the
    /// configuration; a broker that is away is waited for. Dropping this future instead abandons the messages in hand
    /// and may block for seconds.
    pub async fn run(self, stop: CancellationToken) -> Result<(), KafkaError> {
        let (context, mut revoked) = Context::new(self.group.clone());
        let client = Arc::new(client::create(&self.kafka, &self.group, context)?);
        client.subscribe(&self.handlers.keys().map(|topic| &**topic).collect::<Vec<_>>())?;

        let (drained, mut drains) = mpsc::unbounded_channel();
        let mut workers = Workers {
            client: Arc::clone(&client),
            handlers: self.handlers,
            dead_letters: Arc::new(DeadLetters::new(self.kafka, self.group.clone())),
            group: Arc::from(self.group),
            permits: Arc::new(Semaphore::new(self.config.max_in_flight.get())),
            config: self.config,
            drained,
            working: HashMap::new(),
            leaving: HashMap::new(),
        };
        workers.show_at_zero();
        let mut complaints = Complaints::default();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(partitions) = revoked.recv() => workers.revoke(partitions),
                Some(partition) = drains.recv() => workers.resume(&partition),
                received = client.recv() => match received.map(|message| message.detach()) {
                    Ok(message) => {
                        // Polling may have run a rebalance just before it returned this message.
                        while let Ok(partitions) = revoked.try_recv() {
                            workers.revoke(partitions);
                        }
                        workers.dispatch(message);
                    }
                    Err(error) => {
                        complaints.hear(&error);
                        sleep(Duration::from_millis(50)).await;
                    }
                },
            }
        }
        drop(client);
        workers.stop().await;
        Ok(())
    }
}

/// The partitions that this process has, and those that it still has a hand on.
struct Workers<H> {
    client: Arc<StreamConsumer<Context>>,
    handlers: HashMap<Arc<str>, Arc<H>>,
    dead_letters: Arc<DeadLetters>,
    group: Arc<str>,
    permits: Arc<Semaphore>,
    config: ConsumerConfig,
    drained: mpsc::UnboundedSender<Partition>,
    working: HashMap<Partition, Working>,
    /// Workers of revoked partitions that have messages in hand. If the partition comes back, its next worker waits.
    leaving: HashMap<Partition, AbortOnDropHandle<()>>,
}

struct Working {
    /// Not bounded by itself: a partition with `max_waiting` messages here is paused, and librdkafka hands over no more.
    messages: mpsc::UnboundedSender<OwnedMessage>,
    waiting: partition::Waiting,
    paused: bool,
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl<H: Handler> Workers<H> {
    /// What has not gone wrong yet: of a series that begins with a one, a rate would not see it.
    fn show_at_zero(&self) {
        for topic in self.handlers.keys() {
            self.dead_letters.expect_from(topic);
            process::failures(&self.group, topic, process::TRANSIENT).increment(0);
        }
    }

    fn dispatch(&mut self, message: OwnedMessage) {
        let partition = Partition { topic: Arc::from(message.topic()), number: message.partition() };
        if !self.working.contains_key(&partition) {
            // Nothing comes from a topic that we have not subscribed to.
            let Some(started) = self.start(partition.clone()) else { return };
            self.working.insert(partition.clone(), started);
        }
        let Some(working) = self.working.get_mut(&partition) else { return };
        let waiting = working.waiting.one_more();
        // Fails only when the worker has ended, which it does on being stopped alone.
        let _ = working.messages.send(message);
        if waiting >= self.config.max_waiting && !working.paused {
            match self.client.pause(&partition.list()) {
                Ok(()) => working.paused = true,
                Err(error) => tracing::warn!(%error, %partition, "a partition could not be paused"),
            }
        }
    }

    fn start(&mut self, partition: Partition) -> Option<Working> {
        let handler = Arc::clone(self.handlers.get(&partition.topic)?);
        let (messages, received) = mpsc::unbounded_channel();
        let (waiting, stop) = (partition::Waiting::default(), CancellationToken::new());
        let processor = Processor {
            handler,
            dead_letters: Arc::clone(&self.dead_letters),
            group: Arc::clone(&self.group),
            config: self.config.clone(),
            permits: Arc::clone(&self.permits),
            stop: stop.clone(),
            partition: partition.clone(),
        };
        let client = Arc::clone(&self.client);
        let worker = Worker { client, processor, waiting: waiting.clone(), drained: self.drained.clone() };
        let previous = self.leaving.remove(&partition);
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            if let Some(previous) = previous {
                let _ = previous.await;
            }
            worker.run(received).await;
        }));
        Some(Working { messages, waiting, paused: false, stop, task })
    }

    fn revoke(&mut self, partitions: Vec<Partition>) {
        self.leaving.retain(|_, task| !task.is_finished());
        for partition in partitions {
            if let Some(working) = self.working.remove(&partition) {
                working.stop.cancel();
                self.leaving.insert(partition, working.task);
            }
        }
    }

    fn resume(&mut self, partition: &Partition) {
        let Some(working) = self.working.get_mut(partition).filter(|working| working.paused) else { return };
        match self.client.resume(&partition.list()) {
            Ok(()) => working.paused = false,
            Err(error) => tracing::warn!(%error, %partition, "a partition could not be resumed"),
        }
    }

    /// Finishes what is in hand, commits and leaves.
    async fn stop(self) {
        let Self { client, dead_letters, config, working, leaving, .. } = self;
        let mut tasks: Vec<_> = leaving.into_values().collect();
        for (_, working) in working {
            working.stop.cancel();
            tasks.push(working.task);
        }
        let deadline = Instant::now() + config.stop_limit;
        for mut task in tasks {
            let left = deadline.saturating_duration_since(Instant::now());
            if timeout(left, &mut task).await.is_err() {
                tracing::warn!("messages in hand were not finished in time and will be delivered again");
                task.abort();
                let _ = task.await;
            }
        }
        let commit = |client: &Arc<StreamConsumer<Context>>| match client.commit_consumer_state(CommitMode::Sync) {
            Ok(()) | Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => {}
            Err(error) => tracing::warn!(%error, "the last offsets were not committed, their messages come again"),
        };
        broker::drop_within(client, config.stop_limit, commit).await;
        if let Some(dead_letters) = Arc::into_inner(dead_letters) {
            dead_letters.close(config.stop_limit).await;
        }
    }
}

impl Partition {
    fn list(&self) -> TopicPartitionList {
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition(&self.topic, self.number);
        list
    }
}

/// A broker that is away yields an error at every poll; one line in five seconds is enough.
#[derive(Default)]
struct Complaints {
    last: Option<Instant>,
    unsaid: u64,
}

impl Complaints {
    fn hear(&mut self, error: &KafkaError) {
        if self.last.is_some_and(|at| at.elapsed() < Duration::from_secs(5)) {
            self.unsaid += 1;
            return;
        }
        tracing::warn!(%error, more_before = self.unsaid, "Kafka cannot be read, trying on");
        self.last = Some(Instant::now());
        self.unsaid = 0;
    }
}
