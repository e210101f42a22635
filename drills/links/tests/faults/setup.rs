//! Links in this process, in front of a stub and of a server that sends back what it gets.

use std::net::SocketAddr;

use links::{LinkConfig, LinksConfig, Protocol, RunningLinks, start};
use serde_json::{Value, json};
use testkit::{Reply, Stub};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

pub const HTTP: &str = "order->payment";
/// A second hop, over which nothing goes unless a test sends it.
pub const QUIET: &str = "order->coupon";
pub const TCP: &str = "->redis";

/// Longer than a test may take: who waits for it waits for the fault to be switched off.
pub const FOR_EVER_MS: u64 = 600_000;

pub struct World {
    pub stub: Stub,
    pub links: RunningLinks,
    pub client: reqwest::Client,
    echo: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.echo.abort();
    }
}

pub async fn world() -> World {
    let stub = Stub::start(|_| Reply::Json(200, json!({"said": "yes"}))).await;
    let (echo, echo_task) = echo_server().await;
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let to_stub = stub.url().trim_start_matches("http://").to_owned();
    let link = |name: &str, upstream: &str, protocol| LinkConfig {
        name: name.to_owned(),
        listen: any,
        upstream: upstream.to_owned(),
        protocol,
    };
    let links = vec![
        link(HTTP, &to_stub, Protocol::Http),
        link(QUIET, &to_stub, Protocol::Http),
        link(TCP, &echo.to_string(), Protocol::Tcp),
    ];
    let links = start(LinksConfig { admin: any, links, seed: 7 }).await.unwrap();
    World { stub, links, client: client(), echo: echo_task }
}

pub fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

async fn echo_server() -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
                let _ = to.shutdown().await;
            });
        }
    });
    (address, task)
}

impl World {
    pub fn address(&self, link: &str) -> SocketAddr {
        self.links.address(link).unwrap()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address(HTTP))
    }

    pub fn admin(&self, path: &str) -> String {
        format!("http://{}{path}", self.links.admin)
    }

    pub async fn get(&self) -> reqwest::Result<reqwest::Response> {
        self.client.get(self.url("/v1/thing")).send().await
    }

    /// A request in a task of its own, with a connection of its own.
    pub fn get_meanwhile(&self) -> JoinHandle<reqwest::Result<reqwest::Response>> {
        tokio::spawn(client().get(self.url("/v1/thing")).send())
    }

    pub async fn connect(&self, link: &str) -> TcpStream {
        TcpStream::connect(self.address(link)).await.unwrap()
    }

    /// Adds a fault and gives its id.
    pub async fn fault(&self, body: Value) -> u64 {
        let answer = self.client.post(self.admin("/v1/faults")).json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 201);
        answer.json::<Value>().await.unwrap()["id"].as_u64().unwrap()
    }

    /// Switches a fault off; gives it as it was then.
    pub async fn off(&self, id: u64) -> Value {
        let answer = self.client.delete(self.admin(&format!("/v1/faults/{id}"))).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.json().await.unwrap()
    }

    pub async fn applied(&self, id: u64) -> u64 {
        let answer = self.client.get(self.admin(&format!("/v1/faults/{id}"))).send().await.unwrap();
        answer.json::<Value>().await.unwrap()["applied"].as_u64().unwrap()
    }

    pub async fn until_applied(&self, id: u64, times: u64) {
        let what = format!("fault {id} to be applied {times} times");
        testkit::eventually(&what, async || (self.applied(id).await == times).then_some(())).await;
    }

    pub async fn link(&self, name: &str) -> Value {
        let name = name.replace('>', "%3E");
        let answer = self.client.get(self.admin(&format!("/v1/links/{name}"))).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.json().await.unwrap()
    }
}

/// What comes until the other side ends.
pub async fn read_all(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await?;
    Ok(all)
}

/// Sends a word and reads it back.
pub async fn echo(stream: &mut TcpStream, word: &[u8]) {
    stream.write_all(word).await.unwrap();
    let mut back = vec![0; word.len()];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(back, word);
}
