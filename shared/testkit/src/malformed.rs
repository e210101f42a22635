//! Nonsense, sent as raw bytes to a listener: whatever comes, there is an answer, and it is not the service's fault.

use std::{net::SocketAddr, time::Duration};

use contracts::headers;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};

/// Longer than any answer here takes; reached only by a service that gives none.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where nonsense is sent, and what lets it as far as it can get.
pub struct Listener {
    pub addr: SocketAddr,
    pub method: &'static str,
    pub path: String,
    /// Header lines, such as a token, each with its line break.
    pub headers: String,
}

impl Listener {
    /// The route of a service that lets whoever shows `token` in.
    #[must_use]
    pub fn route(addr: SocketAddr, method: &'static str, path: &str, token: &str) -> Self {
        Self { addr, method, path: path.to_owned(), headers: format!("authorization: Bearer {token}\r\n") }
    }

    /// A request as it should be, but for its body and for `extra` headers.
    #[must_use]
    pub fn request(&self, extra: &str, body: &str) -> Vec<u8> {
        let Self { method, path, headers, .. } = self;
        format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{headers}{extra}\r\n\r\n{body}").into_bytes()
    }

    /// [`Self::request`] that says of its body that it is JSON.
    #[must_use]
    pub fn json(&self, body: &str) -> Vec<u8> {
        self.request(&format!("content-type: application/json\r\ncontent-length: {}", body.len()), body)
    }

    /// Sends each and expects a problem of this status.
    ///
    /// # Panics
    /// When anything else comes, or nothing.
    pub async fn refuses(&self, cases: Vec<(&str, Vec<u8>, u16)>) {
        for (name, request, expected) in cases {
            let (status, body) = raw(self.addr, &request).await;
            assert_eq!(status, expected, "{name}: {body}");
            let problem: Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{name}: {e}: {body}"));
            assert_eq!(problem["status"], expected, "{name}");
            assert!(problem["type"].as_str().is_some_and(|kind| kind.starts_with("urn:problem:")), "{name}: {body}");
        }
    }

    /// Headers that every route of a service reads.
    ///
    /// # Panics
    /// As [`Self::refuses`].
    pub async fn refuses_malformed_headers(&self) {
        let with = |header: &str| self.request(&format!("{header}\r\ncontent-length: 0"), "");
        let deadline = |value: &str| with(&format!("{}: {value}", headers::EXPECTED_TIMEOUT_MS));
        self.refuses(vec![
            ("a deadline that is no number", deadline("soon"), 400),
            ("a negative deadline", deadline("-1"), 400),
            ("no time left", deadline("0"), 504),
            ("a retry budget that is no number", with(&format!("{}: many", headers::RETRY_BUDGET)), 400),
            ("an unknown criticality", with(&format!("{}: vital", headers::CRITICALITY)), 400),
        ])
        .await;
    }

    /// Bodies that are not what a route takes, whatever it takes.
    ///
    /// # Panics
    /// As [`Self::refuses`].
    pub async fn refuses_malformed_bodies(&self) {
        let large = "x".repeat(70_000);
        let chunked = "content-type: application/json\r\ntransfer-encoding: chunked";
        let large_chunk = format!("11170\r\n{large}\r\n0\r\n\r\n");
        let kind = |kind: &str, body| self.request(&format!("{kind}content-length: 2"), body);
        self.refuses(vec![
            ("no JSON", self.json("{"), 400),
            ("empty", self.json(""), 400),
            ("deep", self.json(&"[".repeat(60_000)), 400),
            ("null", self.json("null"), 400),
            ("array", self.json(r#"[[],null,"t"]"#), 400),
            ("unknown member", self.json(r#"{"colour":1}"#), 400),
            ("a surrogate by itself", self.json(r#"{"sku":"\ud800"}"#), 400),
            ("a number beyond all bounds", self.json(r#"{"quantity":1e999}"#), 400),
            ("too large", self.json(&large), 413),
            ("no content type", kind("", "{}"), 415),
            ("form", kind("content-type: application/x-www-form-urlencoded\r\n", "a="), 415),
            ("gzip", kind("content-type: application/json\r\ncontent-encoding: gzip\r\n", "{}"), 415),
            ("bad chunk", self.request(chunked, "zz\r\n{}\r\n0\r\n\r\n"), 400),
            ("large chunk", self.request(chunked, &large_chunk), 413),
        ])
        .await;
    }

    /// What is hardly HTTP, or odd. The framework may answer in its own way, but it answers.
    ///
    /// # Panics
    /// When no answer comes, or one that takes the blame.
    pub async fn answers_what_is_hardly_http(&self) {
        let Self { path, headers, .. } = self;
        let get =
            |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\n{headers}{more}\r\n").into_bytes();
        let many: String = (0..90).map(|i| format!("x-{i}: 1\r\n")).collect();
        let lengths = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab");
        // What is broken is refused; what is odd need not be.
        for (name, is_broken, request) in [
            ("broken request line", true, b"GET\r\n\r\n".to_vec()),
            ("no version", true, format!("GET {path}\r\n\r\n").into_bytes()),
            ("another protocol", true, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec()),
            ("two lengths", true, lengths.into_bytes()),
            ("odd method", true, format!("BREW {path} HTTP/1.1\r\nhost: x\r\n{headers}\r\n").into_bytes()),
            ("odd path", true, get("/v1/%ff%00..%2f", "")),
            ("odd query", false, get(&format!("{path}?%ff=%zz&&=="), "")),
            ("binary header", false, get(path, "x-request-id: \u{fe}\r\n")),
            ("long header", false, get(path, &format!("x-long: {}\r\n", "h".repeat(60_000)))),
            ("many headers", false, get(path, &many)),
        ] {
            let (status, body) = raw(self.addr, &request).await;
            assert!((if is_broken { 400 } else { 200 }..500).contains(&status), "{name}: {status} {body}");
        }
    }
}

/// Sends bytes as they are. The status and the body of what comes back; 0 when that is no answer.
///
/// # Panics
/// When nothing comes for long.
pub async fn raw(addr: SocketAddr, request: &[u8]) -> (u16, String) {
    let mut socket = TcpStream::connect(addr).await.expect("somebody listens");
    // The server may answer and close before all of a large request is written.
    drop(socket.write_all(request).await);
    read_answer(&mut socket).await
}

/// Sends `head`, and then a byte at a time, until there is an answer.
///
/// # Panics
/// When nothing comes for long.
pub async fn trickle(addr: SocketAddr, head: &[u8]) -> (u16, String) {
    let mut socket = TcpStream::connect(addr).await.expect("somebody listens");
    let (mut reading, mut writing) = socket.split();
    let writing = async {
        let mut pace = tokio::time::interval(Duration::from_millis(20));
        drop(writing.write_all(head).await);
        while writing.write_all(b"x").await.is_ok() {
            pace.tick().await;
        }
        std::future::pending().await
    };
    tokio::select! {
        biased;
        answer = read_answer(&mut reading) => answer,
        never = writing => never,
    }
}

/// What a server says, to the end of its answer.
///
/// # Panics
/// When nothing comes for long.
pub async fn read_answer(socket: &mut (impl AsyncRead + Unpin)) -> (u16, String) {
    let give_up = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    loop {
        let more = tokio::time::timeout_at(give_up, socket.read_buf(&mut bytes)).await.expect("an answer, or an end");
        if !matches!(more, Ok(1..)) {
            break;
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break;
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}
