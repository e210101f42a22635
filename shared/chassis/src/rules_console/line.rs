//! One question to the console and one report, over HTTP. Every wait is bounded, and so is what is read.

use std::time::Duration;

use contracts::{
    Service,
    ruling::{AppliedRules, CurrentRules},
};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, header};

use crate::Wiring;

const CONNECT: Duration = Duration::from_millis(500);
/// For an answer, after the wait that was asked for.
const ANSWER: Duration = Duration::from_secs(3);
/// Documents are at most 64 KiB, which JSON writes in some more.
const MOST: usize = 512 * 1024;

/// The way to the console.
pub(super) struct Line {
    client: Client,
    current: Url,
    applied: Url,
    token: String,
    pub service: Service,
    pub instance: String,
}

/// What the console says.
#[derive(Debug)]
pub(super) enum Heard {
    Rules(CurrentRules),
    /// What was in force was taken back.
    TakenBack,
    NothingNew,
    /// Nothing was ever in force, as far as it remembers.
    Unsaid,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Unheard {
    #[error("no answer: {}", innermost(.0))]
    Transport(#[from] reqwest::Error),
    #[error("it answered {0}")]
    Status(StatusCode),
    #[error("its answer is longer than {MOST} bytes")]
    TooLong,
    #[error("its answer cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

/// What lies at the bottom of it: the rest says only that there was a request.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

impl Line {
    pub fn new(url: &str, wiring: &Wiring) -> Result<Self, String> {
        let at = |path: &str| format!("{url}{path}").parse::<Url>().map_err(|error| format!("{url}: {error}"));
        let client = Client::builder()
            .connect_timeout(CONNECT)
            // One for the question that waits, one for the report.
            .pool_max_idle_per_host(2)
            .pool_idle_timeout(Duration::from_secs(30))
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            client,
            current: at("/v1/rules/current")?,
            applied: at("/v1/rules/applied")?,
            token: wiring.credentials.own_token().to_owned(),
            service: wiring.service,
            instance: wiring.instance.clone(),
        })
    }

    /// Asks for what is in force, once that differs from what has this tag, or at the end of `wait`.
    pub async fn ask(&self, tag: Option<i64>, wait: Duration) -> Result<Heard, Unheard> {
        let mut url = self.current.clone();
        url.query_pairs_mut()
            .append_pair("service", self.service.as_str())
            .append_pair("instance", &self.instance)
            .append_pair("wait_ms", &wait.as_millis().to_string());
        let mut request = self.client.get(url);
        if let Some(tag) = tag {
            request = request.header(header::IF_NONE_MATCH, format!("\"{tag}\""));
        }
        let answer = self.send(request, wait + ANSWER).await?;
        match answer.status() {
            StatusCode::OK => Ok(Heard::Rules(serde_json::from_slice(&read(answer).await?)?)),
            StatusCode::NO_CONTENT => Ok(Heard::TakenBack),
            StatusCode::NOT_MODIFIED => Ok(Heard::NothingNew),
            StatusCode::NOT_FOUND if is_problem(&answer) => {
                // Read, so that the connection can be used again.
                read(answer).await?;
                Ok(Heard::Unsaid)
            }
            other => Err(Unheard::Status(other)),
        }
    }

    pub async fn report(&self, applied: &AppliedRules) -> Result<(), Unheard> {
        let request = self.client.post(self.applied.clone()).json(applied);
        match self.send(request, ANSWER).await?.status() {
            StatusCode::NO_CONTENT => Ok(()),
            other => Err(Unheard::Status(other)),
        }
    }

    async fn send(&self, request: RequestBuilder, within: Duration) -> Result<Response, Unheard> {
        Ok(request.bearer_auth(&self.token).timeout(within).send().await?)
    }
}

/// Told from a 404 of something else that has the address now.
fn is_problem(answer: &Response) -> bool {
    let kind = answer.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(contracts::headers::PROBLEM_JSON.as_bytes()))
}

async fn read(mut answer: Response) -> Result<Vec<u8>, Unheard> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        if body.len() + chunk.len() > MOST {
            return Err(Unheard::TooLong);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
