//! Requests made up from a service's own API document, right and wrong in all the ways that it has words for. Whatever is
//! sent, the answer comes, is one that the document lists, has the form that it says, and is not the service's fault.
//!
//! The same seed makes up the same requests; `DOCUMENTED_SEED` gives another, and a failure names it.

mod made_up;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use reqwest::{Method, RequestBuilder, Response, Url, header};
use serde_json::Value;

use crate::TestApp;
use made_up::MadeUp;

/// Of each operation. A body, a path and a query are each wrong in about a third of them.
const REQUESTS: usize = 60;
/// Longer than any answer takes, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(30);
const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];

/// Sends them to every operation of `app`. `credentials` are the headers that let a request with this body in, which most
/// get; `known` are words that mean something to the service, so that some requests get far.
///
/// # Panics
/// At the first answer that is not as documented.
pub async fn check(app: &TestApp, known: &[&str], credentials: impl Fn(&str) -> Vec<(&'static str, String)>) {
    check_as(app, known, |_, body| credentials(body)).await;
}

/// [`check`] where not every operation lets the same in: `credentials` are told which one it is, as in `GET /v1/orders`.
///
/// # Panics
/// As [`check`].
pub async fn check_as(app: &TestApp, known: &[&str], credentials: impl Fn(&str, &str) -> Vec<(&'static str, String)>) {
    let seed = std::env::var("DOCUMENTED_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let document = app.client.get(app.admin_url("/openapi.json")).send().await.expect("a document");
    let document: Value = document.json().await.expect("a document in JSON");
    refers_to_what_is_there(&document, &document);
    let mut made_up = MadeUp { document: &document, known, rng: StdRng::seed_from_u64(seed) };
    let mut statuses: BTreeMap<String, BTreeSet<u16>> = BTreeMap::new();
    let paths = document["paths"].as_object().expect("paths");
    for (path, operations) in paths {
        for method in METHODS.into_iter().filter(|method| operations[*method].is_object()) {
            let operation = &operations[method];
            if operation["responses"]["200"]["content"]["text/event-stream"].is_object() {
                // Has no end to wait for.
                continue;
            }
            let name = format!("{} {path}", method.to_uppercase());
            for number in 0..REQUESTS {
                let (request, body) = request(app, &mut made_up, &name, operation);
                let mut request = request.timeout(PATIENCE).build().expect("a request");
                if made_up.rng.random_bool(0.95) {
                    for (name, value) in credentials(&name, body.as_deref().unwrap_or_default()) {
                        request.headers_mut().insert(name, value.parse().expect("a header"));
                    }
                }
                let told = format!(
                    "seed {seed}, number {number}: {name} at {} with {:?} and {body:?}",
                    request.url(),
                    request.headers()
                );
                let answer =
                    app.client.execute(request).await.unwrap_or_else(|error| panic!("{told}: no answer: {error}"));
                statuses.entry(name.clone()).or_default().insert(answer.status().as_u16());
                is_documented(&operation["responses"], answer, &told).await;
            }
        }
    }
    assert!(!statuses.is_empty(), "the document lists no operation");
    // A generator that is refused at the door finds nothing out.
    let got_in = statuses.values().filter(|statuses| statuses.iter().any(|status| *status < 300)).count();
    assert!(got_in * 2 >= statuses.len(), "few operations were reached: {statuses:?}");
}

/// A reference into nothing is a schema that nobody can use.
fn refers_to_what_is_there(document: &Value, part: &Value) {
    match part {
        Value::Object(members) => {
            if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
                let target = document.pointer(reference.trim_start_matches('#'));
                assert!(target.is_some(), "the document has no {reference}");
            }
            members.values().for_each(|member| refers_to_what_is_there(document, member));
        }
        Value::Array(items) => items.iter().for_each(|item| refers_to_what_is_there(document, item)),
        _ => {}
    }
}

async fn is_documented(responses: &Value, answer: Response, told: &str) {
    let status = answer.status().as_u16();
    let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).map(str::to_owned);
    let text = answer.text().await.unwrap_or_else(|error| panic!("{told}: {status} and no body: {error}"));
    assert!(status < 500, "{told}: {status} {text}");
    let documented = &responses[status.to_string()];
    assert!(documented.is_object(), "{told}: {status} is not documented: {text}");
    let Some(kinds) = documented["content"].as_object() else {
        assert!(text.is_empty(), "{told}: {status} has a body that is not documented: {text}");
        return;
    };
    let essence = kind.as_deref().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    assert!(kinds.contains_key(essence), "{told}: {status} is `{essence}`, documented are {:?}", kinds.keys());
    let body: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{told}: {status} {text}: {error}"));
    if status >= 400 {
        assert_eq!(body["status"], status, "{told}: {text}");
    }
}

/// A request to the operation `name`, and the body that it has.
fn request(app: &TestApp, made_up: &mut MadeUp<'_>, name: &str, operation: &Value) -> (RequestBuilder, Option<String>) {
    let (method, path) = name.split_once(' ').expect("a method and a path");
    let method: Method = method.parse().expect("a method");
    let parameters: Vec<&Value> = operation["parameters"].as_array().into_iter().flatten().collect();
    let mut filled = path.to_owned();
    let mut query = Vec::new();
    let mut headers = Vec::new();
    for parameter in parameters {
        let name = parameter["name"].as_str().expect("a name");
        let is_wanted = parameter["required"] == true;
        match parameter["in"].as_str() {
            Some("path") => {
                let text = made_up.path_segment(&parameter["schema"]);
                filled = filled.replace(&format!("{{{name}}}"), &text);
            }
            Some("query") if made_up.rng.random_bool(if is_wanted { 0.9 } else { 0.5 }) => {
                query.push((name.to_owned(), made_up.text(&parameter["schema"])));
            }
            Some("header") if made_up.rng.random_bool(if is_wanted { 0.9 } else { 0.5 }) => {
                headers.push((name.to_owned(), made_up.header_text(&parameter["schema"])));
            }
            _ => {}
        }
    }
    if made_up.rng.random_bool(0.1) {
        query.push(("unheard_of".to_owned(), "1".to_owned()));
    }
    let mut url: Url = app.url(&filled).parse().expect("an address");
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(&query);
    }
    let mut request = app.client.request(method, url);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    if made_up.rng.random_bool(0.1) {
        let nonsense = [
            (contracts::headers::EXPECTED_TIMEOUT_MS, "soon"),
            (contracts::headers::EXPECTED_TIMEOUT_MS, "99999999999999999999999"),
            (contracts::headers::RETRY_BUDGET, "-1"),
            (contracts::headers::TRACEPARENT, "00-0-0-0"),
            (contracts::headers::REQUEST_ID, "a b"),
            ("accept", "text/html"),
        ];
        let (name, value) = nonsense.choose(&mut made_up.rng).expect("some");
        request = request.header(*name, *value);
    }
    if !operation["requestBody"].is_object() {
        return (request, None);
    }
    let body = made_up.body(&operation["requestBody"]["content"]["application/json"]["schema"]);
    let kinds = ["application/json; charset=utf-8", "text/plain", ""];
    let kind: &str =
        if made_up.rng.random_bool(0.9) { "application/json" } else { kinds.choose(&mut made_up.rng).expect("some") };
    (request.header(header::CONTENT_TYPE, kind).body(body.clone()), Some(body))
}
