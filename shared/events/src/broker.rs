//! Which broker answers, and whether it has our topics.
//!
//! Both are asked in one metadata request. Only missing topics are created, so that a broker whose topics somebody
//! else made is never asked for administration: the embedded one does not know those requests, and they would time out.

use std::{collections::HashSet, time::Duration};

use rdkafka::{
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::{Client, ClientContext},
    error::{KafkaError, RDKafkaErrorCode},
};

use crate::{KafkaConfig, config::Quiet, embedded};

/// How long one request to the broker may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// What a broker says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// Differs for every broker that began without data.
    pub identity: String,
    pub embedded: bool,
    topics: HashSet<String>,
}

impl Broker {
    /// Those of `topics` (names on the broker) that it does not have.
    pub fn missing<'a>(&self, topics: &'a [(String, i32)]) -> Vec<&'a (String, i32)> {
        topics.iter().filter(|(name, _)| !self.topics.contains(name)).collect()
    }
}

/// Creates what is missing of `topics` (our names; the prefix is added) on a real broker.
pub async fn ensure_topics(config: &KafkaConfig, topics: &[(String, i32)]) -> Result<(), KafkaError> {
    let client: AdminClient<Quiet> = config.client().create_with_context(Quiet)?;
    let topics: Vec<_> = topics.iter().map(|(name, partitions)| (config.prefixed(name), *partitions)).collect();
    let (client, broker) = blocking(move || {
        let broker = ask(client.inner());
        (client, broker)
    })
    .await?;
    let broker = broker?;
    let missing = broker.missing(&topics);
    if missing.is_empty() { Ok(()) } else { create(&client, &missing).await }
}

/// Asks the broker behind `client` for its identity and topics. Blocks for [`REQUEST_TIMEOUT`] twice at most.
pub(crate) fn ask<C: ClientContext>(client: &Client<C>) -> Result<Broker, KafkaError> {
    let metadata = client.fetch_metadata(None, REQUEST_TIMEOUT)?;
    let cluster = client
        .fetch_cluster_id(REQUEST_TIMEOUT)
        .ok_or(KafkaError::MetadataFetch(RDKafkaErrorCode::OperationTimedOut))?;
    let topics: HashSet<String> = metadata.topics().iter().map(|topic| topic.name().to_owned()).collect();
    // The embedded broker's cluster id is an address in memory, which a later process may have again: its mark is not.
    let mark = topics.iter().find(|name| name.starts_with(embedded::MARK));
    let identity = mark.map_or_else(|| cluster.clone(), |mark| format!("{cluster}/{mark}"));
    Ok(Broker { identity, embedded: mark.is_some(), topics })
}

/// Creates `topics` (names on the broker); one that somebody else creates meanwhile is fine.
pub(crate) async fn create_topics(config: &KafkaConfig, topics: &[&(String, i32)]) -> Result<(), KafkaError> {
    let client: AdminClient<Quiet> = config.client().create_with_context(Quiet)?;
    create(&client, topics).await
}

async fn create(client: &AdminClient<Quiet>, topics: &[&(String, i32)]) -> Result<(), KafkaError> {
    // -1 leaves the replication factor to the broker, who knows how many it has.
    let new: Vec<_> =
        topics.iter().map(|(name, partitions)| NewTopic::new(name, *partitions, TopicReplication::Fixed(-1))).collect();
    let options = AdminOptions::new().request_timeout(Some(REQUEST_TIMEOUT)).operation_timeout(Some(REQUEST_TIMEOUT));
    for result in client.create_topics(&new, &options).await? {
        match result {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((_, code)) => return Err(KafkaError::AdminOp(code)),
        }
    }
    Ok(())
}

/// Runs a bounded call of librdkafka that blocks, away from the async threads.
pub(crate) async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Result<T, KafkaError> {
    tokio::task::spawn_blocking(call).await.map_err(|_| KafkaError::Canceled)
}

/// Drops a client, which may block for seconds while its broker is away, on a thread of its own and waits for it for
/// `limit` at most. Not on the runtime's blocking pool, since ending the runtime would wait for that.
pub(crate) async fn drop_within<T: Send + 'static>(
    client: T,
    limit: Duration,
    before: impl FnOnce(&T) + Send + 'static,
) {
    let (done, dropped) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("kafka-close".to_owned()).spawn(move || {
        before(&client);
        drop(client);
        // Nobody listens any more when the limit has passed.
        let _ = done.send(());
    });
    match thread {
        Ok(_) if tokio::time::timeout(limit, dropped).await.is_err() => {
            tracing::warn!(?limit, "a Kafka client did not close in time and is left behind");
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "no thread to close a Kafka client on"),
    }
}
