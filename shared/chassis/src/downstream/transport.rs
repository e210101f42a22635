//! One exchange over HTTP: what travels with a request, and what comes back. No second try is ever made here.

use std::time::Duration;

use contracts::{headers, trace::TraceContext};
use reqwest::{Client, Method, header};
use resilience::retry::{Loan, Purse};
use serde::Serialize;

use super::{
    CallError, NotSent,
    evidence::{Arrived, of_transport},
};
use crate::RequestContext;

/// A request, as it is sent with each try.
pub(super) struct Request<'a, B> {
    pub method: Method,
    pub path: &'a str,
    pub body: Option<&'a B>,
    pub extra_headers: &'a [(&'a str, &'a str)],
}

/// Where to.
pub(super) struct Peer {
    pub base: String,
    pub token: Option<String>,
}

pub(super) fn client(rule: &rules::Downstream) -> Result<Client, reqwest::Error> {
    Client::builder()
        .connect_timeout(rule.connect_timeout)
        .pool_idle_timeout(rule.pool_idle)
        .pool_max_idle_per_host(rule.pool as usize)
        .tcp_nodelay(true)
        // A redirect would send a POST again, a resend on our behalf would hide a second try, and a proxy from
        // the environment would sit between us and the evidence.
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .build()
}

/// Whether two rules need clients that differ.
pub(super) fn needs_another_client(before: &rules::Downstream, after: &rules::Downstream) -> bool {
    (before.connect_timeout, before.pool_idle, before.pool) != (after.connect_timeout, after.pool_idle, after.pool)
}

/// Sends once, as the span `own`, and takes in the whole answer, within `budget`.
pub(super) async fn exchange<B: Serialize + Sync>(
    client: &Client,
    peer: &Peer,
    context: &RequestContext,
    own: &TraceContext,
    request: &Request<'_, B>,
    budget: Duration,
    passes_purse: bool,
) -> Result<Arrived, CallError> {
    let mut purse = Pocket(passes_purse.then(|| Purse::lend(&context.purse)));
    let mut sent = client
        .request(request.method.clone(), format!("{}{}", peer.base, request.path))
        .timeout(budget)
        .header(headers::EXPECTED_TIMEOUT_MS, budget.as_millis().to_string())
        .header(headers::RETRY_BUDGET, purse.amount().to_string())
        .header(headers::TRACEPARENT, own.to_string())
        .header(headers::REQUEST_ID, &*context.request_id);
    // Who knows us by a token is one of ours, and no business of a stranger's is how we shed load.
    if let Some(token) = &peer.token {
        sent = sent.bearer_auth(token).header(headers::CRITICALITY, context.criticality.as_str());
    }
    for (name, value) in request.extra_headers {
        sent = sent.header(*name, *value);
    }
    if let Some(body) = request.body {
        sent = sent.json(body);
    }
    let response = match sent.send().await.map_err(of_transport) {
        Ok(response) => response,
        Err(error) => {
            if matches!(error, CallError::NotSent(NotSent::Connect)) {
                purse.not_sent();
            }
            return Err(error);
        }
    };
    let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    purse.answered(text(headers::RETRY_LEFT));
    let retry_after = text(header::RETRY_AFTER.as_str()).and_then(|text| text.trim().parse().ok());
    let status = response.status().as_u16();
    let bytes = response.bytes().await.map_err(of_transport)?;
    Ok(Arrived { status, bytes, retry_after: retry_after.map(Duration::from_secs) })
}

/// The chain's purse where it goes along. A callee that calls nobody gets none, and so cannot lose it.
struct Pocket(Option<Loan>);

impl Pocket {
    fn amount(&self) -> u32 {
        self.0.as_ref().map_or(0, Loan::amount)
    }

    fn answered(&mut self, left: Option<&str>) {
        if let Some(loan) = self.0.take() {
            loan.answered(left);
        }
    }

    fn not_sent(&mut self) {
        if let Some(loan) = self.0.take() {
            loan.not_sent();
        }
    }
}
