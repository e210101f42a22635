//! An Envoy of the test's own, with stand-ins for order behind it.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Stdio,
};

use contracts::{Problem, ProblemType, UserId, headers};
use gateway::{Instance, Places, START};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::json;
use testkit::{
    Reply, Stub, eventually,
    stub::{Seen, refusing_url},
    tenant_token, user_token,
};
use tokio::process::{Child, Command};

pub struct Gateway {
    #[expect(dead_code, reason = "killed when it is dropped")]
    envoy: Child,
    pub port: u16,
    watch: u16,
    client: Client,
    token: String,
}

/// Has `/readyz` say that it is ready, and leaves the rest to `behaviour`.
pub async fn order(behaviour: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Stub {
    Stub::start(ready(behaviour)).await
}

/// The same for a stand-in that changes its ways.
pub fn ready(
    behaviour: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
) -> impl Fn(&Seen) -> Reply + Send + Sync + 'static {
    move |seen| if seen.path == "/readyz" { fine(seen) } else { behaviour(seen) }
}

pub fn fine(_: &Seen) -> Reply {
    Reply::Json(200, json!({}))
}

impl Gateway {
    /// None where there is no Envoy: the test is skipped then, and says so.
    pub async fn before(orders: &[&Stub]) -> Option<Self> {
        Self::to(&orders.iter().map(|stub| port_of(&stub.url())).collect::<Vec<_>>()).await
    }

    /// In front of an address where nothing listens.
    pub async fn before_nobody() -> Option<Self> {
        Self::to(&[port_of(&refusing_url())]).await
    }

    async fn to(orders: &[u16]) -> Option<Self> {
        let program = match gateway::program() {
            Ok(program) => program,
            Err(why) => {
                eprintln!("gateway skipped: {why}");
                return None;
            }
        };
        // Somebody else may take a port between the look and Envoy.
        for _ in 0..5 {
            if let Some(gateway) = Self::try_start(&program, orders).await {
                return Some(gateway);
            }
        }
        panic!("Envoy does not start");
    }

    async fn try_start(program: &Path, orders: &[u16]) -> Option<Self> {
        let (port, watch) = free_ports();
        let orders = orders.iter().map(|&port| Instance { api: port, admin: port }).collect();
        let places = Places { gateway: port, watch, socket: format!("@gateway-test-{port}"), orders };
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("gateway-{port}.yaml"));
        fs::write(&file, gateway::configuration(&checkout(), &places).unwrap()).unwrap();
        let mut envoy = Command::new("sh")
            .arg(checkout().join(START))
            .arg("-c")
            .arg(&file)
            .args(["--concurrency", "1", "--log-level", "error"])
            .env("ENVOY", program)
            .env("APP_ENV", "dev")
            .env_remove("AUTH_JWT_SECRET")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let client = Client::builder().no_proxy().retry(reqwest::retry::never()).build().unwrap();
        let is_ready = eventually("Envoy is ready", async || {
            if envoy.try_wait().unwrap().is_some() {
                return Some(false);
            }
            let ready = client.get(format!("http://127.0.0.1:{watch}/readyz")).send().await;
            ready.is_ok_and(|ready| ready.status() == 200).then_some(true)
        })
        .await;
        fs::remove_file(&file).unwrap();
        is_ready.then(|| Self { envoy, port, watch, client, token: user_token(UserId::generate()) })
    }

    /// A request of a user without a tenant.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.anonymous(method, path).bearer_auth(&self.token)
    }

    pub fn get(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path)
    }

    pub fn post(&self, path: &str) -> RequestBuilder {
        self.request(Method::POST, path)
    }

    pub fn anonymous(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://127.0.0.1:{}{path}", self.port))
    }

    pub fn of_tenant(&self, tenant: &str, path: &str) -> RequestBuilder {
        self.anonymous(Method::GET, path).bearer_auth(tenant_token(UserId::generate(), tenant))
    }

    /// On the port for those who watch.
    pub fn watched(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://127.0.0.1:{}{path}", self.watch))
    }

    /// Of the cluster of order: what Envoy counts under this name.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = self.watched(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
        let start = format!("envoy_cluster_{name}{{envoy_cluster_name=\"order\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in\n{text}"))
    }

    /// Waits until Envoy counts so many.
    pub async fn counts(&self, name: &str, value: f64) {
        eventually(name, async || (self.metric(name).await == value).then_some(())).await;
    }
}

/// The problem that an answer is, in all as a service would give it.
pub async fn refusal(answer: Response, kind: ProblemType) -> Problem {
    let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let (status, media) = (answer.status().as_u16(), header("content-type"));
    let (id, retry_after) = (header(headers::REQUEST_ID), header("retry-after"));
    let text = answer.text().await.unwrap();
    assert_eq!((status, media.as_deref()), (kind.status(), Some(headers::PROBLEM_JSON)), "{text}");
    let problem: Problem = serde_json::from_str(&text).unwrap();
    assert_eq!(problem.kind, kind, "{text}");
    assert_eq!(retry_after, problem.retry_after_seconds().map(|seconds| seconds.to_string()));
    // Headers that could not be read have no id in them, and come to where it would be made.
    let unread = kind == ProblemType::InvalidRequest || problem.detail.contains("headers");
    assert!(unread || id.is_some_and(|id| !id.is_empty()), "without a request id: {text}");
    problem
}

pub fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn port_of(url: &str) -> u16 {
    url.rsplit_once(':').unwrap().1.parse().unwrap()
}

fn free_ports() -> (u16, u16) {
    // Both at once, so that they differ.
    let [one, other] = [(); 2].map(|()| TcpListener::bind(("127.0.0.1", 0)).unwrap());
    (one.local_addr().unwrap().port(), other.local_addr().unwrap().port())
}
