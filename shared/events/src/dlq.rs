//! Looking after dead letters: reading what is there, and sending it again.
//!
//! Problem: a dead letter is of use only if somebody can see why it died and, once the reason is gone, send it again,
//! and sending everything again must not repeat what was sent yesterday.
//!
//! Rule: a letter goes back to the topic that it came from as it was, key, bytes and headers, without what was added
//! when it died. That it went is written down behind it in the dead-letter topic itself, as a record that names its
//! partition and offset: offsets of a group could only say "up to here", and not "this one". A crash between the two
//! sends a letter once more, which the inbox makes harmless. One that dies again is a new letter. What several groups
//! gave up is sent once, since all of them will see it.
//!
//! Not for a topic with more letters than fit in memory without their bytes.
//!
//! When copying: who refused a message before it had an effect will look at it again; one that took effect is known to
//! the inbox, and stays without a further one.

use std::{
    cmp::Reverse,
    collections::{HashSet, VecDeque},
    time::Duration,
};

use chrono::{DateTime, Utc};
use contracts::{Event, topic};
use rdkafka::{
    ClientConfig, Message, Offset, Timestamp, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, RDKafkaErrorCode},
    message::{Header, Headers as _, OwnedHeaders, OwnedMessage},
    producer::FutureRecord,
};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::{KafkaConfig, broker, config::Quiet, dead_letter, header};

/// In the record that says of a letter that it was sent again: where the letter lies.
const REPLAYED_PARTITION: &str = "replayed-partition";
const REPLAYED_OFFSET: &str = "replayed-offset";

/// Begins the name of every header that a message got when it died.
const ADDED: &str = "dead-letter-";

const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// A broker that says nothing for so long, although there is something to read, is away.
const SILENCE: Duration = Duration::from_secs(10);

/// A dead letter and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadLetter {
    /// The dead-letter topic, and where in it.
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    /// When it died.
    pub time: Option<DateTime<Utc>>,
    /// Of the event, where it can be read.
    pub event_id: Option<String>,
    pub event_type: Option<String>,
    pub key: Option<String>,
    pub reason: Option<String>,
    pub detail: Option<String>,
    /// The consumer group that gave it up.
    pub group: Option<String>,
    pub origin_topic: Option<String>,
    pub origin_partition: Option<i32>,
    pub origin_offset: Option<i64>,
    /// Whether it was sent again since.
    pub replayed: bool,
    /// The beginning of what it says, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
}

/// Of a letter's bytes, as many as anybody reads.
const SHOWN: usize = 4_096;

/// Why letters cannot be read or sent.
#[derive(Debug, thiserror::Error)]
pub enum DlqError {
    #[error("there is no topic {0} with dead letters; there are {1}")]
    UnknownTopic(String, String),
    #[error("Kafka does not answer")]
    Kafka(#[from] KafkaError),
}

/// Which letters to send again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All that were not sent again yet.
    All,
    /// Those of one event, whether or not they were sent before.
    Event(String),
    /// The one that lies there, if it was not sent again yet.
    At { partition: i32, offset: i64 },
}

/// What sending again came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// The letters that are done with.
    pub letters: Vec<DeadLetter>,
    /// The messages that were sent for them: fewer, where several groups gave up the same one.
    pub messages: usize,
    /// Letters that do not say where they came from.
    pub without_origin: usize,
}

/// The letters of all topics, or of one; `topic` is its name without prefix, with or without `.dlq`.
pub async fn list(kafka: &KafkaConfig, topic: Option<&str>) -> Result<Vec<DeadLetter>, DlqError> {
    let mut letters = Vec::new();
    for topic in topics(topic)? {
        letters.extend(read_topic(kafka, &topic, None).await?);
    }
    Ok(letters)
}

/// The newest `most` letters of all topics, or of one, newest first, with what they say.
pub async fn newest(kafka: &KafkaConfig, topic: Option<&str>, most: usize) -> Result<Vec<DeadLetter>, DlqError> {
    let mut letters = Vec::new();
    for topic in topics(topic)? {
        letters.extend(read_topic(kafka, &topic, Some(most)).await?);
    }
    letters.sort_by_key(|letter| Reverse((letter.time, letter.offset)));
    letters.truncate(most);
    Ok(letters)
}

/// Sends letters again, oldest first.
pub async fn replay(kafka: &KafkaConfig, topic: Option<&str>, which: &Selection) -> Result<Replayed, DlqError> {
    let producer = kafka.producer(REQUEST_TIMEOUT)?;
    let mut replayed = Replayed::default();
    for topic in topics(topic)? {
        let wanted: Vec<_> =
            read_topic(kafka, &topic, None).await?.into_iter().filter(|letter| which.takes(letter)).collect();
        if wanted.is_empty() {
            continue;
        }
        let (mut wanted, mut gone) = (wanted.into_iter().peekable(), HashSet::new());
        // Their bytes are read only now, so that never more than a few of them are in memory.
        let mut messages = read(kafka, &topic);
        while let (Some(next), Some(message)) = (wanted.peek(), messages.recv().await.transpose()?) {
            if (next.partition, next.offset) != (message.partition(), message.offset()) {
                continue;
            }
            let Some(letter) = wanted.next() else { break };
            let Some(origin) = &letter.origin_topic else {
                replayed.without_origin += 1;
                continue;
            };
            if gone.insert((letter.origin_partition, letter.origin_offset, origin.clone())) {
                let mut record = FutureRecord::<[u8], [u8]>::to(origin).headers(original_headers(&message));
                (record.key, record.payload) = (message.key(), message.payload());
                producer.send(record, REQUEST_TIMEOUT).await.map_err(|(error, _)| error)?;
                replayed.messages += 1;
            }
            let (partition, offset) = (letter.partition.to_string(), letter.offset.to_string());
            let headers = OwnedHeaders::new_with_capacity(2)
                .insert(Header { key: REPLAYED_PARTITION, value: Some(&partition) })
                .insert(Header { key: REPLAYED_OFFSET, value: Some(&offset) });
            let mut note = FutureRecord::<[u8], [u8]>::to(message.topic()).headers(headers);
            note.key = message.key();
            producer.send(note, REQUEST_TIMEOUT).await.map_err(|(error, _)| error)?;
            tracing::info!(topic = letter.topic, offset = letter.offset, origin, "a dead letter was sent again");
            replayed.letters.push(DeadLetter { replayed: true, ..letter });
        }
    }
    broker::drop_within(producer, REQUEST_TIMEOUT, |_| {}).await;
    Ok(replayed)
}

impl Selection {
    fn takes(&self, letter: &DeadLetter) -> bool {
        match self {
            Self::All => !letter.replayed,
            Self::Event(id) => letter.event_id.as_ref() == Some(id),
            Self::At { partition, offset } => {
                !letter.replayed && (letter.partition, letter.offset) == (*partition, *offset)
            }
        }
    }
}

/// The dead-letter topics that are meant, without prefix.
fn topics(wanted: Option<&str>) -> Result<Vec<String>, DlqError> {
    let all = topic::all().into_iter().map(|(name, _)| name);
    let all: Vec<String> = all.filter(|name| name.ends_with(topic::DEAD_LETTER_SUFFIX)).collect();
    let Some(wanted) = wanted else { return Ok(all) };
    let name = wanted.strip_suffix(topic::DEAD_LETTER_SUFFIX).unwrap_or(wanted);
    let name = topic::dead_letters(name);
    if all.contains(&name) {
        return Ok(vec![name]);
    }
    Err(DlqError::UnknownTopic(wanted.to_owned(), all.join(", ")))
}

/// All letters of one topic, in the order in which they came; of those of which the words are wanted, the last ones.
async fn read_topic(kafka: &KafkaConfig, topic: &str, worded: Option<usize>) -> Result<Vec<DeadLetter>, DlqError> {
    let (mut letters, mut replayed) = (VecDeque::new(), HashSet::new());
    let mut messages = read(kafka, topic);
    while let Some(message) = messages.recv().await.transpose()? {
        match note(&message) {
            Some(at) => drop(replayed.insert(at)),
            None => {
                let payload = worded
                    .and(message.payload())
                    .map(|bytes| String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned());
                letters.push_back(DeadLetter { payload, ..describe(&message) });
                if worded.is_some_and(|most| letters.len() > most) {
                    letters.pop_front();
                }
            }
        }
    }
    let mut letters = Vec::from(letters);
    for letter in &mut letters {
        letter.replayed = replayed.contains(&(letter.partition, letter.offset));
    }
    Ok(letters)
}

/// Which letter was sent again, if this record says so of one.
fn note(message: &OwnedMessage) -> Option<(i32, i64)> {
    let number = |key| header::text(message.headers(), key);
    Some((number(REPLAYED_PARTITION)?.parse().ok()?, number(REPLAYED_OFFSET)?.parse().ok()?))
}

fn describe(message: &OwnedMessage) -> DeadLetter {
    let text = |key| header::text(message.headers(), key).map(str::to_owned);
    let event: Option<Event> = message.payload().and_then(|payload| serde_json::from_slice(payload).ok());
    let time = match message.timestamp() {
        Timestamp::CreateTime(at) | Timestamp::LogAppendTime(at) => DateTime::from_timestamp_millis(at),
        Timestamp::NotAvailable => None,
    };
    DeadLetter {
        topic: message.topic().to_owned(),
        partition: message.partition(),
        offset: message.offset(),
        time,
        event_id: event.as_ref().map(|event| event.id.to_string()),
        event_type: event.map(|event| event.kind),
        key: message.key().map(|key| String::from_utf8_lossy(key).into_owned()),
        reason: text(dead_letter::REASON),
        detail: text(dead_letter::DETAIL),
        group: text(dead_letter::GROUP),
        origin_topic: text(dead_letter::ORIGIN_TOPIC),
        origin_partition: text(dead_letter::ORIGIN_PARTITION).and_then(|number| number.parse().ok()),
        origin_offset: text(dead_letter::ORIGIN_OFFSET).and_then(|number| number.parse().ok()),
        replayed: false,
        payload: None,
    }
}

fn original_headers(message: &OwnedMessage) -> OwnedHeaders {
    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
    headers
        .filter(|header| !header.key.starts_with(ADDED))
        .fold(OwnedHeaders::new(), |kept, header| kept.insert(Header { key: header.key, value: header.value }))
}

/// Everything that is on a topic at this moment, one message after the other; a topic that the broker does not have is
/// empty.
fn read(kafka: &KafkaConfig, topic: &str) -> mpsc::Receiver<Result<OwnedMessage, KafkaError>> {
    let (sender, receiver) = mpsc::channel(8);
    let (config, topic) = (kafka.client(), kafka.prefixed(topic));
    // Ends when the receiver is gone, at the latest after the silence.
    drop(tokio::task::spawn_blocking(move || {
        if let Err(error) = read_blocking(config, &topic, &sender) {
            // Nobody listens any more.
            let _ = sender.blocking_send(Err(error));
        }
    }));
    receiver
}

fn read_blocking(
    mut config: ClientConfig,
    topic: &str,
    sender: &mpsc::Sender<Result<OwnedMessage, KafkaError>>,
) -> Result<(), KafkaError> {
    // A group is asked for, and never joined.
    config.set("group.id", "dead-letter-reader").set("enable.auto.commit", "false").set("fetch.wait.max.ms", "100");
    let consumer: BaseConsumer<Quiet> = config.create_with_context(Quiet)?;
    let metadata = consumer.fetch_metadata(Some(topic), REQUEST_TIMEOUT)?;
    let partitions = metadata.topics().iter().find(|found| found.name() == topic).map_or(&[][..], |t| t.partitions());
    for partition in partitions {
        let (low, high) = consumer.fetch_watermarks(topic, partition.id(), REQUEST_TIMEOUT)?;
        if low >= high {
            continue;
        }
        let mut from = TopicPartitionList::new();
        from.add_partition_offset(topic, partition.id(), Offset::Offset(low))?;
        consumer.assign(&from)?;
        loop {
            let message = match consumer.poll(SILENCE) {
                Some(message) => message?.detach(),
                None => return Err(KafkaError::MessageConsumption(RDKafkaErrorCode::OperationTimedOut)),
            };
            if message.offset() >= high {
                break;
            }
            let last = message.offset() + 1 >= high;
            if sender.blocking_send(Ok(message)).is_err() {
                return Ok(());
            }
            if last {
                break;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_named_with_or_without_its_suffix_and_an_unknown_one_is_told_which_there_are() {
        assert_eq!(topics(Some("orders")).unwrap(), ["orders.dlq"]);
        assert_eq!(topics(Some("orders.dlq")).unwrap(), ["orders.dlq"]);
        assert_eq!(topics(Some("coupons.compensate.retry.2")).unwrap(), ["coupons.compensate.dlq"]);
        let all = topics(None).unwrap();
        assert!(all.contains(&"payments.reconcile.dlq".to_owned()) && all.len() == 5, "{all:?}");
        let error = topics(Some("oders")).unwrap_err().to_string();
        assert!(error.contains("oders") && error.contains("orders.dlq"), "{error}");
    }

    #[test]
    fn what_was_added_when_it_died_is_taken_off_and_nothing_else() {
        let headers = OwnedHeaders::new()
            .insert(Header { key: "traceparent", value: Some("t") })
            .insert(Header { key: dead_letter::REASON, value: Some("refused") })
            .insert(Header { key: dead_letter::ORIGIN_OFFSET, value: Some("7") });
        let timestamp = Timestamp::NotAvailable;
        let message = OwnedMessage::new(None, None, "orders.dlq".to_owned(), timestamp, 0, 0, Some(headers));
        let left = original_headers(&message);
        assert_eq!(left.iter().map(|header| header.key).collect::<Vec<_>>(), ["traceparent"]);
    }
}
