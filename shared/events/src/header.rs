//! Headers of our messages.

use rdkafka::message::{Header, Headers, OwnedHeaders};

pub(crate) use contracts::headers::TRACEPARENT;

/// The media type of a CloudEvent in JSON, as the Kafka binding of CloudEvents wants it (structured mode).
pub(crate) const CONTENT_TYPE: &str = "content-type";
pub(crate) const CLOUDEVENTS_JSON: &str = "application/cloudevents+json; charset=UTF-8";

/// The headers of an event.
pub(crate) fn of_event(traceparent: Option<&str>) -> OwnedHeaders {
    let headers =
        OwnedHeaders::new_with_capacity(2).insert(Header { key: CONTENT_TYPE, value: Some(CLOUDEVENTS_JSON) });
    match traceparent {
        Some(value) => headers.insert(Header { key: TRACEPARENT, value: Some(value) }),
        None => headers,
    }
}

/// The text of the header `key`, if it is there and is text.
pub(crate) fn text<'a>(headers: Option<&'a OwnedHeaders>, key: &str) -> Option<&'a str> {
    headers?.iter().find(|h| h.key == key).and_then(|h| h.value).and_then(|v| std::str::from_utf8(v).ok())
}
