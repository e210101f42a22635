//! The relay's producer, and what it knows of the broker behind it.

use std::{collections::HashMap, time::Duration};

use contracts::trace::TraceContext;
use durable::outbox::OutboxRow;
use futures_util::stream::{FuturesUnordered, StreamExt};
use rdkafka::{
    error::KafkaError,
    producer::{FutureRecord, Producer as _, PurgeConfig},
};
use tokio::{sync::mpsc, time::Instant};
use traces::{Kind, Span};

use super::RelayConfig;
use crate::{KafkaConfig, broker, config::Producer, header};

/// After topics could not be created: how long until that is tried again.
const CREATE_AGAIN_AFTER: Duration = Duration::from_secs(30);

pub(super) struct Publisher {
    kafka: KafkaConfig,
    config: RelayConfig,
    producer: Option<Producer>,
    /// The broker that the rows go to, and when it was last asked.
    broker: Option<String>,
    checked: Option<Instant>,
    create_after: Option<Instant>,
}

/// What became of a batch.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// Keys of which all rows were delivered.
    pub(super) keys: Vec<String>,
    /// Keys that stopped at a row, and why.
    pub(super) failed: Vec<(String, KafkaError)>,
    pub(super) lease_lost: bool,
}

impl Publisher {
    pub(super) fn new(kafka: KafkaConfig, config: RelayConfig) -> Self {
        Self { kafka, config, producer: None, broker: None, checked: None, create_after: None }
    }

    /// Asks the broker who it is when that is due, and creates the topics that a real one lacks. Returns its identity
    /// when the caller has to act on it: the first time, and when it is another one than before.
    pub(super) async fn check_broker(&mut self) -> Result<Option<String>, KafkaError> {
        if self.checked.is_some_and(|at| at.elapsed() < self.config.broker_check_interval) {
            return Ok(None);
        }
        let producer = self.producer().await?;
        let broker = broker::blocking(move || broker::ask(producer.client())).await??;
        self.ensure_topics(&broker).await;
        // The prefix belongs to the address: under another one the same broker has none of the events.
        let identity = format!("{}/{}", broker.identity, self.kafka.topic_prefix);
        if self.broker.as_ref() == Some(&identity) {
            self.checked = Some(Instant::now());
            return Ok(None);
        }
        if self.broker.take().is_some() {
            // The old broker's producer id and sequence numbers mean nothing to the new one.
            self.discard_producer(false).await;
        }
        Ok(Some(identity))
    }

    /// The outbox remembers the broker: do not ask again before the interval is over.
    pub(super) fn broker_is_known(&mut self, broker: String) {
        self.broker = Some(broker);
        self.checked = Some(Instant::now());
    }

    /// Something failed: ask again before the next delivery.
    pub(super) fn doubt_broker(&mut self) {
        self.checked = None;
    }

    /// Sends `rows`, those of one key one after the other, and hands the ids of delivered ones to `mark` as their
    /// reports come in. One message of a key is in flight at a time: with two, the second could be persisted although
    /// the first timed out, and then be overtaken by itself.
    pub(super) async fn deliver<M, F>(&mut self, rows: Vec<OutboxRow>, mark: M) -> sqlx::Result<Delivery>
    where
        M: Fn(Vec<i64>) -> F,
        F: Future<Output = sqlx::Result<bool>>,
    {
        let producer = match self.producer().await {
            Ok(producer) => producer,
            Err(error) => {
                let failed = rows.into_iter().map(|row| (row.key, error.clone())).collect();
                return Ok(Delivery { failed, ..Delivery::default() });
            }
        };
        let (reported, mut reports) = mpsc::channel(rows.len().max(1));
        let mut chains: FuturesUnordered<_> = by_key(rows)
            .into_iter()
            .map(|chain| send_in_order(&producer, &self.kafka, chain, reported.clone()))
            .collect();
        drop(reported);

        let (mut keys, mut failed) = (Vec::new(), Vec::new());
        let send = async {
            while let Some((key, result)) = chains.next().await {
                match result {
                    Ok(()) => keys.push(key),
                    Err(error) => failed.push((key, error)),
                }
            }
            // Drops the senders, which ends the marking.
            drop(chains);
        };
        let mark_reported = async {
            let mut ids = Vec::new();
            while reports.recv_many(&mut ids, 1_000).await > 0 {
                if !mark(std::mem::take(&mut ids)).await? {
                    return Ok(false);
                }
            }
            Ok::<_, sqlx::Error>(true)
        };
        let ((), marked) = tokio::join!(send, mark_reported);
        let lease_lost = !marked?;
        if let Some((code, reason)) = producer.client().fatal_error() {
            tracing::error!(?code, reason, "the producer is unusable, a new one publishes again what was not marked");
            metrics::counter!("outbox_producer_fatal_total").increment(1);
            drop(producer);
            self.discard_producer(false).await;
        }
        Ok(Delivery { keys, failed, lease_lost })
    }

    /// Lets go of the producer; `flush` gives what is on its way a last chance, else it is thrown away.
    pub(super) async fn close(mut self, flush: bool) {
        self.discard_producer(flush).await;
    }

    async fn producer(&mut self) -> Result<Producer, KafkaError> {
        if let Some(producer) = &self.producer {
            return Ok(producer.clone());
        }
        let producer: Producer = self.kafka.producer(self.config.delivery_timeout)?;
        self.producer = Some(producer.clone());
        Ok(producer)
    }

    async fn discard_producer(&mut self, flush: bool) {
        let Some(producer) = self.producer.take() else { return };
        let limit = self.config.flush_limit;
        let finish = move |producer: &Producer| {
            if flush {
                // What is not flushed in time is not marked either, and is published again.
                let _ = producer.flush(limit);
            }
            producer.purge(PurgeConfig::default().queue().inflight());
        };
        broker::drop_within(producer, limit + Duration::from_secs(1), finish).await;
    }

    async fn ensure_topics(&mut self, broker: &broker::Broker) {
        let topics: Vec<_> =
            self.config.topics.iter().map(|(name, partitions)| (self.kafka.prefixed(name), *partitions)).collect();
        let missing = broker.missing(&topics);
        if missing.is_empty() || self.create_after.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let created = if broker.embedded {
            // It takes no such request; whoever started it had to name them.
            Err(KafkaError::Subscription("the embedded broker was started without them".to_owned()))
        } else {
            broker::create_topics(&self.kafka, &missing).await
        };
        match created {
            Ok(()) => tracing::info!(?missing, "topics were created"),
            Err(error) => {
                tracing::error!(%error, ?missing, "topics are missing and cannot be created");
                self.create_after = Some(Instant::now() + CREATE_AGAIN_AFTER);
            }
        }
    }
}

/// Rows of one topic and key, in id order.
fn by_key(rows: Vec<OutboxRow>) -> Vec<Vec<OutboxRow>> {
    let mut chains: Vec<Vec<OutboxRow>> = Vec::new();
    let mut chain_of: HashMap<(String, String), usize> = HashMap::new();
    for row in rows {
        let next = chains.len();
        let chain = *chain_of.entry((row.topic.clone(), row.key.clone())).or_insert(next);
        if chain == next {
            chains.push(Vec::new());
        }
        chains[chain].push(row);
    }
    chains
}

/// The span of a row's delivery, within what it tells of.
fn published(row: &OutboxRow) -> Span {
    let trace = row.traceparent.as_deref().and_then(|text| text.parse().ok()).unwrap_or_else(TraceContext::root);
    let mut span = Span::within(Kind::Producer, &trace, || format!("publish {}", row.topic).into());
    span.set("messaging.system", "kafka");
    span.set_display("order.id", &row.key);
    span
}

async fn send_in_order(
    producer: &Producer,
    kafka: &KafkaConfig,
    chain: Vec<OutboxRow>,
    reported: mpsc::Sender<i64>,
) -> (String, Result<(), KafkaError>) {
    let mut key = String::new();
    for row in chain {
        let topic = kafka.prefixed(&row.topic);
        let mut span = published(&row);
        let own = span.context().map(|own| own.to_string());
        let record = FutureRecord::to(&topic)
            .key(&row.key)
            .payload(&row.payload)
            .headers(header::of_event(own.as_deref().or(row.traceparent.as_deref())));
        // The queue is far larger than a batch; should it be full, the key waits like after any failure.
        let sent = producer.send(record, Duration::ZERO).await;
        key = row.key;
        if let Err((error, _)) = sent {
            span.fail("not delivered");
            return (key, Err(error));
        }
        // Fails only when marking stopped, and then nothing that was sent is marked any more.
        let _ = reported.send(row.id).await;
    }
    (key, Ok(()))
}
