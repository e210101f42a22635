//! One request on an HTTP hop, and what the faults in force make of it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use contracts::{Problem, ProblemType, headers};
use http_body_util::{BodyExt, Full, Limited, combinators::BoxBody};
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue},
    http::request,
};

use super::{
    http::{Conversation, connect},
    paced::Paced,
};
use crate::{
    active::Active,
    fault::{Effect, Side},
    link::Link,
};

pub type Body = BoxBody<Bytes, hyper::Error>;

/// The connection ends without an answer.
#[derive(Debug, thiserror::Error)]
#[error("no answer")]
pub struct NoAnswer;

/// A request that meets a fault is read whole first. Far above what any API here takes.
const MAX_BODY: usize = 8 << 20;

pub async fn exchange(conversation: Arc<Conversation>, request: Request<Incoming>) -> Result<Response<Body>, NoAnswer> {
    let link = &conversation.link;
    link.requests.fetch_add(1, Ordering::Relaxed);
    let faults = link.faults();
    if faults.is_empty() {
        return send(&conversation, request.map(BodyExt::boxed)).await;
    }
    // One throw each, whatever the others do: a fault's luck does not hang on its neighbours.
    let struck: Vec<Arc<Active>> = faults.iter().filter(|fault| fault.strikes()).cloned().collect();
    // Read whole, so that a caller who leaves is noticed, and so that there is something to send twice.
    let (head, body) = request.into_parts();
    let body = Limited::new(body, MAX_BODY).collect().await.map_err(|_| NoAnswer)?.to_bytes();

    for fault in &struck {
        match fault.fault.effect {
            Effect::Latency { on: Side::Request, .. } => {
                fault.count();
                fault.delay().await;
            }
            Effect::Bottleneck { .. } => {
                fault.count();
                stand_in_line(link, fault).await;
            }
            Effect::Hang => {
                fault.count();
                fault.over().await;
            }
            Effect::Reset => {
                fault.count();
                conversation.reset.cancel();
                return std::future::pending().await;
            }
            Effect::HttpStatus { status } => {
                fault.count();
                return Ok(answer(status));
            }
            _ => {}
        }
    }
    for fault in &struck {
        if let Effect::Duplicate { delay_ms } = fault.fault.effect {
            let (link, fault, head, body) = (link.clone(), fault.clone(), head.clone(), body.clone());
            link.tasks.clone().spawn(async move {
                let closing = link.closing.clone();
                tokio::select! {
                    () = closing.cancelled() => {}
                    () = send_copy(&link, &fault, head, body, Duration::from_millis(delay_ms)) => {}
                }
            });
        }
    }
    let pacing = struck.iter().find(|fault| matches!(fault.fault.effect, Effect::Bandwidth { .. }));
    let mut body = whole(body);
    if let Some(fault) = pacing {
        fault.count();
        body = Paced::new(body, fault).boxed();
    }
    let request = Request::from_parts(head, body);
    if let Some(fault) = struck.iter().find(|fault| fault.fault.effect == Effect::LoseReply) {
        return lose_reply(conversation.clone(), fault.clone(), request).await;
    }
    let mut response = send(&conversation, request).await?;
    for fault in &struck {
        if let Effect::Latency { on: Side::Reply, .. } = fault.fault.effect {
            fault.count();
            fault.delay().await;
        }
    }
    if let Some(fault) = pacing {
        response = response.map(|body| Paced::new(body, fault).boxed());
    }
    Ok(response)
}

async fn send(conversation: &Conversation, request: Request<Body>) -> Result<Response<Body>, NoAnswer> {
    let answer = {
        let mut upstream = conversation.upstream.lock().await;
        upstream.ready().await.map_err(|_| NoAnswer)?;
        upstream.send_request(request)
    };
    Ok(answer.await.map_err(|_| NoAnswer)?.map(BodyExt::boxed))
}

/// In a task of its own: whoever leaves the line keeps its place in it, as work does that nobody waits for any more.
async fn stand_in_line(link: &Arc<Link>, fault: &Arc<Active>) {
    let (closing, fault) = (link.closing.clone(), fault.clone());
    let turn = link.tasks.spawn(async move {
        tokio::select! {
            () = closing.cancelled() => {}
            () = fault.turn() => {}
        }
    });
    // An error would mean that the runtime is on its way down.
    let _ = turn.await;
}

/// In a task of its own: the request is carried out even if the caller leaves, as it would be when only the answer is
/// lost on its way.
async fn lose_reply(
    conversation: Arc<Conversation>,
    fault: Arc<Active>,
    request: Request<Body>,
) -> Result<Response<Body>, NoAnswer> {
    let (link, lost) = (conversation.link.clone(), fault.clone());
    link.tasks.clone().spawn(async move {
        let carried = async {
            let answer = send(&conversation, request).await?;
            answer.into_body().collect().await.map_err(|_| NoAnswer)
        };
        tokio::select! {
            () = link.closing.cancelled() => {}
            // What brought no answer cannot lose it.
            answer = carried => if answer.is_ok() { lost.count() },
        }
    });
    fault.over().await;
    // It will not come any more, and the connection is of no use.
    Err(NoAnswer)
}

async fn send_copy(link: &Arc<Link>, fault: &Active, head: request::Parts, body: Bytes, delay: Duration) {
    if !fault.delay_by(delay).await {
        return;
    }
    let Some((mut upstream, _ended)) = connect(link).await else { return };
    let copy = Request::from_parts(head, whole(body));
    let Ok(answer) = upstream.send_request(copy).await else { return };
    fault.count();
    // Read, so that the upstream sees an ordinary caller.
    let _ = answer.into_body().collect().await;
}

fn whole(body: Bytes) -> Body {
    Full::new(body).map_err(|never| match never {}).boxed()
}

/// What a service in trouble would say.
fn answer(status: u16) -> Response<Body> {
    let problem = Problem::new(ProblemType::of_status(status), "a drill answers instead of the upstream");
    let problem = Problem { status, ..problem }.with_mechanism("simulated");
    let body = if (200..300).contains(&status) { Vec::new() } else { serde_json::to_vec(&problem).unwrap_or_default() };
    let mut response = Response::new(whole(body.into()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    if let Some(seconds) = problem.retry_after_seconds() {
        response.headers_mut().insert(hyper::header::RETRY_AFTER, seconds.into());
    }
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(headers::PROBLEM_JSON));
    response
}
