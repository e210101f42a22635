//! The one client for calls between services: what travels with a call, and what its end is evidence of.
//!
//! The outcome of a call is one of four. *Answered*: the callee did it. [`CallError::NotSent`]: the request certainly
//! did not leave, so nothing happened. [`CallError::Refused`]: the callee said that it did not do it.
//! [`CallError::Unknown`]: it may have happened, and only the callee can tell. The last is never turned into one of
//! the others: not by a timeout, not by a closed connection, not by a 5xx.

use std::{error::Error, time::Duration};

use bytes::Bytes;
use contracts::{Problem, ProblemType, headers};
use reqwest::{Client, Method};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Instant;

use crate::RequestContext;

/// A callee.
#[derive(Clone)]
pub struct Downstream {
    name: &'static str,
    base: String,
    client: Client,
    token: Option<String>,
    timeout: Duration,
    reserve: Duration,
}

/// How a call ended without the answer that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nothing left this process, so nothing happened.
    #[error("not sent: {0}")]
    NotSent(NotSent),
    /// The callee refused, and did nothing.
    #[error("refused: {}", .0.kind)]
    Refused(Box<Problem>),
    /// Sent, and no answer that decides: it may have happened.
    #[error("unknown: {0}")]
    Unknown(String),
}

/// Why a request did not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    #[error("no connection")]
    Connect,
    #[error("no time left")]
    Deadline,
}

/// A 2xx answer.
#[derive(Debug)]
pub struct Answer<T> {
    pub status: u16,
    pub body: T,
}

impl Downstream {
    /// `rule` bounds each call; `token` is shown to the callee as a bearer token.
    pub fn new(
        name: &'static str,
        base: &str,
        token: Option<&str>,
        rule: &rules::Downstream,
        reserve: Duration,
    ) -> Result<Self, reqwest::Error> {
        let client = Client::builder()
            .connect_timeout(rule.connect_timeout)
            .pool_idle_timeout(rule.pool_idle)
            .tcp_nodelay(true)
            // A redirect would send a POST again, a resend on our behalf would hide a second try, and a proxy from
            // the environment would sit between us and the evidence.
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .build()?;
        Ok(Self {
            name,
            base: base.to_owned(),
            client,
            token: token.map(str::to_owned),
            timeout: rule.timeout,
            reserve,
        })
    }

    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// One call without a body.
    pub async fn get<T: DeserializeOwned>(&self, context: &RequestContext, path: &str) -> Result<Answer<T>, CallError> {
        self.call::<(), T>(context, Method::GET, path, None, &[]).await
    }

    /// One call, never repeated here.
    pub async fn call<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        context: &RequestContext,
        method: Method,
        path: &str,
        body: Option<&B>,
        extra_headers: &[(&str, &str)],
    ) -> Result<Answer<T>, CallError> {
        self.call_judged(context, method, path, body, extra_headers, judge).await
    }

    /// [`Self::call`] for a callee outside the system, whose refusals are not problems of ours: `judge` says what an
    /// answer that arrived whole is evidence of.
    pub async fn call_judged<B: Serialize + Sync, T>(
        &self,
        context: &RequestContext,
        method: Method,
        path: &str,
        body: Option<&B>,
        extra_headers: &[(&str, &str)],
        judge: impl FnOnce(u16, &[u8]) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let started = Instant::now();
        let outcome = match self.exchange(context, method, path, body, extra_headers).await {
            Ok((status, bytes)) => judge(status, &bytes),
            Err(error) => Err(error),
        };
        let (label, timed_out) = match &outcome {
            Ok(_) => ("answered", false),
            Err(CallError::NotSent(_)) => ("not_sent", false),
            Err(CallError::Refused(_)) => ("refused", false),
            Err(CallError::Unknown(reason)) => ("unknown", reason == TIMED_OUT),
        };
        metrics::histogram!("downstream_request_duration_seconds", "downstream" => self.name, "outcome" => label)
            .record(started.elapsed().as_secs_f64());
        if timed_out {
            metrics::counter!("downstream_request_timeout_total", "downstream" => self.name).increment(1);
        }
        if let Err(error) = &outcome {
            tracing::info!(downstream = self.name, outcome = label, reason = %error, "downstream call");
        }
        outcome
    }

    async fn exchange<B: Serialize + Sync>(
        &self,
        context: &RequestContext,
        method: Method,
        path: &str,
        body: Option<&B>,
        extra_headers: &[(&str, &str)],
    ) -> Result<(u16, Bytes), CallError> {
        let budget =
            context.deadline.child(self.timeout, self.reserve).map_err(|_| CallError::NotSent(NotSent::Deadline))?;
        let mut request = self
            .client
            .request(method, format!("{}{path}", self.base))
            .timeout(budget)
            .header(headers::EXPECTED_TIMEOUT_MS, budget.as_millis().to_string())
            .header(headers::RETRY_BUDGET, context.retry_budget.to_string())
            .header(headers::TRACEPARENT, context.trace.child().to_string())
            .header(headers::REQUEST_ID, &*context.request_id);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        for (name, value) in extra_headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(evidence)?;
        let status = response.status().as_u16();
        Ok((status, response.bytes().await.map_err(evidence)?))
    }
}

const TIMED_OUT: &str = "no answer in time";

/// What a transport error proves. Only a failed connection proves that nothing left; whether a timeout struck before
/// or after the first byte cannot be told, and a connection closed at once looks like one closed after the request.
fn evidence(error: reqwest::Error) -> CallError {
    if error.is_connect() {
        CallError::NotSent(NotSent::Connect)
    } else if error.is_timeout() {
        CallError::Unknown(TIMED_OUT.to_owned())
    } else {
        // The outer message repeats the address; the innermost says what happened.
        let mut cause: &dyn Error = &error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        CallError::Unknown(cause.to_string())
    }
}

fn judge<T: DeserializeOwned>(status: u16, bytes: &[u8]) -> Result<Answer<T>, CallError> {
    if (200..300).contains(&status) {
        return match serde_json::from_slice(bytes) {
            Ok(body) => Ok(Answer { status, body }),
            Err(error) => Err(CallError::Unknown(format!("unreadable {status} answer: {error}"))),
        };
    }
    match serde_json::from_slice::<Problem>(bytes) {
        Ok(problem) if proves_refusal(status, problem.kind) => Err(CallError::Refused(Box::new(problem))),
        Ok(problem) => Err(CallError::Unknown(format!("{status} {}", problem.kind))),
        Err(_) => Err(CallError::Unknown(format!("{status} without a problem body"))),
    }
}

/// A problem with a 4xx says that nothing was done. Of the 5xx only those do that are said before anything is begun;
/// `storage-unavailable`, for one, may follow a commit whose confirmation was lost.
fn proves_refusal(status: u16, kind: ProblemType) -> bool {
    (400..500).contains(&status) || matches!(kind, ProblemType::PaymentNotDispatched | ProblemType::Overloaded)
}
