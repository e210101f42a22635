//! A Kafka for development and tests without Kafka: librdkafka's mock cluster, in memory.
//!
//! What it cannot do is said where it is chosen ([`LIMITS`]). It is one broker, listens on 127.0.0.1 alone, picks its
//! own port and tells clients that port in its metadata, so a fixed bootstrap port is a [`serve`] that forwards to it.

use std::{io, net::SocketAddr, sync::mpsc, thread::JoinHandle};

use rdkafka::{
    error::KafkaError,
    mocking::MockCluster,
    types::{RDKafkaApiKey, RDKafkaRespErr},
};
use tokio::{
    io::{AsyncWriteExt, copy, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

use crate::advertise::Advertised;

/// What whoever chooses it has to know, in one line.
pub const LIMITS: &str = "in memory (gone when it ends), at most 5 MiB and 100 000 batches a partition (the oldest are \
                          dropped in silence), no transactions, no topic administration, 127.0.0.1 only";

/// Begins the name of a topic that marks the broker as embedded, and as another one than any before it.
pub(crate) const MARK: &str = "__embedded.";

/// Connections that the forwarder carries at once. Clients use the bootstrap port only until they have metadata.
const MAX_CONNECTIONS: usize = 512;

/// A broker in this process. It ends when dropped.
#[derive(Debug)]
pub struct EmbeddedBroker {
    bootstrap: String,
    commands: mpsc::Sender<Command>,
    thread: Option<JoinHandle<()>>,
}

/// Why no broker can be had on an address.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] io::Error),
    #[error("{0} is not a loopback address: the embedded broker has no access control")]
    NotLoopback(SocketAddr),
    #[error("the embedded broker does not start")]
    Broker(#[from] KafkaError),
}

impl EmbeddedBroker {
    /// Starts a broker with `topics` (name and partitions). Nothing else creates topics on it.
    pub fn start(topics: &[(String, i32)]) -> Result<Self, KafkaError> {
        let (commands, received) = mpsc::channel();
        let (started, start) = mpsc::channel();
        let mut topics = topics.to_vec();
        topics.push((format!("{MARK}{}", Uuid::new_v4()), 1));
        // The cluster must stay on the thread that made it.
        let thread = std::thread::Builder::new().name("embedded-kafka".to_owned()).spawn(move || {
            let cluster = MockCluster::new(1).and_then(|cluster| {
                topics.iter().try_for_each(|(name, partitions)| cluster.create_topic(name, *partitions, 1))?;
                Ok(cluster)
            });
            match cluster {
                Ok(cluster) => {
                    let _ = started.send(Ok(cluster.bootstrap_servers()));
                    obey(&cluster, &received);
                }
                Err(error) => drop(started.send(Err(error))),
            }
        });
        let thread = thread.map_err(|e| KafkaError::ClientCreation(format!("no thread for the broker: {e}")))?;
        let bootstrap = start.recv().map_err(|_| KafkaError::ClientCreation("the broker's thread ended".into()))??;
        Ok(Self { bootstrap, commands, thread: Some(thread) })
    }

    /// `host:port` that clients begin with.
    #[must_use]
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Breaks all connections and takes no new ones; data stays.
    pub fn cut(&self) {
        let _ = self.commands.send(Command::Cut);
    }

    /// Takes connections again.
    pub fn restore(&self) {
        let _ = self.commands.send(Command::Restore);
    }

    /// Answers the next message with a sequence error, which makes an idempotent producer unusable for good.
    pub fn lose_sequence(&self) {
        let _ = self.commands.send(Command::LoseSequence);
    }
}

impl Drop for EmbeddedBroker {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs a broker behind `address` until `stop`; `ready` is called once it takes connections. The address is claimed
/// before the broker starts, so that a taken port costs nothing. With `advertise`, whoever asks the broker where it is
/// is sent to that port of this machine, where something has to lead back to `address`.
pub async fn serve(
    address: SocketAddr,
    advertise: Option<u16>,
    topics: &[(String, i32)],
    stop: CancellationToken,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    if !address.ip().is_loopback() {
        return Err(ServeError::NotLoopback(address));
    }
    let listener = TcpListener::bind(address).await.map_err(|e| ServeError::Listen(address, e))?;
    let local = listener.local_addr().map_err(|e| ServeError::Listen(address, e))?;
    let broker = EmbeddedBroker::start(topics)?;
    ready(local);
    let advertised = advertise.and_then(|port| Advertised::new(broker.bootstrap(), port));
    forward(listener, broker.bootstrap().to_owned(), advertised, stop).await;
    Ok(())
}

/// Carries every connection of `listener` to `target` until `stop`, and has it give another address for itself.
pub async fn forward(listener: TcpListener, target: String, advertised: Option<Advertised>, stop: CancellationToken) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let mut client = match accepted {
            // Above the cap a connection is closed at once; librdkafka tries again by itself.
            Ok(_) if connections.len() >= MAX_CONNECTIONS => continue,
            Ok((client, _)) => client,
            Err(error) => {
                tracing::warn!(%error, "the forwarder cannot accept");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        let (target, advertised, stop) = (target.clone(), advertised.clone(), stop.clone());
        connections.spawn(async move {
            let Ok(mut broker) = TcpStream::connect(&target).await else { return };
            let _ = (client.set_nodelay(true), broker.set_nodelay(true));
            tokio::select! {
                () = stop.cancelled() => {}
                _ = carry(&mut client, &mut broker, advertised.as_ref()) => {}
            }
        });
    }
    connections.close();
    connections.wait().await;
}

async fn carry(client: &mut TcpStream, broker: &mut TcpStream, advertised: Option<&Advertised>) -> io::Result<()> {
    let Some(advertised) = advertised else {
        return copy_bidirectional(client, broker).await.map(drop);
    };
    let (mut from_client, mut to_client) = client.split();
    let (mut from_broker, mut to_broker) = broker.split();
    let there = async {
        copy(&mut from_client, &mut to_broker).await?;
        to_broker.shutdown().await
    };
    tokio::try_join!(there, advertised.copy(&mut from_broker, &mut to_client)).map(drop)
}

#[derive(Debug, Clone, Copy)]
enum Command {
    Cut,
    Restore,
    LoseSequence,
    Stop,
}

fn obey<C: rdkafka::ClientContext>(cluster: &MockCluster<'_, C>, commands: &mpsc::Receiver<Command>) {
    const ALL: i32 = -1;
    // Ends with the broker's handle, whether it said so or not.
    while let Ok(command) = commands.recv() {
        let done = match command {
            Command::Cut => cluster.broker_down(ALL),
            Command::Restore => cluster.broker_up(ALL),
            Command::LoseSequence => {
                let error = RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
                cluster.request_errors(RDKafkaApiKey::Produce, &[error]);
                Ok(())
            }
            Command::Stop => return,
        };
        if let Err(error) = done {
            tracing::error!(%error, ?command, "the embedded broker does not obey");
        }
    }
}
