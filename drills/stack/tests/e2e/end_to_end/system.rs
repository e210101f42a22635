//! The system under test, started once for all tests of this binary.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::LazyLock,
};

use contracts::{Service, UserId, headers};
use events::KafkaConfig;
use oracle::{AnswerLog, Sources, sources::Databases};
use serde_json::Value;
use sqlx::PgPool;
use tokio::sync::{Mutex, MutexGuard};

use super::shop::Shop;

/// Tests take turns: some of them kill what the others need.
static TURN: LazyLock<Mutex<Option<System>>> = LazyLock::new(|| Mutex::new(None));

/// Waits shortened to what a test can wait for. Leases still outlast what they are leased for, and a charge that waits
/// for order's word is not given up while a consumer joins its group.
pub const HURRIED: &str = r#"
[reconcile]
settle_ms = 2500
delays_ms = [300, 700, 1500, 3000]
lease_ms = 2500
withheld_ms = 15000
lost_after_ms = 4000
sweep_interval_ms = 300
drain_interval_ms = 200
[recover]
interval_ms = 300
ask_again_ms = 1000
ack_after_ms = 3000
ack_retry_max_ms = 6000
[idempotency]
lease_ms = 3500
"#;

/// For tests that are not about breakers: they let processes die for as long as breakers would stay open, and should
/// not have to wait for those.
pub const WITHOUT_BREAKERS: &str = r#"
[downstream.inventory]
attempt_timeout_ms = 350
[downstream.inventory.breaker]
slow_threshold_ms = 300
forced = "closed"
[downstream.payment.breaker]
forced = "closed"
[downstream.payment_status.breaker]
forced = "closed"
[downstream.coupon.breaker]
forced = "closed"
[downstream.provider.breaker]
forced = "closed"
[downstream.provider_backup.breaker]
forced = "closed"
[downstream.provider_status.breaker]
forced = "closed"
[downstream.provider_ledger.breaker]
forced = "closed"
"#;

#[derive(Clone)]
pub struct System {
    pub base: u16,
    rules: PathBuf,
    pub shop: Shop,
}

/// A turn with the running system.
pub struct Turn(#[expect(dead_code, reason = "held for its lock")] MutexGuard<'static, Option<System>>, System);

impl std::ops::Deref for Turn {
    type Target = System;

    fn deref(&self) -> &System {
        &self.1
    }
}

/// Waits for this test's turn, and starts the system if it is the first: two replicas of order and of payment, one of
/// the others.
pub async fn turn() -> Turn {
    let mut turn = TURN.lock().await;
    if turn.is_none() {
        let base = std::env::var("DEV_E2E_PORT_BASE")
            .expect("DEV_E2E_PORT_BASE is not set: run the end-to-end test with ./dev test")
            .parse()
            .unwrap();
        // Below the state of the system, which is wiped at the end.
        let folder = checkout().join(format!("target/dev/{base}"));
        std::fs::create_dir_all(&folder).unwrap();
        let rules = folder.join("test-rules.toml");
        std::fs::write(&rules, HURRIED).unwrap();
        let mut up = command(&["up", "--detach", "--replicas", "order=2,payment=2", "--port-base", &format!("{base}")]);
        if let Err(why) = gateway::program() {
            eprintln!("gateway skipped: {why}");
        } else {
            up.arg("--gateway");
        }
        let started = up.env("RULES_FILE", &rules).output().unwrap();
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        // The tests' clients share one user: a program, and so a VIP.
        let (user, token) = user(&["--tier", "vip"]);
        let log = AnswerLog::create(&folder.join("answers.jsonl")).unwrap();
        let urls = vec![format!("http://127.0.0.1:{base}"), format!("http://127.0.0.1:{}", base + 100)];
        *turn = Some(System { base, rules, shop: Shop::new(urls, user, token, log) });
    }
    let system = turn.clone().unwrap();
    Turn(turn, system)
}

impl System {
    /// Where this system's files are, which go with it at the end.
    pub fn folder(&self) -> &Path {
        self.rules.parent().unwrap()
    }

    /// `./dev status --json`
    pub fn status(&self) -> Value {
        let said = dev(&["status", "--json", "--port-base", &self.base.to_string()]);
        serde_json::from_slice(&said.stdout).unwrap()
    }

    /// `./dev restart NAME --kill`: SIGKILL, and a new process.
    pub async fn kill_and_restart(&self, name: &str) {
        self.restart(name, &["--kill"]).await;
    }

    /// `./dev restart NAME`, with more arguments: waits until it is ready. It takes seconds, and holds up nobody: clients
    /// that are joined with it would otherwise stand still for as long as they are to meet a process that is away.
    pub async fn restart(&self, name: &str, more: &[&str]) {
        let said = self.try_restart(name, more).await;
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }

    /// The same for one that may not live to be ready.
    pub async fn try_restart(&self, name: &str, more: &[&str]) -> Output {
        let command = command(&[&["restart", name, "--port-base", &self.base.to_string()], more].concat());
        tokio::process::Command::from(command).output().await.unwrap()
    }

    /// Of a process, by name and replica: `status --json`.
    pub fn process(&self, name: &str, replica: u64) -> Value {
        let status = self.status();
        let processes = status["processes"].as_array().unwrap();
        processes.iter().find(|p| p["name"] == name && p["replica"] == replica).unwrap().clone()
    }

    /// SIGKILL, and it stays dead: a process of which there is one, or `NAME:k`.
    pub fn kill(&self, process: &str) {
        let (name, replica) = process.split_once(':').unwrap_or((process, "0"));
        self.signal(&self.process(name, replica.parse().unwrap())["pid"], "-KILL");
    }

    pub fn signal(&self, pid: &Value, signal: &str) {
        let done = Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
        assert!(done.success());
    }

    pub async fn database(&self, name: &str) -> PgPool {
        let server = self.status()["stores"]["postgres"]["url"].as_str().unwrap().to_owned();
        PgPool::connect(&format!("{}/{name}", server.trim_end_matches('/'))).await.unwrap()
    }

    /// The sum of a metric over those samples that have all of `labels`, written as `name="value"`, at the first replica
    /// of a service.
    pub async fn metric_of(&self, service: Service, name: &str, labels: &[&str]) -> f64 {
        self.metric_at(service.admin_port(self.base, 0), name, labels).await
    }

    /// Over both replicas of order, of which one leads the relay and knows the backlog.
    pub async fn outbox_backlog(&self) -> f64 {
        let mut backlog = 0.0;
        for replica in 0..2 {
            backlog += self.metric_at(Service::Order.admin_port(self.base, replica), "outbox_backlog", &[]).await;
        }
        backlog
    }

    pub async fn metric_at(&self, admin_port: u16, name: &str, labels: &[&str]) -> f64 {
        let url = format!("http://127.0.0.1:{admin_port}/metrics");
        let text = reqwest::get(url).await.unwrap().text().await.unwrap();
        let of_name = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let labelled = |line: &&str| labels.iter().all(|label| line.contains(label));
        let samples = text.lines().filter(of_name).filter(labelled);
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Where the first replica of order listens.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.base)
    }

    /// Where the gateway listens; None where this machine has none.
    pub fn gateway(&self) -> Option<String> {
        let status = self.status();
        let mut processes = status["processes"].as_array().unwrap().iter();
        let gateway = processes.find(|process| process["name"] == "gateway")?;
        Some(format!("http://{}", gateway["api"].as_str().unwrap()))
    }

    /// `/internal/state` of the first replica of a service.
    pub async fn state(&self, service: Service) -> Value {
        let url = format!("http://127.0.0.1:{}/internal/state", service.admin_port(self.base, 0));
        reqwest::get(url).await.unwrap().json().await.unwrap()
    }

    /// Puts these rules in force in every service, in place of those before; `version` tells them apart.
    pub async fn rule(&self, version: i64, rules: &str) {
        let fresh = self.rules.with_extension("new");
        std::fs::write(&fresh, format!("version = {version}\n{HURRIED}{rules}")).unwrap();
        std::fs::rename(&fresh, &self.rules).unwrap();
        for service in Service::ALL {
            testkit::eventually("the rules are in force", async || {
                (self.state(service).await["rules"]["version"] == version).then_some(())
            })
            .await;
        }
    }

    /// How the primary channel of the provider behaves from now on.
    pub async fn provider_behaves(&self, behaviour: &Value) {
        let url = format!("http://127.0.0.1:{}/admin/behaviour", self.base + 6);
        reqwest::Client::new().put(url).json(behaviour).send().await.unwrap().error_for_status().unwrap();
    }

    /// A charge that nobody here sends any more arrives at the primary channel.
    pub async fn charge_at_the_provider(&self, attempt: &str, charge: &Value) {
        let url = format!("http://127.0.0.1:{}/v1/charges", self.base + 6);
        let request = reqwest::Client::new().post(url).header(headers::IDEMPOTENCY_KEY, attempt).json(charge);
        request.send().await.unwrap().error_for_status().unwrap();
    }

    /// Where the oracle looks.
    pub fn sources(&self) -> Sources {
        let stores = &self.status()["stores"];
        Sources {
            databases: Databases::on(stores["postgres"]["url"].as_str().unwrap()),
            ledgers: [6, 7].map(|offset| format!("http://127.0.0.1:{}", self.base + offset)).into(),
            kafka: Some(KafkaConfig::new(stores["kafka"]["bootstrap"].as_str().unwrap(), "test")),
        }
    }

    /// What the payment provider knows.
    pub async fn ledger(&self) -> contracts::provider::Ledger {
        let url = format!("http://127.0.0.1:{}/v1/ledger", self.base + 6);
        reqwest::get(url).await.unwrap().json().await.unwrap()
    }
}

/// Whether this run has time for what takes minutes: `./dev test --full`.
pub fn is_full() -> bool {
    std::env::var_os("DEV_TEST_FULL").is_some()
}

pub async fn count(db: &PgPool, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(db).await.unwrap()
}

/// A new user, and a token of theirs.
pub fn user(more: &[&str]) -> (UserId, String) {
    let user = UserId::generate();
    let token = dev(&[&["token", "--user", &user.to_string()], more].concat()).stdout;
    (user, String::from_utf8(token).unwrap().trim().to_owned())
}

pub fn dev(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(checkout().join("dev"));
    command.args(arguments).env("DEV_NO_BUILD", "1");
    command
}

pub fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
