//! Where spans go: to the collector that `OTEL_EXPORTER_OTLP_ENDPOINT` names, by OTLP over HTTP ([`otlp`]).
//!
//! Nobody waits for a collector: a span that finds the queue full is dropped and counted, and so is a batch that is not
//! taken. Without an endpoint nothing of this runs, and spans are empty ([`traces`]).

mod otlp;

use std::{io, time::Duration};

use metrics::counter;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::{
    sync::{
        mpsc::{self, Receiver, Sender},
        oneshot,
    },
    time::{MissedTickBehavior, interval, timeout},
};
use traces::Finished;

use crate::{
    Wiring,
    env::{ConfigError, Env, bad},
};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// About a second of a busy service; a few hundred bytes each.
const QUEUE: usize = 4_096;
const BATCH: usize = 512;
/// A batch that is not full leaves after this, so that a trace can be looked at soon.
const EVERY: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(2);
/// What a shutdown waits for the last spans.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

enum Message {
    Span(Box<Finished>),
    /// Answered once everything before it has left, or was dropped.
    Flush(oneshot::Sender<()>),
}

/// The queue of spans that have ended.
pub struct Collector(Sender<Message>);

/// `OTEL_EXPORTER_OTLP_ENDPOINT`: `http://host:4318` of a collector; unset, no span is recorded.
pub fn endpoint(env: &mut Env) -> Result<Option<String>, ConfigError> {
    let Some(url) = env.get(ENDPOINT) else { return Ok(None) };
    let url = env.url_or(ENDPOINT, &url)?;
    if url.starts_with("https://") {
        return Err(bad(ENDPOINT, "TLS is not spoken here: name a collector near by, which speaks it"));
    }
    Ok(Some(url))
}

impl Collector {
    /// Collects this process's spans from now on. To be called on the main runtime, once a process.
    pub fn start(endpoint: &str, wiring: &Wiring) -> io::Result<Self> {
        let resource = otlp::resource(wiring.service, &wiring.instance);
        let exporter = otlp::exporter(endpoint, TIMEOUT, &resource).map_err(io::Error::other)?;
        let (collector, messages) = Self::with_queue();
        let ended = Self(collector.0.clone());
        traces::collect(move |span| ended.offer(span));
        tokio::spawn(send_all(exporter, messages));
        Ok(collector)
    }

    fn with_queue() -> (Self, Receiver<Message>) {
        let (queue, messages) = mpsc::channel(QUEUE);
        (Self(queue), messages)
    }

    /// Never waits.
    fn offer(&self, span: Finished) {
        if self.0.try_send(Message::Span(Box::new(span))).is_err() {
            counter!("traces_spans_dropped_total", "reason" => "queue_full").increment(1);
        }
    }

    /// Sends what is still here, for as long as a shutdown can wait.
    pub async fn flush(&self) {
        let (sent, is_sent) = oneshot::channel();
        let flushed = async {
            self.0.send(Message::Flush(sent)).await.ok()?;
            is_sent.await.ok()
        };
        if timeout(FLUSH_LIMIT, flushed).await.is_err() {
            tracing::warn!(limit = ?FLUSH_LIMIT, "the collector did not take the last spans in time");
        }
    }
}

async fn send_all(exporter: SpanExporter, mut messages: Receiver<Message>) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut is_taking = true;
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let mut flushed = None;
        tokio::select! {
            message = messages.recv() => match message {
                Some(Message::Span(span)) => {
                    batch.push(otlp::span(*span));
                    if batch.len() < BATCH {
                        continue;
                    }
                }
                Some(Message::Flush(done)) => flushed = Some(done),
                // The process's collector holds a sender for ever.
                None => return,
            },
            _ = tick.tick(), if !batch.is_empty() => {}
        }
        if !batch.is_empty() {
            let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
            is_taking = send(&exporter, full, is_taking).await;
        }
        if let Some(done) = flushed {
            // Whoever asked may have stopped waiting.
            let _ = done.send(());
        }
    }
}

/// Whether the collector took it. A change of that is worth a line, each batch is not.
async fn send(exporter: &SpanExporter, batch: Vec<SpanData>, was_taking: bool) -> bool {
    let count = batch.len() as u64;
    match exporter.export(batch).await {
        Ok(()) => {
            counter!("traces_spans_sent_total").increment(count);
            if !was_taking {
                tracing::info!("the collector takes spans again");
            }
            true
        }
        Err(error) => {
            counter!("traces_spans_dropped_total", "reason" => "not_taken").increment(count);
            if was_taking {
                // It names a status and no address, which may hold a secret.
                tracing::warn!(%error, "the collector takes no spans; they are dropped");
            }
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{borrow::Cow, time::SystemTime};

    use contracts::{Service, trace::TraceContext};
    use testkit::{Reply, Stub};
    use traces::Kind;

    use super::*;

    fn span(name: &'static str) -> Finished {
        let now = SystemTime::now();
        let (name, own) = (Cow::Borrowed(name), TraceContext::root());
        let (kind, attributes) = (Kind::Internal, Vec::new());
        Finished { own, parent: None, kind, name, began: now, ended: now, attributes, error: None }
    }

    #[test]
    fn spans_that_find_the_queue_full_are_dropped_and_nobody_waits() {
        let (collector, mut messages) = Collector::with_queue();
        (0..QUEUE + 100).for_each(|_| collector.offer(span("one of many")));
        let mut kept = 0;
        while messages.try_recv().is_ok() {
            kept += 1;
        }
        assert_eq!(kept, QUEUE);
    }

    #[tokio::test]
    async fn what_is_not_taken_is_dropped_and_what_comes_after_it_is_sent() {
        let stub = Stub::start(|_| Reply::Raw(503, String::new())).await;
        let (collector, messages) = Collector::with_queue();
        let exporter = otlp::exporter(&stub.url(), TIMEOUT, &otlp::resource(Service::Order, "order-0")).unwrap();
        tokio::spawn(send_all(exporter, messages));
        collector.offer(span("refused"));
        collector.flush().await;
        stub.behave(|_| Reply::Json(200, serde_json::json!({})));
        collector.offer(span("taken"));
        collector.flush().await;
        let names: Vec<_> = stub
            .seen_at("POST", "/v1/traces")
            .iter()
            .map(|seen| seen.body["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"].clone())
            .collect();
        assert_eq!(names, ["refused", "taken"]);
    }

    fn endpoint_of(url: &str) -> Result<Option<String>, ConfigError> {
        endpoint(&mut Env::from_pairs([(ENDPOINT.to_owned(), url.to_owned())]))
    }

    #[test]
    fn an_endpoint_is_an_http_address_or_nothing() {
        assert_eq!(endpoint(&mut Env::from_pairs([])), Ok(None));
        assert_eq!(endpoint_of(""), Ok(None));
        assert_eq!(endpoint_of("http://collector:4318/"), Ok(Some("http://collector:4318".to_owned())));
        for bad in ["https://collector:4318", "collector:4318"] {
            assert_eq!(endpoint_of(bad).unwrap_err().variable, ENDPOINT, "{bad}");
        }
    }
}
