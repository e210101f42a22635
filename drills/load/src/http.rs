//! The way out: one client with a pool of kept-alive connections, which sends what it is given, once.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use contracts::{headers, order::Page, order::Product};
use reqwest::{Client, redirect};

use crate::{
    request::{Failure, Reply, Request},
    target::Target,
    users::User,
};

/// A client of one service, at one or several of its replicas.
#[derive(Clone)]
pub struct Http {
    client: Client,
    bases: Arc<[String]>,
    /// What callees are told that their caller waits.
    announced: Duration,
}

/// Below the server's 75 s, so that a connection is not used in the moment in which it is closed.
const POOL_IDLE: Duration = Duration::from_secs(30);
/// Of an attempt to set up the run; the run itself has the client's timeout.
const SETUP_TIMEOUT: Duration = Duration::from_secs(10);

impl Http {
    /// `timeout` is what callers of [`Self::exchange`] wait; it is announced to the service.
    pub fn new(target: &Target, timeout: Duration) -> anyhow::Result<Self> {
        Self::across(std::slice::from_ref(target), timeout)
    }

    /// One request after the other goes to the next replica, and so does a client that asks again.
    pub fn across(targets: &[Target], timeout: Duration) -> anyhow::Result<Self> {
        anyhow::ensure!(!targets.is_empty(), "nowhere to send to");
        let client = Client::builder()
            .tcp_nodelay(true)
            .pool_idle_timeout(POOL_IDLE)
            // Every connection that a burst has opened is kept: a handshake costs more than the request.
            .pool_max_idle_per_host(usize::MAX)
            // One arrival is one request: nothing is sent on, or again, behind the generator's back.
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .build()
            .context("cannot make an HTTP client")?;
        let bases = targets.iter().map(|target| target.as_str().to_owned()).collect();
        Ok(Self { client, bases, announced: timeout })
    }

    /// A client that says so, and stays to see what comes after it.
    #[must_use]
    pub fn announcing(self, announced: Duration) -> Self {
        Self { announced, ..self }
    }

    fn base_of(&self, request: &Request) -> &str {
        let turn = request.number.wrapping_add(u64::from(request.attempt));
        &self.bases[(turn % self.bases.len() as u64) as usize]
    }

    /// One request. It waits for as long as it is let: the generator's timeout ends it.
    pub async fn exchange(&self, request: &Request) -> Result<Reply, Failure> {
        let mut call = self
            .client
            .request(request.method.clone(), format!("{}{}", self.base_of(request), request.path))
            .bearer_auth(&request.token)
            .header(headers::REQUEST_ID, &request.request_id)
            .header(headers::EXPECTED_TIMEOUT_MS, self.announced.as_millis().to_string());
        if let Some(key) = &request.key {
            call = call.header(headers::IDEMPOTENCY_KEY, key);
        }
        if let Some(body) = &request.body {
            call = call.json(body);
        }
        let response = call.send().await.map_err(|error| failure(&error))?;
        let status = response.status().as_u16();
        let replayed = response.headers().get(headers::IDEMPOTENT_REPLAYED).is_some_and(|value| value == "true");
        let body = response.bytes().await.map_err(|error| failure(&error))?;
        Ok(Reply { status, replayed, body })
    }

    /// The SKUs of which at least `units` can be ordered.
    pub async fn skus(&self, user: &User, units: i64) -> anyhow::Result<Vec<String>> {
        let base = &self.bases[0];
        let mut skus = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut query = vec![("limit", "100")];
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let address = reqwest::Url::parse_with_params(&format!("{base}/v1/products"), &query)?;
            let page: Page<Product> = async {
                let call = self.client.get(address).bearer_auth(&user.token).timeout(SETUP_TIMEOUT);
                call.send().await?.error_for_status()?.json().await
            }
            .await
            .with_context(|| format!("cannot read the products of {base}"))?;
            let stocked = page.items.into_iter().filter(|product| product.availability.available >= units);
            skus.extend(stocked.map(|product| product.sku));
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => return Ok(skus),
            }
        }
    }
}

fn failure(error: &reqwest::Error) -> Failure {
    if error.is_connect() { Failure::NotSent } else { Failure::Broken }
}
