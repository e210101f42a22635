//! Dead letters: messages that a consumer can never use, kept with the reason where people look after them.
//!
//! Each goes to its topic's dead-letter topic as it came (key, bytes, headers), with headers that say who gave it up,
//! where it lay and why, so that it can be read, mended and sent again.

use std::time::Duration;

use contracts::topic;
use rdkafka::{
    Message, Timestamp,
    error::KafkaError,
    message::{Header, OwnedHeaders, OwnedMessage},
    producer::{FutureRecord, Producer as _},
};
use tokio::sync::Mutex;

use crate::{KafkaConfig, broker, config::Producer};

/// `unreadable` or `refused`.
pub const REASON: &str = "dead-letter-reason";
/// What exactly, for people.
pub const DETAIL: &str = "dead-letter-detail";
/// The consumer group that gave it up.
pub const GROUP: &str = "dead-letter-group";
pub const ORIGIN_TOPIC: &str = "dead-letter-origin-topic";
pub const ORIGIN_PARTITION: &str = "dead-letter-origin-partition";
pub const ORIGIN_OFFSET: &str = "dead-letter-origin-offset";
/// Milliseconds since 1970, as the broker had it.
pub const ORIGIN_TIMESTAMP: &str = "dead-letter-origin-timestamp";

const DELIVERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Of the detail, in characters: the letter must fit where its message did.
const MAX_DETAIL: usize = 1_000;

/// Why a message is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It is no event.
    Unreadable,
    /// The handler refused it for good.
    Refused,
}

impl Reason {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Refused => "refused",
        }
    }
}

/// One consumer group's way to the dead-letter topics. The producer is made for the first letter.
pub(crate) struct DeadLetters {
    kafka: KafkaConfig,
    group: String,
    producer: Mutex<Option<Producer>>,
}

impl DeadLetters {
    pub(crate) fn new(kafka: KafkaConfig, group: String) -> Self {
        Self { kafka, group, producer: Mutex::new(None) }
    }

    /// Shown at zero before the first letter from `topic`, so that a rate sees that one too.
    pub(crate) fn expect_from(&self, topic: &str) {
        for reason in [Reason::Unreadable, Reason::Refused] {
            self.counter(topic, reason).increment(0);
        }
    }

    fn counter(&self, topic: &str, reason: Reason) -> metrics::Counter {
        metrics::counter!("dead_letters_total",
            "topic" => topic.to_owned(), "group" => self.group.clone(), "reason" => reason.as_str())
    }

    /// Ends when the broker has the letter; only then may the message's offset be stored.
    pub(crate) async fn deliver(&self, message: &OwnedMessage, reason: Reason, detail: &str) -> Result<(), KafkaError> {
        let producer = self.producer().await?;
        let topic = topic::dead_letters(message.topic());
        let mut record = FutureRecord::<[u8], [u8]>::to(&topic).headers(self.headers(message, reason, detail));
        (record.key, record.payload) = (message.key(), message.payload());
        let sent = producer.send(record, DELIVERY_TIMEOUT).await;
        if let Err((error, _)) = sent {
            if producer.client().fatal_error().is_some() {
                *self.producer.lock().await = None;
            }
            return Err(error);
        }
        tracing::warn!(
            group = self.group,
            topic = message.topic(),
            partition = message.partition(),
            offset = message.offset(),
            reason = reason.as_str(),
            detail,
            "a message became a dead letter"
        );
        self.counter(message.topic(), reason).increment(1);
        Ok(())
    }

    pub(crate) async fn close(self, limit: Duration) {
        if let Some(producer) = self.producer.into_inner() {
            broker::drop_within(producer, limit, |_| {}).await;
        }
    }

    async fn producer(&self) -> Result<Producer, KafkaError> {
        let mut slot = self.producer.lock().await;
        if let Some(producer) = &*slot {
            return Ok(producer.clone());
        }
        let producer: Producer = self.kafka.producer(DELIVERY_TIMEOUT)?;
        *slot = Some(producer.clone());
        Ok(producer)
    }

    fn headers(&self, message: &OwnedMessage, reason: Reason, detail: &str) -> OwnedHeaders {
        let timestamp = match message.timestamp() {
            Timestamp::CreateTime(at) | Timestamp::LogAppendTime(at) => at,
            Timestamp::NotAvailable => -1,
        };
        let detail: String = detail.chars().take(MAX_DETAIL).collect();
        let partition = message.partition().to_string();
        let (offset, timestamp) = (message.offset().to_string(), timestamp.to_string());
        [
            (REASON, reason.as_str()),
            (DETAIL, &detail),
            (GROUP, &self.group),
            (ORIGIN_TOPIC, message.topic()),
            (ORIGIN_PARTITION, &partition),
            (ORIGIN_OFFSET, &offset),
            (ORIGIN_TIMESTAMP, &timestamp),
        ]
        .into_iter()
        .fold(message.headers().cloned().unwrap_or_default(), |headers, (key, value)| {
            headers.insert(Header { key, value: Some(value) })
        })
    }
}
