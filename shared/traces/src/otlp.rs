//! Spans as OTLP has them over HTTP, in its JSON form: ids in hex, 64-bit numbers as text, kinds and states by number.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};

use crate::{Finished, Value};

/// Where spans come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub service: String,
    pub instance: String,
    pub version: &'static str,
}

/// Below an endpoint such as `http://collector:4318`.
pub const PATH: &str = "/v1/traces";

const STATE_ERROR: u8 = 2;

/// The body of one request.
#[must_use]
pub fn body(resource: &Resource, spans: &[Finished]) -> Json {
    let attributes = [
        attribute("service.name", text(&resource.service)),
        attribute("service.instance.id", text(&resource.instance)),
        attribute("service.version", text(resource.version)),
    ];
    json!({
        "resourceSpans": [{
            "resource": {"attributes": attributes},
            "scopeSpans": [{
                "scope": {"name": "order-system"},
                "spans": spans.iter().map(span).collect::<Vec<_>>(),
            }],
        }],
    })
}

fn span(span: &Finished) -> Json {
    let attributes: Vec<_> = span.attributes.iter().map(|(name, value)| attribute(name, any_value(value))).collect();
    let mut told = json!({
        "traceId": span.own.trace_id(),
        "spanId": span.own.span_id(),
        "name": span.name,
        "kind": span.kind as u8,
        "startTimeUnixNano": nanoseconds(span.began),
        "endTimeUnixNano": nanoseconds(span.ended),
        "attributes": attributes,
    });
    if let Some(parent) = span.parent {
        told["parentSpanId"] = json!(parent.span_id());
    }
    if let Some(why) = &span.error {
        told["status"] = json!({"code": STATE_ERROR, "message": why});
    }
    told
}

fn attribute(name: &str, value: Json) -> Json {
    json!({"key": name, "value": value})
}

fn text(text: &str) -> Json {
    json!({"stringValue": text})
}

fn any_value(value: &Value) -> Json {
    match value {
        Value::Text(said) => text(said),
        Value::Number(number) => json!({"intValue": number.to_string()}),
    }
}

fn nanoseconds(at: SystemTime) -> String {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use contracts::trace::TraceContext;

    use super::*;
    use crate::Kind;

    #[test]
    fn a_span_is_written_as_the_standard_has_it() {
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
        let resource = Resource { service: "order".into(), instance: "order-1".into(), version: "0.1.0" };
        let body = body(&resource, &[finished]);
        let told = &body["resourceSpans"][0];
        assert_eq!(
            told["resource"]["attributes"][0],
            json!({"key": "service.name", "value": {"stringValue": "order"}})
        );
        assert_eq!(
            told["scopeSpans"][0]["spans"],
            json!([{
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
            }])
        );
    }
}
