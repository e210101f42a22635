//! A collector of traces: what it was sent, span by span.

use serde_json::Value;

use crate::{Reply, Stub};

/// Takes OTLP over HTTP in its JSON form, as a collector does.
pub struct SpanStub(Stub);

/// A span as it arrived.
#[derive(Debug, Clone)]
pub struct SeenSpan {
    pub service: String,
    pub name: String,
    pub trace: String,
    pub own: String,
    /// Empty at the root of a trace.
    pub parent: String,
    pub kind: u64,
    pub began: u128,
    pub ended: u128,
    attributes: Value,
}

impl SeenSpan {
    /// The text or number of an attribute.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let of_name = |attribute: &&Value| attribute["key"] == name;
        let value = &self.attributes.as_array()?.iter().find(of_name)?["value"];
        value["stringValue"].as_str().or_else(|| value["intValue"].as_str())
    }
}

impl SpanStub {
    pub async fn start() -> Self {
        Self(Stub::start(|_| Reply::Json(200, serde_json::json!({}))).await)
    }

    /// For `OTEL_EXPORTER_OTLP_ENDPOINT`.
    #[must_use]
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// All that it was sent, as text.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.seen().iter().map(|seen| format!("{:?} {}\n", seen.headers, seen.body)).collect()
    }

    /// Every span so far.
    #[must_use]
    pub fn spans(&self) -> Vec<SeenSpan> {
        self.0.seen_at("POST", "/v1/traces").iter().flat_map(|seen| spans_of(&seen.body)).collect()
    }

    /// Those of one trace.
    #[must_use]
    pub fn of_trace(&self, trace: &str) -> Vec<SeenSpan> {
        self.spans().into_iter().filter(|span| span.trace == trace).collect()
    }
}

fn spans_of(body: &Value) -> Vec<SeenSpan> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for resource in list(&body["resourceSpans"]) {
        let attributes = list(&resource["resource"]["attributes"]);
        let named = attributes.iter().find(|attribute| attribute["key"] == "service.name");
        let service = named.map(|attribute| text(&attribute["value"]["stringValue"])).unwrap_or_default();
        for span in list(&resource["scopeSpans"]).iter().flat_map(|scope| list(&scope["spans"])) {
            let at = |name: &str| text(&span[name]).parse().unwrap_or_default();
            found.push(SeenSpan {
                service: service.clone(),
                name: text(&span["name"]),
                trace: text(&span["traceId"]),
                own: text(&span["spanId"]),
                parent: text(&span["parentSpanId"]),
                kind: span["kind"].as_u64().unwrap_or_default(),
                began: at("startTimeUnixNano"),
                ended: at("endTimeUnixNano"),
                attributes: span["attributes"].clone(),
            });
        }
    }
    found
}
