//! Extractors whose refusals are problems: a JSON body, an id in the path, a query.

use std::{
    future::{Future, Ready, ready},
    pin::Pin,
    str::FromStr,
    time::Duration,
};

use actix_web::{
    FromRequest, HttpRequest,
    dev::Payload,
    http::header,
    web::{self, BytesMut},
};
use contracts::{Problem, ProblemType, validate::Validate};
use futures_util::{FutureExt, StreamExt};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{ApiProblem, problem};

/// The most bytes of a request body.
pub const MAX_BODY: usize = 64 * 1024;
/// How long a body may take to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(1);
/// How much of a refused body is read and thrown away, so that its sender comes to read our answer.
const MAX_DRAINED: usize = 8 * 1024 * 1024;

/// A JSON body, read, parsed and validated.
#[derive(Debug)]
pub struct Body<T>(pub T);

impl<T: DeserializeOwned + Serialize + Validate + 'static> FromRequest for Body<T> {
    type Error = ApiProblem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, ApiProblem>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let media_type = check_media_type(request);
        let payload = payload.take();
        Box::pin(async move {
            let bytes = read(payload).await;
            // The body is read first, so that a client that is still sending gets to see what was wrong.
            media_type?;
            parse(&bytes?).map(Self)
        })
    }
}

/// The raw body, for signatures that cover its bytes.
#[derive(Debug)]
pub struct RawBody(pub web::Bytes);

impl FromRequest for RawBody {
    type Error = ApiProblem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, ApiProblem>>>>;

    fn from_request(_: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let payload = payload.take();
        Box::pin(async move { read(payload).await.map(Self) })
    }
}

/// `{name}` of the path as a `T`. A text that is no `T` names nothing, which is a 404.
pub fn path<T: FromStr>(request: &HttpRequest, name: &str) -> Result<T, ApiProblem> {
    // The router leaves some characters encoded (`%2F`, `%25`, `%2B`); its own extractor decodes them.
    let values = web::Path::<Vec<String>>::from_request(request, &mut Payload::None).now_or_never();
    let at = request.match_info().iter().position(|(known, _)| known == name);
    let value = values.and_then(Result::ok).zip(at).and_then(|(values, at)| values.get(at).cloned());
    let found = value.and_then(|text| text.parse().ok());
    found.ok_or_else(|| problem::not_found(&format!("the path names no {}", name.replace('_', " "))).into())
}

/// An id that is the last parameter of the path.
#[derive(Debug, Clone, Copy)]
pub struct PathId<T>(pub T);

impl<T: FromStr> FromRequest for PathId<T> {
    type Error = ApiProblem;
    type Future = Ready<Result<Self, ApiProblem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let name = request.match_info().iter().last().map(|(name, _)| name.to_owned()).unwrap_or_default();
        ready(path(request, &name).map(Self))
    }
}

/// The query string as a `T`; what does not fit is a 400 that says why.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequest for Query<T> {
    type Error = ApiProblem;
    type Future = Ready<Result<Self, ApiProblem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let parsed = web::Query::<T>::from_query(request.query_string());
        ready(parsed.map(|query| Self(query.into_inner())).map_err(|error| {
            let detail = error.to_string();
            let detail = detail.strip_prefix("Query deserialize error: ").unwrap_or(&detail).to_owned();
            Problem::new(ProblemType::InvalidRequest, format!("query: {detail}")).with_field("query", detail).into()
        }))
    }
}

fn check_media_type(request: &HttpRequest) -> Result<(), ApiProblem> {
    let text = |name| request.headers().get(name).and_then(|value: &header::HeaderValue| value.to_str().ok());
    let media_type = text(header::CONTENT_TYPE).unwrap_or_default();
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        let detail = format!("content-type is `{essence}`, not application/json");
        return Err(Problem::new(ProblemType::UnsupportedMediaType, detail)
            .with_field("content-type", "must be application/json")
            .into());
    }
    match text(header::CONTENT_ENCODING) {
        None | Some("identity") => Ok(()),
        Some(other) => Err(Problem::new(ProblemType::UnsupportedMediaType, format!("content-encoding `{other}`"))
            .with_field("content-encoding", "must be absent")
            .into()),
    }
}

async fn read(mut payload: Payload) -> Result<web::Bytes, ApiProblem> {
    let reading = async {
        let mut body = BytesMut::new();
        let mut dropped = 0;
        while let Some(chunk) = payload.next().await {
            let chunk = chunk.map_err(|error| invalid("body", error.to_string()))?;
            if dropped > 0 || body.len() + chunk.len() > MAX_BODY {
                dropped += body.len() + chunk.len();
                body.clear();
            } else {
                body.extend_from_slice(&chunk);
            }
            if dropped > MAX_DRAINED {
                break;
            }
        }
        if dropped > 0 { Err(too_large()) } else { Ok(body.freeze()) }
    };
    match tokio::time::timeout(BODY_TIMEOUT, reading).await {
        Ok(outcome) => outcome,
        Err(_) => Err(invalid("body", format!("did not arrive within {BODY_TIMEOUT:?}"))),
    }
}

fn too_large() -> ApiProblem {
    Problem::new(ProblemType::PayloadTooLarge, format!("the body is larger than {MAX_BODY} bytes"))
        .with_field("body", format!("must be at most {MAX_BODY} bytes"))
        .into()
}

fn invalid(field: &str, detail: impl Into<String>) -> ApiProblem {
    let detail = detail.into();
    Problem::new(ProblemType::InvalidRequest, format!("{field}: {detail}")).with_field(field, detail).into()
}

/// Malformed, of another shape or with unknown members: 400. Well-formed and out of range: 422.
fn parse<T: DeserializeOwned + Serialize + Validate>(bytes: &[u8]) -> Result<T, ApiProblem> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| invalid("body", error.to_string()))?;
    if let Some(path) = first_nul(&value, String::new()) {
        let error = contracts::FieldError::new(path, "must not contain a NUL character");
        return Err(Problem::validation(vec![error]).into());
    }
    let parsed: T = serde_path_to_error::deserialize(&value).map_err(|error| {
        let field = match error.path().to_string() {
            path if path == "." => "body".to_owned(),
            path => path,
        };
        let detail = error.into_inner().to_string();
        // serde tells a value of the wrong type from one of the right type that does not fit.
        let does_not_fit = detail.starts_with("invalid value: integer");
        let detail = without_value(detail);
        if does_not_fit {
            Problem::validation(vec![contracts::FieldError::new(field, detail)]).into()
        } else {
            invalid(&field, detail)
        }
    })?;
    let understood = serde_json::to_value(&parsed).map_err(|error| invalid("body", error.to_string()))?;
    if let Some(path) = first_unnamed(&value, &understood, String::new()) {
        return Err(invalid(&path, "must be an object"));
    }
    parsed.validate().map_err(Problem::validation)?;
    Ok(parsed)
}

/// What serde says is wrong, without the value that it says it of: a card number in the wrong place must not come back
/// in an answer.
fn without_value(detail: String) -> String {
    let what =
        ["invalid type: ", "invalid value: ", "unknown variant "].into_iter().find(|what| detail.starts_with(what));
    let (Some(what), Some(expected)) = (what, detail.rfind(", expected ")) else { return detail };
    let (told, expected) = detail.split_at(expected);
    let kind = told[what.len()..].split(['`', '"']).next().unwrap_or_default();
    format!("{what}{kind}").trim_end().to_owned() + expected
}

/// The path of the first array that was taken for an object: serde reads `["TEA", 1]` as the members in their order,
/// which would make the order of our fields a part of the contract.
fn first_unnamed(given: &Value, understood: &Value, path: String) -> Option<String> {
    match (given, understood) {
        (Value::Array(_), Value::Object(_)) => Some(if path.is_empty() { "body".to_owned() } else { path }),
        (Value::Array(given), Value::Array(understood)) => {
            given.iter().zip(understood).enumerate().find_map(|(i, (g, u))| first_unnamed(g, u, format!("{path}[{i}]")))
        }
        (Value::Object(given), Value::Object(understood)) => given.iter().find_map(|(key, g)| {
            let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            understood.get(key).and_then(|u| first_unnamed(g, u, below))
        }),
        _ => None,
    }
}

/// The path of the first string with a NUL in it, which PostgreSQL could not store.
fn first_nul(value: &Value, path: String) -> Option<String> {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::String(text) => text.contains('\0').then(|| if path.is_empty() { "body".to_owned() } else { path }),
        Value::Array(items) => items.iter().enumerate().find_map(|(i, item)| first_nul(item, format!("{path}[{i}]"))),
        Value::Object(members) => members.iter().find_map(|(key, member)| {
            if key.contains('\0') { Some("body".to_owned()) } else { first_nul(member, below(key)) }
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use contracts::order::PlaceOrder;

    use super::*;

    fn status(body: &str) -> (u16, Vec<String>) {
        match parse::<PlaceOrder>(body.as_bytes()) {
            Ok(_) => (200, vec![]),
            Err(problem) => (problem.0.status, problem.0.errors.iter().map(|e| e.field.clone()).collect()),
        }
    }

    #[test]
    fn a_value_in_the_wrong_place_is_not_repeated() {
        let card = "4111111111111111";
        for body in [
            format!(r#"{{"items":"{card}","payment_method":"t"}}"#),
            format!(r#"{{"items":"x, expected {card}","payment_method":"t"}}"#),
            format!(r#"{{"items":[{{"sku":"A","quantity":{card}}}],"payment_method":"t"}}"#),
            format!(r#"{{"items":[{{"sku":"A","quantity":1}}],"payment_method":{card}}}"#),
        ] {
            let problem = format!("{:?}", parse::<PlaceOrder>(body.as_bytes()).unwrap_err().0);
            assert!(!problem.contains(card), "{problem}");
        }
        let told = |detail: &str| without_value(detail.to_owned());
        assert_eq!(
            told("invalid type: string \"x\", expected a sequence"),
            "invalid type: string, expected a sequence"
        );
        assert_eq!(told("unknown variant `x`, expected `a` or `b`"), "unknown variant, expected `a` or `b`");
        assert_eq!(told("invalid type: map, expected a string"), "invalid type: map, expected a string");
        assert_eq!(told("missing field `items`"), "missing field `items`");
    }

    #[test]
    fn what_is_wrong_with_a_body_is_told_by_status_and_field() {
        let one = |path: &str| vec![path.to_owned()];
        assert_eq!(status(r#"{"items":[{"sku":"A","quantity":1}],"payment_method":"t"}"#), (200, vec![]));
        assert_eq!(status("{"), (400, one("body")));
        assert_eq!(status(""), (400, one("body")));
        assert_eq!(status("[]"), (400, one("body")));
        assert_eq!(status(&"[".repeat(1_000)), (400, one("body")));
        assert_eq!(status(r#"{"items":[{"sku":7,"quantity":1}],"payment_method":"t"}"#), (400, one("items[0].sku")));
        assert_eq!(status(r#"{"items":[],"payment_method":"t","x":1}"#), (400, one("x")));
        assert_eq!(
            status(r#"{"items":[{"sku":"A","quantity":1.5}],"payment_method":"t"}"#),
            (400, one("items[0].quantity"))
        );
        assert_eq!(
            status(r#"{"items":[{"sku":"A","quantity":-1}],"payment_method":"t"}"#),
            (422, one("items[0].quantity"))
        );
        let huge = r#"{"items":[{"sku":"A","quantity":18446744073709551615}],"payment_method":"t"}"#;
        assert_eq!(status(huge), (422, one("items[0].quantity")));
        let nul = r#"{"items":[{"sku":"A\u0000","quantity":1}],"payment_method":"t"}"#;
        assert_eq!(status(nul), (422, one("items[0].sku")));
        assert_eq!(status(r#"{"items":[["A",1]],"payment_method":"t"}"#), (400, one("items[0]")));
        assert_eq!(status(r#"[[{"sku":"A","quantity":1}],null,"t"]"#), (400, one("body")));
        assert_eq!(status("{\"items\":\"\u{fffd}\"}"), (400, one("items")));
        assert_eq!(parse::<PlaceOrder>(b"{\"items\":\"\xff\"}").unwrap_err().0.status, 400);
    }
}
