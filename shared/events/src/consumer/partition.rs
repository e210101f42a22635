//! The worker of one partition: several messages in hand, but of each key one after the other, and all of them behind
//! one that asks to be left alone for a while.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use rdkafka::{
    Message, Offset,
    consumer::{Consumer as _, StreamConsumer},
    message::OwnedMessage,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{
    Handler,
    client::Context,
    prefix::Prefix,
    process::{Processor, Received, Stopped},
};
use crate::broker;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Partition {
    pub(super) topic: Arc<str>,
    pub(super) number: i32,
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.topic, self.number)
    }
}

/// How many messages one worker was given that are not behind its prefix yet. Those that ended count as long as one in
/// front of them has not: they come again after a crash, so their number is bounded too.
#[derive(Debug, Clone, Default)]
pub(super) struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    pub(super) fn one_more(&self) -> usize {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// How many there were before and are now.
    fn fewer(&self, by: usize) -> (usize, usize) {
        let before = self.0.fetch_sub(by, Ordering::AcqRel);
        (before, before - by)
    }
}

pub(super) struct Worker<H> {
    pub(super) client: Arc<StreamConsumer<Context>>,
    pub(super) processor: Processor<H>,
    pub(super) waiting: Waiting,
    pub(super) drained: mpsc::UnboundedSender<Partition>,
}

/// Messages of one key wait behind the one that is in hand. Without a key they are all of one kind.
type Key = Option<Vec<u8>>;

#[derive(Default)]
struct Lanes {
    prefix: Prefix,
    /// A key is here as long as one of its messages is in hand.
    behind: HashMap<Key, VecDeque<Received>>,
}

impl<H: Handler> Worker<H> {
    /// Until stopped. Messages in hand are finished first.
    pub(super) async fn run(self, mut messages: mpsc::UnboundedReceiver<OwnedMessage>) {
        let (mut lanes, mut expected) = (Lanes::default(), None);
        let mut in_hand = FuturesUnordered::new();
        // One that is not due yet, with the moment when it will be. Those that came before it are not held up by it.
        let mut early: Option<(Instant, Received)> = None;
        let stop = &self.processor.stop;
        loop {
            let room = early.is_none() && in_hand.len() < self.processor.config.max_in_flight_per_partition.get();
            let due = early.as_ref().map_or_else(Instant::now, |(due, _)| *due);
            let ready = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = in_hand.next() => {
                    in_hand.extend(self.end(&mut lanes, ended).map(|next| self.process(next)));
                    None
                }
                () = sleep_until(due), if early.is_some() => early.take().map(|(_, received)| received),
                received = messages.recv(), if room => {
                    let Some(message) = received else { break };
                    self.look_for_gap(&mut expected, message.offset()).await;
                    let received = Received::read(message);
                    match received.wait() {
                        Some(wait) => {
                            early = Some((Instant::now() + wait.min(self.processor.config.max_delay), received));
                            None
                        }
                        None => Some(received),
                    }
                }
            };
            let Some(received) = ready else { continue };
            // A partition that began anew repeats offsets. What was begun before is ended first, so that no end of an
            // old message is taken for that of a new one.
            while lanes.prefix.last() >= Some(received.message.offset()) {
                let Some(ended) = in_hand.next().await else { break };
                in_hand.extend(self.end(&mut lanes, ended).map(|next| self.process(next)));
            }
            in_hand.extend(lanes.admit(received).map(|received| self.process(received)));
        }
        while let Some(ended) = in_hand.next().await {
            self.end(&mut lanes, ended);
        }
    }

    async fn process(&self, received: Received) -> (Received, Result<(), Stopped>) {
        let result = self.processor.process(&received).await;
        (received, result)
    }

    /// Returns the next message of the same key.
    fn end(&self, lanes: &mut Lanes, (ended, result): (Received, Result<(), Stopped>)) -> Option<Received> {
        // Stopped: it stays open, and the prefix does not pass it.
        result.ok()?;
        if let Some(advanced) = lanes.prefix.end(ended.message.offset()) {
            self.store(advanced.next);
            let low = self.processor.config.max_waiting / 2;
            let (before, now) = self.waiting.fewer(advanced.messages);
            if before > low && now <= low {
                // Fails only when the consumer is gone.
                let _ = self.drained.send(self.processor.partition.clone());
            }
        }
        lanes.next(ended.message.key())
    }

    /// Everything before `next` took effect.
    fn store(&self, next: i64) {
        let partition = &self.processor.partition;
        // Refused when the partition was taken from us meanwhile. Its next owner begins before this message, and the
        // inbox makes that harmless; committing it here could overtake what that owner has done.
        if let Err(error) = self.client.store_offset(&partition.topic, partition.number, next - 1) {
            tracing::debug!(%error, %partition, "an offset was not stored");
        }
    }

    /// Messages that the broker dropped before we read them are lost to this consumer.
    async fn look_for_gap(&self, expected: &mut Option<i64>, offset: i64) {
        let expected_here = match *expected {
            Some(offset) => Some(offset),
            None => self.committed().await,
        };
        *expected = Some(offset + 1);
        let missed = expected_here.map(|expected| offset - expected).filter(|missed| *missed > 0);
        let Some(missed) = missed else { return };
        let (group, partition) = (&*self.processor.group, &self.processor.partition);
        tracing::error!(group, %partition, offset, missed, "the broker dropped messages before they were read");
        metrics::counter!("consumer_missed_messages_total",
            "group" => group.to_owned(), "topic" => partition.topic.to_string())
        .increment(missed.unsigned_abs());
    }

    /// Where the group left off here. `None` when the broker does not say.
    async fn committed(&self) -> Option<i64> {
        const TIMEOUT: Duration = Duration::from_secs(5);
        let (client, list) = (Arc::clone(&self.client), self.processor.partition.list());
        let committed = broker::blocking(move || client.committed_offsets(list, TIMEOUT)).await.ok()?.ok()?;
        match committed.elements().first()?.offset() {
            Offset::Offset(offset) => Some(offset),
            // Nothing was committed: everything that there ever was is expected.
            _ => Some(0),
        }
    }
}

impl Lanes {
    /// Returns the message if it can be processed now, and else keeps it behind those of its key.
    fn admit(&mut self, received: Received) -> Option<Received> {
        if !self.prefix.begin(received.message.offset()) {
            return None;
        }
        match self.behind.entry(received.message.key().map(<[u8]>::to_vec)) {
            Entry::Vacant(free) => {
                free.insert(VecDeque::new());
                Some(received)
            }
            Entry::Occupied(mut taken) => {
                taken.get_mut().push_back(received);
                None
            }
        }
    }

    /// A message of `key` is out of hand: the next one, if there is one.
    fn next(&mut self, key: Option<&[u8]>) -> Option<Received> {
        let key: Key = key.map(<[u8]>::to_vec);
        let next = self.behind.get_mut(&key)?.pop_front();
        if next.is_none() {
            self.behind.remove(&key);
        }
        next
    }
}
