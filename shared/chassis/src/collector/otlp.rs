//! Our spans as OpenTelemetry has them, and its exporter, which writes and sends them.
//!
//! The exporter alone: its tracer gives a span ids of its own, and ours has those that travelled already; its batches are
//! sent by a thread that drops in silence what finds the queue full.

use std::time::Duration;

use contracts::Service;
use opentelemetry::{
    InstrumentationScope, KeyValue,
    trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceState},
};
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::{
    Resource,
    trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks},
};
use reqwest::Client;
use traces::{Finished, Kind, Value};

/// Below an endpoint such as `http://collector:4318`.
const PATH: &str = "/v1/traces";
/// Whose spans they are, among those of one process.
const SCOPE: &str = "order-system";

/// Sends a batch once, and says whether it was taken. `OTEL_EXPORTER_OTLP_HEADERS` adds headers, such as a key.
pub fn exporter(endpoint: &str, timeout: Duration, resource: &Resource) -> Result<SpanExporter, ExporterBuildError> {
    let client = client(timeout).map_err(|error| ExporterBuildError::InternalFailure(error.to_string()))?;
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(format!("{endpoint}{PATH}"))
        .with_protocol(Protocol::HttpJson)
        .with_timeout(timeout)
        // A collector that does not take spans is behind; the queue is short, and the next batch waits.
        .with_retry_policy(RetryPolicy::disabled())
        .build()?;
    exporter.set_resource(resource);
    Ok(exporter)
}

fn client(timeout: Duration) -> reqwest::Result<Client> {
    Client::builder()
        .timeout(timeout)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .build()
}

/// Where spans come from. Nothing is found out about the machine.
pub fn resource(service: Service, instance: &str) -> Resource {
    let attributes = [
        KeyValue::new("service.name", service.to_string()),
        KeyValue::new("service.instance.id", instance.to_owned()),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ];
    Resource::builder_empty().with_attributes(attributes).build()
}

pub fn span(span: Finished) -> SpanData {
    let (trace, own) = span.own.numbers();
    SpanData {
        span_context: SpanContext::new(
            trace.into(),
            own.into(),
            // Others are not recorded.
            TraceFlags::SAMPLED,
            false,
            TraceState::NONE,
        ),
        parent_span_id: span.parent.map_or(SpanId::INVALID, |parent| parent.numbers().1.into()),
        parent_span_is_remote: matches!(span.kind, Kind::Server | Kind::Consumer),
        span_kind: match span.kind {
            Kind::Internal => SpanKind::Internal,
            Kind::Server => SpanKind::Server,
            Kind::Client => SpanKind::Client,
            Kind::Producer => SpanKind::Producer,
            Kind::Consumer => SpanKind::Consumer,
        },
        name: span.name,
        start_time: span.began,
        end_time: span.ended,
        attributes: span.attributes.into_iter().map(|(name, value)| attribute(name, value)).collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: span.error.map_or(Status::Unset, Status::error),
        instrumentation_scope: InstrumentationScope::builder(SCOPE).build(),
    }
}

fn attribute(name: &'static str, value: Value) -> KeyValue {
    match value {
        Value::Text(text) => KeyValue::new(name, text),
        Value::Number(number) => KeyValue::new(name, number),
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use contracts::trace::TraceContext;
    use serde_json::json;
    use testkit::{Reply, Stub};

    use super::*;

    #[tokio::test]
    async fn a_span_arrives_as_the_standard_has_it() {
        let stub = Stub::start(|_| Reply::Json(200, json!({}))).await;
        let parent: TraceContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
        let began = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let finished = Finished {
            own: "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000abc-01".parse().unwrap(),
            parent: Some(parent),
            kind: Kind::Client,
            name: "PUT payment".into(),
            began,
            ended: began + Duration::from_nanos(42),
            attributes: vec![("outcome", "unknown".into()), ("guard.wait_ms", 7_i64.into())],
            error: Some("unknown".into()),
        };
        let from = resource(Service::Order, "order-1");
        let exporter = exporter(&stub.url(), Duration::from_secs(5), &from).unwrap();
        exporter.export(vec![span(finished)]).await.unwrap();

        let seen = stub.seen_at("POST", PATH).remove(0);
        assert_eq!(seen.header("content-type"), Some("application/json"));
        let told = &seen.body["resourceSpans"][0];
        let of_resource = told["resource"]["attributes"].as_array().unwrap();
        let named: Vec<_> = of_resource.iter().map(|attribute| attribute["key"].as_str().unwrap()).collect();
        assert_eq!(named.len(), 3, "the machine is nobody's business: {named:?}");
        assert!(of_resource.contains(&json!({"key": "service.name", "value": {"stringValue": "order"}})));
        let told = &told["scopeSpans"][0]["spans"][0];
        let expected = json!({
            "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
            "spanId": "0000000000000abc",
            "parentSpanId": "00f067aa0ba902b7",
            "name": "PUT payment",
            "kind": 3,
            "startTimeUnixNano": "1700000000000000000",
            "endTimeUnixNano": "1700000000000000042",
            "attributes": [
                {"key": "outcome", "value": {"stringValue": "unknown"}},
                {"key": "guard.wait_ms", "value": {"intValue": "7"}},
            ],
            "status": {"code": 2, "message": "unknown"},
        });
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(&told[field], value, "{field}: {told}");
        }
    }
}
