//! One message, until it is done with: handled, passed over, or a dead letter.

use std::{borrow::Cow, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use contracts::{Event, trace::TraceContext};
use futures_util::FutureExt;
use rdkafka::{Message, message::OwnedMessage};
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use traces::{Kind, Span};
use tracing::Instrument;

use super::{ConsumerConfig, HandleError, Handler, Outcome, partition::Partition};
use crate::{
    dead_letter::{DeadLetters, Reason},
    header,
};

/// A message as it came, and the event that it is, or why it is none.
pub(super) struct Received {
    pub(super) message: OwnedMessage,
    pub(super) event: Result<Event, String>,
}

impl Received {
    pub(super) fn read(message: OwnedMessage) -> Self {
        let event = message
            .payload()
            .ok_or_else(|| "no payload".to_owned())
            .and_then(|payload| serde_json::from_slice(payload).map_err(|error| error.to_string()));
        Self { message, event }
    }

    /// How long it is to be left alone.
    pub(super) fn wait(&self) -> Option<Duration> {
        let due = self.event.as_ref().ok()?.notbefore?;
        (due - chrono::Utc::now()).to_std().ok().filter(|wait| !wait.is_zero())
    }
}

/// The kind of a failure that is tried again.
pub(super) const TRANSIENT: &str = "transient";

pub(super) fn failures(group: &str, topic: &str, kind: &'static str) -> metrics::Counter {
    metrics::counter!("consumer_failures_total",
        "group" => group.to_owned(), "topic" => topic.to_owned(), "kind" => kind)
}

/// Whoever processes the messages of one partition.
pub(super) struct Processor<H> {
    pub(super) handler: Arc<H>,
    pub(super) dead_letters: Arc<DeadLetters>,
    pub(super) group: Arc<str>,
    pub(super) config: ConsumerConfig,
    /// Of the consumer as a whole: events that are being handled at this moment.
    pub(super) permits: Arc<Semaphore>,
    pub(super) stop: CancellationToken,
    pub(super) partition: Partition,
}

/// The worker was stopped before a message was done with.
pub(super) struct Stopped;

impl<H: Handler> Processor<H> {
    pub(super) async fn process(&self, received: &Received) -> Result<(), Stopped> {
        let Received { message, event } = received;
        let event = match event {
            Ok(event) => event,
            Err(detail) => return self.bury(message, Reason::Unreadable, detail).await,
        };
        // The header first: where spans are recorded, it names that of the delivery.
        let traceparent = header::text(message.headers(), header::TRACEPARENT).or(event.traceparent.as_deref());
        let trace = traceparent.and_then(|text| text.parse().ok()).unwrap_or_else(TraceContext::root);
        let mut traced = Span::within(Kind::Consumer, &trace, || format!("process {}", self.partition.topic).into());
        traced.set("messaging.system", "kafka");
        traced.set_display("messaging.consumer.group.name", &self.group);
        traced.set_display("event.type", &event.kind);
        traced.set_display("order.id", &event.subject);
        // What follows from the event is within its processing.
        let event = match traced.context() {
            Some(own) => Cow::Owned(Event { traceparent: Some(own.to_string()), ..event.clone() }),
            None => Cow::Borrowed(event),
        };
        let span = tracing::info_span!(
            "event", trace_id = trace.trace_id(), group = &*self.group, topic = &*self.partition.topic,
            partition = self.partition.number, offset = message.offset(), event_id = %event.id, kind = event.kind,
            order_id = %event.subject,
        );
        self.handle(message, &event, &mut traced).instrument(span).await
    }

    async fn handle(&self, message: &OwnedMessage, event: &Event, traced: &mut Span) -> Result<(), Stopped> {
        let mut failures = 0;
        loop {
            let cause = match self.try_once(event).await? {
                Ok(outcome) => {
                    tracing::debug!(outcome = outcome.as_str(), "event handled");
                    traced.set("outcome", outcome.as_str());
                    metrics::counter!("consumer_events_total",
                        "group" => self.group.to_string(), "outcome" => outcome.as_str())
                    .increment(1);
                    return Ok(());
                }
                Err(HandleError::Refused(detail)) => {
                    traced.fail("refused for good");
                    return self.bury(message, Reason::Refused, &detail).await;
                }
                Err(HandleError::Transient(cause)) => cause,
            };
            failures += 1;
            tracing::warn!(error = chain(&*cause), failures, "an event had no effect yet, its key waits");
            self.count_failure(TRANSIENT);
            self.wait_before_retry(failures).await?;
        }
    }

    /// The permit is held while the handler runs and not while its message waits to be tried again, so that messages
    /// which fail for long take nothing from the others.
    async fn try_once(&self, event: &Event) -> Result<Result<Outcome, HandleError>, Stopped> {
        let _permit = tokio::select! {
            biased;
            permit = self.permits.acquire() => permit.map_err(|_| Stopped)?,
            () = self.stop.cancelled() => return Err(Stopped),
        };
        let handled = pin!(AssertUnwindSafe(self.handler.handle(event)).catch_unwind());
        Ok(match timeout(self.config.handle_limit, handled).await {
            Ok(Ok(result)) => result,
            // Not dead-lettered: a fault in our code says nothing about the event, and a deployment can mend it.
            Ok(Err(_)) => Err(HandleError::transient("the handler panicked")),
            Err(_) => {
                durable::suspicion::suspect();
                Err(HandleError::transient("the handler took too long"))
            }
        })
    }

    /// Puts the message where people look after it. Not being able to is a reason to wait, never to skip.
    async fn bury(&self, message: &OwnedMessage, reason: Reason, detail: &str) -> Result<(), Stopped> {
        self.count_failure(reason.as_str());
        let mut failures = 0;
        while let Err(error) = self.dead_letters.deliver(message, reason, detail).await {
            failures += 1;
            tracing::error!(%error, failures, partition = %self.partition, "a dead letter was not delivered, its key waits");
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

    fn count_failure(&self, kind: &'static str) {
        failures(&self.group, &self.partition.topic, kind).increment(1);
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |source| source.source())
        .fold(error.to_string(), |text, source| format!("{text}: {source}"))
}
