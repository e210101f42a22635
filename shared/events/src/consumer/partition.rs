//! The worker of one partition: one message after the other, each until it is done with.

use std::{
    fmt,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use contracts::{Event, trace::TraceContext};
use futures_util::FutureExt;
use rdkafka::{
    Message, Offset,
    consumer::{Consumer as _, StreamConsumer},
    message::OwnedMessage,
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{ConsumerConfig, HandleError, Handler, client::Context};
use crate::{
    broker,
    dead_letter::{DeadLetters, Reason},
    header,
};

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

/// How many messages wait for one worker.
#[derive(Debug, Clone, Default)]
pub(super) struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    pub(super) fn one_more(&self) -> usize {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    fn one_less(&self) -> usize {
        self.0.fetch_sub(1, Ordering::AcqRel) - 1
    }
}

pub(super) struct Worker<H> {
    pub(super) client: Arc<StreamConsumer<Context>>,
    pub(super) handler: Arc<H>,
    pub(super) dead_letters: Arc<DeadLetters>,
    pub(super) group: Arc<str>,
    pub(super) config: ConsumerConfig,
    pub(super) waiting: Waiting,
    pub(super) drained: mpsc::UnboundedSender<Partition>,
    pub(super) stop: CancellationToken,
    pub(super) partition: Partition,
}

/// The worker was stopped before a message was done with.
struct Stopped;

impl<H: Handler> Worker<H> {
    /// Until stopped. A message in hand is finished first.
    pub(super) async fn run(self, mut messages: mpsc::UnboundedReceiver<OwnedMessage>) {
        let mut expected = None;
        loop {
            let received = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                received = messages.recv() => received,
            };
            let Some(message) = received else { return };
            let offset = message.offset();
            let expected_here = match expected {
                Some(offset) => Some(offset),
                None => self.committed().await,
            };
            self.look_for_gap(expected_here, offset);

            if let Err(Stopped) = self.process(&message).await {
                return;
            }
            self.store(offset + 1);
            expected = Some(offset + 1);
            if self.waiting.one_less() == self.config.max_waiting / 2 {
                // Fails only when the consumer is gone.
                let _ = self.drained.send(self.partition.clone());
            }
        }
    }

    async fn process(&self, message: &OwnedMessage) -> Result<(), Stopped> {
        let event = match read(message) {
            Ok(event) => event,
            Err(detail) => return self.bury(message, Reason::Unreadable, &detail).await,
        };
        let traceparent = event.traceparent.as_deref().or_else(|| header::text(message.headers(), header::TRACEPARENT));
        let trace = traceparent.and_then(|text| text.parse().ok()).unwrap_or_else(TraceContext::root);
        let span = tracing::info_span!(
            "event", trace_id = trace.trace_id(), group = &*self.group, topic = &*self.partition.topic,
            partition = self.partition.number, offset = message.offset(), event_id = %event.id, kind = event.kind,
            order_id = %event.subject,
        );
        self.handle(message, &event).instrument(span).await
    }

    async fn handle(&self, message: &OwnedMessage, event: &Event) -> Result<(), Stopped> {
        let mut failures = 0;
        loop {
            let cause = match self.try_once(event).await {
                Ok(outcome) => {
                    tracing::debug!(outcome = outcome.as_str(), "event handled");
                    metrics::counter!("consumer_events_total",
                        "group" => self.group.to_string(), "outcome" => outcome.as_str())
                    .increment(1);
                    return Ok(());
                }
                Err(HandleError::Refused(detail)) => return self.bury(message, Reason::Refused, &detail).await,
                Err(HandleError::Transient(cause)) => cause,
            };
            failures += 1;
            tracing::warn!(error = chain(&*cause), failures, "an event had no effect yet, its partition waits");
            self.count_failure("transient");
            self.wait_before_retry(failures).await?;
        }
    }

    async fn try_once(&self, event: &Event) -> Result<super::Outcome, HandleError> {
        let handled = AssertUnwindSafe(self.handler.handle(event)).catch_unwind();
        match timeout(self.config.handle_limit, handled).await {
            Ok(Ok(result)) => result,
            // Not dead-lettered: a fault in our code says nothing about the event, and a deployment can mend it.
            Ok(Err(_)) => Err(HandleError::transient("the handler panicked")),
            Err(_) => Err(HandleError::transient("the handler took too long")),
        }
    }

    /// Puts the message where people look after it. Not being able to is a reason to wait, never to skip.
    async fn bury(&self, message: &OwnedMessage, reason: Reason, detail: &str) -> Result<(), Stopped> {
        self.count_failure(reason.as_str());
        let mut failures = 0;
        while let Err(error) = self.dead_letters.deliver(message, reason, detail).await {
            failures += 1;
            tracing::error!(%error, failures, partition = %self.partition, "a dead letter was not delivered, its partition waits");
            self.wait_before_retry(failures).await?;
        }
        Ok(())
    }

    async fn wait_before_retry(&self, failures: u32) -> Result<(), Stopped> {
        let doubled = self.config.retry_after.saturating_mul(1 << failures.saturating_sub(1).min(16));
        tokio::select! {
            () = self.stop.cancelled() => Err(Stopped),
            () = sleep(doubled.min(self.config.retry_after_max)) => Ok(()),
        }
    }

    /// Everything before `next` took effect.
    fn store(&self, next: i64) {
        // Refused when the partition was taken from us meanwhile. Its next owner begins before this message, and the
        // inbox makes that harmless; committing it here could overtake what that owner has done.
        if let Err(error) = self.client.store_offset(&self.partition.topic, self.partition.number, next - 1) {
            tracing::debug!(%error, partition = %self.partition, "an offset was not stored");
        }
    }

    /// Where the group left off here. `None` when the broker does not say.
    async fn committed(&self) -> Option<i64> {
        const TIMEOUT: Duration = Duration::from_secs(5);
        let (client, list) = (Arc::clone(&self.client), self.partition.list());
        let committed = broker::blocking(move || client.committed_offsets(list, TIMEOUT)).await.ok()?.ok()?;
        match committed.elements().first()?.offset() {
            Offset::Offset(offset) => Some(offset),
            // Nothing was committed: everything that there ever was is expected.
            _ => Some(0),
        }
    }

    /// Messages that the broker dropped before we read them are lost to this consumer.
    fn look_for_gap(&self, expected: Option<i64>, offset: i64) {
        let Some(missed) = expected.map(|expected| offset - expected).filter(|missed| *missed > 0) else { return };
        tracing::error!(
            group = &*self.group, partition = %self.partition, offset, missed,
            "the broker dropped messages before they were read"
        );
        metrics::counter!("consumer_missed_messages_total",
            "group" => self.group.to_string(), "topic" => self.partition.topic.to_string())
        .increment(missed.unsigned_abs());
    }

    fn count_failure(&self, kind: &'static str) {
        metrics::counter!("consumer_failures_total",
            "group" => self.group.to_string(), "topic" => self.partition.topic.to_string(), "kind" => kind)
        .increment(1);
    }
}

fn read(message: &OwnedMessage) -> Result<Event, String> {
    let payload = message.payload().ok_or("no payload")?;
    serde_json::from_slice(payload).map_err(|error| error.to_string())
}

fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |source| source.source())
        .fold(error.to_string(), |text, source| format!("{text}: {source}"))
}
