//! A downstream that misbehaves on request: over a real socket, down to answers that never come.

use std::{
    future::{Future, ready},
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinHandle,
};

/// What the stub does with a request.
#[derive(Debug, Clone)]
pub enum Reply {
    Json(u16, Value),
    /// A status with this text as its body, whatever it is.
    Raw(u16, String),
    /// Reads the request and never answers.
    Hang,
    /// Reads the request and closes the connection.
    Close,
    /// Answers half of what it announced, then closes.
    Truncated,
    /// Answers with these headers as well.
    With(Vec<(&'static str, String)>, Box<Reply>),
    /// Answers after a while.
    Late(Duration, Box<Reply>),
    /// Answers once the test has added a permit: for tests in which the order of events is the point.
    Held(Arc<Semaphore>, Box<Reply>),
}

/// A request that the stub saw.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Seen {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

type Behaviour = Arc<dyn Fn(&Seen) -> Answering + Send + Sync>;
type Answering = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// Serves until it is dropped.
pub struct Stub {
    addr: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    behaviour: Arc<Mutex<Behaviour>>,
    server: JoinHandle<()>,
}

impl Stub {
    /// Starts on a port of the system's choice.
    pub async fn start(behaviour: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_as(at_once(behaviour)).await
    }

    /// One that has to ask others before it can answer.
    pub async fn asking<F>(behaviour: impl Fn(&Seen) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        Self::start_as(Arc::new(move |seen| Box::pin(behaviour(seen)))).await
    }

    async fn start_as(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let addr = listener.local_addr().expect("an address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let behaviour = Arc::new(Mutex::new(behaviour));
        let (log, how) = (seen.clone(), behaviour.clone());
        let server = tokio::spawn(async move {
            // Dropped with the task, so that a hanging connection ends with the stub.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                connections.spawn(converse(socket, log.clone(), how.clone()));
            }
        });
        Self { addr, seen, behaviour, server }
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// From the next request on.
    pub fn behave(&self, behaviour: impl Fn(&Seen) -> Reply + Send + Sync + 'static) {
        *self.behaviour.lock().unwrap_or_else(PoisonError::into_inner) = at_once(behaviour);
    }

    /// Every request so far, in order of arrival.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The requests with this method whose path starts so.
    #[must_use]
    pub fn seen_at(&self, method: &str, path: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.method == method && seen.path.starts_with(path)).collect()
    }
}

fn at_once(behaviour: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Behaviour {
    Arc::new(move |seen| Box::pin(ready(behaviour(seen))))
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// An address where nothing listens.
///
/// # Panics
/// When the system has no port left.
#[must_use]
pub fn refusing_url() -> String {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    format!("http://{}", listener.local_addr().expect("an address"))
}

async fn converse(mut socket: TcpStream, log: Arc<Mutex<Vec<Seen>>>, behaviour: Arc<Mutex<Behaviour>>) {
    while let Some(seen) = read_request(&mut socket).await {
        log.lock().unwrap_or_else(PoisonError::into_inner).push(seen.clone());
        let behaviour = behaviour.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut reply = behaviour(&seen).await;
        let mut more = String::new();
        loop {
            reply = match reply {
                Reply::Late(wait, then) => {
                    tokio::time::sleep(wait).await;
                    *then
                }
                Reply::Held(go, then) => {
                    // Closed by nobody; a permit is used up by each answer.
                    if let Ok(permit) = go.acquire().await {
                        permit.forget();
                    }
                    *then
                }
                Reply::With(headers, then) => {
                    more.extend(headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
                    *then
                }
                last => {
                    reply = last;
                    break;
                }
            };
        }
        let (status, kind, body, announced) = match reply {
            Reply::Json(status, body) => {
                let kind = if status < 400 { "application/json" } else { contracts::headers::PROBLEM_JSON };
                let body = body.to_string();
                (status, kind, body.clone(), body.len())
            }
            Reply::Raw(status, body) => (status, "text/plain", body.clone(), body.len()),
            Reply::Truncated => (200, "application/json", "{\"sta".to_owned(), 100),
            Reply::Close => return,
            Reply::Hang | Reply::Late(..) | Reply::Held(..) | Reply::With(..) => std::future::pending().await,
        };
        let answer = format!(
            "HTTP/1.1 {status} Stub\r\ncontent-type: {kind}\r\ncontent-length: {announced}\r\n{more}\r\n{body}"
        );
        if socket.write_all(answer.as_bytes()).await.is_err() || announced != body.len() {
            return;
        }
    }
}

async fn read_request(socket: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(bytes.get(..head_end)?).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ').map(str::to_owned);
    let (method, path) = (first.next()?, first.next()?);
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length =
        headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, v)| v.parse().ok()).unwrap_or(0);
    while bytes.len() < head_end + length {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = serde_json::from_slice(bytes.get(head_end..)?).unwrap_or(Value::Null);
    Some(Seen { method, path, headers, body })
}
