//! The system under test, started once for all tests of this binary, with a first version of the rules.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::LazyLock,
    time::Duration,
};

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use testkit::eventually;
use tokio::{
    sync::{Mutex, MutexGuard},
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};
use uuid::Uuid;

/// Tests take turns: they break what the others need.
static TURN: LazyLock<Mutex<Option<System>>> = LazyLock::new(|| Mutex::new(None));

/// A breaker before payment that opens after a few calls and comes back in steps that can be watched, and waits
/// shortened to what a test can wait for.
pub const RULES: &str = r#"# Windows that a test can wait for.
[downstream.payment.bulkhead]
cap = 12
max_waiting = 12
[downstream.payment.breaker]
window = { calls = 10 }
minimum_calls = 5
open_ms = 2000
open_max_ms = 2000
probes = 2
ramp = { steps = [{ percent = 10, duration_ms = 1500 }, { percent = 30, duration_ms = 1500 }, { percent = 100, duration_ms = 1500 }] }
[downstream.inventory]
attempt_timeout_ms = 350
[downstream.inventory.breaker]
slow_threshold_ms = 300
[reconcile]
settle_ms = 2500
delays_ms = [300, 700, 1500, 3000]
lease_ms = 2500
withheld_ms = 15000
lost_after_ms = 4000
sweep_interval_ms = 300
drain_interval_ms = 200
"#;

/// What the default of development lets in.
pub const OPERATOR: (&str, &str) = ("operator", "operator-in-development");

#[derive(Clone)]
pub struct System {
    pub base: u16,
    client: Client,
    operator: String,
    user: String,
}

/// A turn with the running system.
pub struct Turn(#[expect(dead_code, reason = "held for its lock")] MutexGuard<'static, Option<System>>, System);

impl std::ops::Deref for Turn {
    type Target = System;

    fn deref(&self) -> &System {
        &self.1
    }
}

pub async fn turn() -> Turn {
    let mut turn = TURN.lock().await;
    if turn.is_none() {
        *turn = Some(System::start().await);
    }
    let system = turn.clone().unwrap();
    Turn(turn, system)
}

impl System {
    async fn start() -> Self {
        let base = std::env::var("DEV_BROWSER_PORT_BASE")
            .expect("DEV_BROWSER_PORT_BASE is not set: run the browser tests with ./dev test")
            .parse()
            .unwrap();
        let up = ["up", "--detach", "--replicas", "order=2", "--port-base", &format!("{base}")];
        let started = command(&up).output().unwrap();
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        let client = Client::builder().no_proxy().timeout(Duration::from_secs(8)).build().unwrap();
        let (operator, user) =
            (token(&["--user", "tester", "--operator"]), token(&["--user", "shopper", "--tier", "vip"]));
        let system = Self { base, client, operator, user };
        let first = system.publish(RULES, "Windows that a test can wait for").await;
        system.act(&format!("/v1/rules/{first}/promote"), json!({"reason": "The first rules"})).await;
        system.applied(first).await;
        system
    }

    pub fn console(&self) -> String {
        format!("http://127.0.0.1:{}", self.base + 5)
    }

    /// A new draft on top of whatever is the newest.
    pub async fn publish(&self, document: &str, reason: &str) -> i64 {
        let newest = self.ask("/v1/rules?limit=1").await["items"][0]["version"].clone();
        let draft = json!({"document": document, "owner": "tests", "reason": reason, "based_on": newest});
        self.act("/v1/rules", draft).await["version"].as_i64().unwrap()
    }

    /// What the console's API answers an operator.
    pub async fn ask(&self, path: &str) -> Value {
        let answer = self.client.get(format!("{}{path}", self.console())).bearer_auth(&self.operator).send().await;
        answer.unwrap().error_for_status().unwrap().json().await.unwrap()
    }

    async fn act(&self, path: &str, body: Value) -> Value {
        let request = self.client.post(format!("{}{path}", self.console())).bearer_auth(&self.operator).json(&body);
        let answer = request.send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Waits until every instance has taken up this version.
    pub async fn applied(&self, version: i64) {
        eventually(&format!("version {version} is applied everywhere"), async || {
            let instances = self.ask("/v1/rules/instances").await;
            let instances = instances["items"].as_array()?.clone();
            let all = instances.len() >= 6 && instances.iter().all(|one| one["version"] == version);
            all.then_some(())
        })
        .await;
    }

    pub async fn order(&self, method: &str) -> (StatusCode, Value) {
        let answer = self.place(method).await.unwrap();
        (answer.status(), answer.json().await.unwrap())
    }

    async fn place(&self, method: &str) -> reqwest::Result<reqwest::Response> {
        let order = json!({"items": [{"sku": "TEA-EARLGREY-100", "quantity": 1}], "payment_method": method});
        let request = self.client.post(format!("http://127.0.0.1:{}/v1/orders", self.base)).bearer_auth(&self.user);
        request.header("idempotency-key", Uuid::now_v7().to_string()).json(&order).send().await
    }

    /// Ten orders a second until it is dropped, whatever becomes of them.
    pub fn customers(&self) -> Customers {
        let system = self.clone();
        Customers(tokio::spawn(async move {
            let mut next = interval(Duration::from_millis(100));
            next.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                next.tick().await;
                let system = system.clone();
                tokio::spawn(async move { system.place("tok_approve").await });
            }
        }))
    }

    /// `./dev status --json`
    pub fn status(&self) -> Value {
        let said = command(&["status", "--json", "--port-base", &self.base.to_string()]).output().unwrap();
        serde_json::from_slice(&said.stdout).unwrap()
    }

    pub fn kill(&self, process: &str) {
        let status = self.status();
        let processes = status["processes"].as_array().unwrap();
        let pid = processes.iter().find(|one| one["name"] == process).unwrap()["pid"].to_string();
        assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    }

    pub fn restart(&self, process: &str) {
        let said = command(&["restart", process, "--port-base", &self.base.to_string()]).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }
}

pub struct Customers(JoinHandle<()>);

impl Drop for Customers {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn token(more: &[&str]) -> String {
    let said: Output = command(&[&["token"], more].concat()).output().unwrap();
    String::from_utf8(said.stdout).unwrap().trim().to_owned()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(checkout().join("dev"));
    command.args(arguments).env("DEV_NO_BUILD", "1");
    command
}

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
