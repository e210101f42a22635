//! The admin API.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/links`, `GET /v1/links/{name}` (percent-encoded) | the hops, their counters and faults |
//! | `GET /v1/faults` | what is in force |
//! | `POST /v1/faults` `{"link","kind",…}` | 201 with the fault, in force by then |
//! | `GET /v1/faults/{id}` | one, over or not |
//! | `DELETE /v1/faults/{id}` | 200 with the fault as it was; off by then |
//! | `POST /v1/reset` | all faults off, all counters 0, the same luck as after a start |
//! | `GET /healthz` | 200 |

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use contracts::{Problem, ProblemType, headers};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ALLOW, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{fault::FaultRequest, switchboard::Switchboard};

type Answer = Response<Full<Bytes>>;

const MAX_BODY: usize = 64 * 1024;
const MAX_CONNECTIONS: usize = 256;
const HEAD_WITHIN: Duration = Duration::from_secs(5);

pub async fn serve(listener: TcpListener, board: Arc<Switchboard>, tasks: TaskTracker, closing: CancellationToken) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = closing.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) if connections.len() < MAX_CONNECTIONS => {
                let (board, closing) = (board.clone(), closing.clone());
                tasks.spawn(connections.track_future(async move {
                    tokio::select! {
                        () = closing.cancelled() => {}
                        () = converse(stream, board) => {}
                    }
                }));
            }
            Ok(_) => {}
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn converse(stream: TcpStream, board: Arc<Switchboard>) {
    let service = service_fn(move |request| {
        let board = board.clone();
        async move { Ok::<_, Infallible>(answer(&board, request).await.unwrap_or_else(|problem| refusal(&problem))) }
    });
    // How it ends is the caller's business.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(board: &Arc<Switchboard>, request: Request<Incoming>) -> Result<Answer, Box<Problem>> {
    let path = request.uri().path().to_owned();
    let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let method = request.method().clone();
    let get = method == Method::GET;
    match segments[..] {
        ["healthz"] if get => Ok(json_answer(StatusCode::OK, &json!({"status": "ok"}))),
        ["v1", "links"] if get => {
            let links: Vec<_> = board.links.iter().map(|link| link.view()).collect();
            Ok(json_answer(StatusCode::OK, &json!({"items": links})))
        }
        ["v1", "links", name] if get => {
            let link = decoded(name).and_then(|name| board.link(&name).cloned());
            link.map(|link| json_answer(StatusCode::OK, &link.view())).ok_or_else(|| nothing("link"))
        }
        ["v1", "faults"] if get => Ok(json_answer(StatusCode::OK, &json!({"items": board.faults()}))),
        ["v1", "faults"] if method == Method::POST => {
            let wanted = read(request).await?;
            let fault = board.add(&wanted).await.map_err(|errors| Box::new(Problem::validation(errors)))?;
            Ok(json_answer(StatusCode::CREATED, &fault))
        }
        ["v1", "faults", id] if get => {
            let fault = id.parse().ok().and_then(|id| board.fault(id));
            fault.map(|fault| json_answer(StatusCode::OK, &fault)).ok_or_else(|| nothing("fault"))
        }
        ["v1", "faults", id] if method == Method::DELETE => {
            let id = id.parse().map_err(|_| nothing("fault"))?;
            let fault = board.remove(id).await.ok_or_else(|| nothing("fault in force"))?;
            Ok(json_answer(StatusCode::OK, &fault))
        }
        ["v1", "reset"] if method == Method::POST => {
            board.reset().await;
            Ok(json_answer(StatusCode::OK, &json!({"items": []})))
        }
        ["healthz"] | ["v1", "links", ..] if segments.len() <= 3 => Ok(wrong_method("GET")),
        ["v1", "faults"] => Ok(wrong_method("GET, POST")),
        ["v1", "faults", _] => Ok(wrong_method("GET, DELETE")),
        ["v1", "reset"] => Ok(wrong_method("POST")),
        _ => Err(nothing("resource at this path")),
    }
}

async fn read(request: Request<Incoming>) -> Result<FaultRequest, Box<Problem>> {
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type.split(';').next().map(str::trim) != Some("application/json") {
        return Err(Problem::new(ProblemType::UnsupportedMediaType, "the body must be application/json").into());
    }
    let body = Limited::new(request.into_body(), MAX_BODY).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            Problem::new(ProblemType::PayloadTooLarge, format!("the body exceeds {MAX_BODY} bytes"))
        } else {
            Problem::new(ProblemType::InvalidRequest, "the body could not be read")
        }
    })?;
    let value: serde_json::Value = parse(&body.to_bytes())?;
    if !value.is_object() {
        // Serde alone would take an array with the fields in their order.
        return Err(Problem::new(ProblemType::InvalidRequest, "the body must be a JSON object").into());
    }
    serde_json::from_value(value).map_err(|e| Problem::new(ProblemType::InvalidRequest, e.to_string()).into())
}

fn parse(text: &[u8]) -> Result<serde_json::Value, Box<Problem>> {
    serde_json::from_slice(text).map_err(|e| Problem::new(ProblemType::InvalidRequest, e.to_string()).into())
}

fn nothing(what: &str) -> Box<Problem> {
    Problem::new(ProblemType::NotFound, format!("there is no such {what}")).into()
}

fn wrong_method(allow: &'static str) -> Answer {
    let mut response = refusal(&Problem::new(ProblemType::MethodNotAllowed, format!("this path has {allow}")));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

fn refusal(problem: &Problem) -> Answer {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_answer(status, problem);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(headers::PROBLEM_JSON));
    response
}

fn json_answer(status: StatusCode, body: &impl Serialize) -> Answer {
    // Nothing here has a map with keys that are no strings.
    let mut response = Response::new(Full::from(serde_json::to_vec(body).unwrap_or_default()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// `order-%3Epayment`: an arrow may not stand in a path as it is.
fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut out) = (text.bytes(), Vec::new());
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?];
            out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_arrive_percent_encoded() {
        assert_eq!(decoded("order-%3Epayment").as_deref(), Some("order->payment"));
        assert_eq!(decoded("-%3eredis").as_deref(), Some("->redis"));
        assert_eq!(decoded("order-%3"), None);
        assert_eq!(decoded("order-%zz"), None);
    }
}
