//! Real processes: a console that is killed, a service that goes on, and a thousand changes.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use contracts::Service;
use futures_util::future::{join, join_all};
use reqwest::Client;
use serde_json::{Value, json};
use testkit::{TestDatabase, caller_token, eventually, operator_token};
use uuid::Uuid;

/// Killed when it goes out of scope, so that a test that fails leaves no process behind.
struct Process {
    child: Child,
    client: Client,
    api: String,
    admin: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Free a moment ago; a binary has no way to tell which ports it got.
fn free() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// What the processes of one test have around them.
struct Scene {
    /// Of the console, and of coupon.
    databases: [TestDatabase; 2],
    /// Where the console listens, whenever it runs.
    console: [String; 2],
    folder: PathBuf,
}

impl Scene {
    async fn open() -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().to_string());
        fs::create_dir_all(&folder).unwrap();
        let databases = [TestDatabase::create().await, TestDatabase::create().await];
        Self { databases, console: [free(), free()], folder }
    }

    async fn launch(
        &self,
        program: &str,
        database: &TestDatabase,
        at: [String; 2],
        more: &[(&str, String)],
    ) -> Process {
        let [api, admin] = at;
        // Beside ours, where one build puts all of them.
        let program = Path::new(env!("CARGO_BIN_EXE_console")).with_file_name(program);
        assert!(program.is_file(), "{} is not built: build the workspace", program.display());
        let child = Command::new(program)
            .env("APP_ENV", "dev")
            .env("API_ADDR", &api)
            .env("ADMIN_ADDR", &admin)
            .env("DATABASE_URL", database.url())
            .env("KAFKA_BOOTSTRAP", "127.0.0.1:1")
            .env_remove("RULES_FILE")
            .envs(more.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.folder.join(format!("{api}.log"))).unwrap())
            .spawn()
            .unwrap();
        let client = Client::builder().no_proxy().build().unwrap();
        let process = Process { child, client, api, admin };
        eventually("it is ready", async || {
            let answer = process.client.get(format!("http://{}/readyz", process.admin)).send().await.ok()?;
            (answer.status() == 200).then_some(())
        })
        .await;
        process
    }

    async fn console(&self) -> Process {
        self.launch("console", &self.databases[0], self.console.clone(), &[]).await
    }

    /// An instance of coupon that follows the console, and keeps what it hears under `name`.
    async fn coupon(&self, name: &str, more: &[(&str, String)]) -> Process {
        let kept = self.folder.join(format!("{name}.toml")).display().to_string();
        let mut wiring = vec![
            ("CONSOLE_URL", format!("http://{}", self.console[0])),
            ("INSTANCE", name.to_owned()),
            ("RULES_LAST_KNOWN_GOOD", kept),
        ];
        wiring.extend(more.iter().cloned());
        self.launch("coupon", &self.databases[1], [free(), free()], &wiring).await
    }
}

impl Process {
    async fn state(&self) -> Value {
        let url = format!("http://{}/internal/state", self.admin);
        self.client.get(url).send().await.unwrap().json().await.unwrap()
    }

    async fn rules(&self) -> (i64, String) {
        let rules = self.state().await["rules"].take();
        (rules["version"].as_i64().unwrap(), rules["origin"].as_str().unwrap().to_owned())
    }

    async fn comes_to(&self, version: i64, origin: &str) {
        let wanted = (version, origin.to_owned());
        eventually("the rules", async || (self.rules().await == wanted).then_some(())).await;
    }

    /// Without a pause between looks, of which there are many.
    async fn hears_of(&self, version: i64) {
        let looking = async { while self.rules().await.0 != version {} };
        tokio::time::timeout(Duration::from_secs(60), looking).await.unwrap();
    }

    async fn metric(&self, line: &str) -> f64 {
        let text =
            self.client.get(format!("http://{}/metrics", self.admin)).send().await.unwrap().text().await.unwrap();
        let found = text.lines().find_map(|known| known.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or_else(|| panic!("there is no {line}"))
    }

    fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// What it is there for.
    async fn looks_a_coupon_up(&self) -> u16 {
        let request = self.client.get(format!("http://{}/v1/coupons/WELCOME10", self.api));
        let answer = request.bearer_auth(caller_token(Service::Order)).send().await.unwrap();
        let status = answer.status().as_u16();
        if status != 200 {
            eprintln!("{}", answer.text().await.unwrap());
        }
        status
    }

    async fn said(&self, path: &str, said: Value) -> Value {
        let request = self.client.post(format!("http://{}{path}", self.api));
        let answer = request.bearer_auth(operator_token("ada")).json(&said).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.text().await.unwrap());
        answer.json().await.unwrap()
    }

    /// Publishes and promotes.
    async fn rule(&self, document: &str, based_on: Option<i64>) -> i64 {
        let draft = json!({"document": document, "owner": "a test", "reason": "a test", "based_on": based_on});
        let version = self.said("/v1/rules", draft).await["version"].as_i64().unwrap();
        self.said(&format!("/v1/rules/{version}/promote"), json!({"reason": "a test"})).await;
        version
    }
}

#[tokio::test]
async fn nothing_notices_that_the_console_is_killed_and_who_starts_meanwhile_says_what_it_runs_on() {
    let scene = Scene::open().await;
    let console = scene.console().await;
    let coupon = scene.coupon("coupon-0", &[]).await;
    console.rule("[chain]\nretries = 2\n", None).await;
    coupon.comes_to(1, "console").await;

    drop(console);
    eventually("it is told that nobody answers", async || {
        (coupon.metric("stability_rules_console_answers").await == 0.0).then_some(())
    })
    .await;
    assert_eq!(coupon.looks_a_coupon_up().await, 200);
    assert_eq!(coupon.rules().await, (1, "console".to_owned()), "what is in force stays");
    drop(coupon);
    let coupon = scene.coupon("coupon-0", &[]).await;
    assert_eq!(coupon.rules().await, (1, "last_known_good".to_owned()));
    assert_eq!(coupon.metric("stability_rules_origin{origin=\"last_known_good\"}").await, 1.0);
    assert_eq!(coupon.looks_a_coupon_up().await, 200);

    let file = scene.folder.join("rules.toml");
    fs::write(&file, "version = 77").unwrap();
    let on_file = scene.coupon("coupon-1", &[("RULES_FILE", file.display().to_string())]).await;
    assert_eq!(on_file.rules().await, (77, "file".to_owned()));
    let on_defaults = scene.coupon("coupon-2", &[]).await;
    assert_eq!(on_defaults.rules().await, (0, "default".to_owned()));

    // It comes back, and so do they.
    let console = scene.console().await;
    for instance in [&coupon, &on_file, &on_defaults] {
        instance.comes_to(1, "console").await;
    }
    eventually("all have reported", async || {
        let request = console.client.get(format!("http://{}/v1/rules/instances", console.api));
        let seen: Value = request.bearer_auth(operator_token("ada")).send().await.ok()?.json().await.ok()?;
        let items = seen["items"].as_array()?;
        let fine = items.iter().filter(|item| item["version"] == 1 && item["origin"] == "console").count();
        (fine == 3).then_some(())
    })
    .await;
}

/// Nobody is refused for coming too often, or because a busy machine takes its time.
const ROOMY: &str = r#"
key_limits.caller.default = { per_second = 100000, burst = 100000 }
database = { acquire_timeout_ms = 4000, lock_timeout_ms = 4000, statement_timeout_ms = 4500 }
[route."GET /v1/coupons/{code}"]
timeout_ms = 4500
[route."GET /v1/coupons/{code}".limit]
kind = "token_bucket"
per_second = 100000
burst = 100000
[chain]
retries = "#;

#[tokio::test]
async fn a_thousand_changes_in_a_row_leak_nothing_and_drop_no_request() {
    const CHANGES: i64 = 1_000;
    let scene = Scene::open().await;
    let console = scene.console().await;
    // The sizes of pools and what they wait are taken from what a process starts with.
    let file = scene.folder.join("roomy.toml");
    fs::write(&file, format!("{ROOMY}1\n")).unwrap();
    let coupon = scene.coupon("coupon-0", &[("RULES_FILE", file.display().to_string())]).await;
    let mut last = None;
    let mut early = (0.0, 0.0, 0);
    for change in 1..=CHANGES {
        // Another value each time, so that limiters and breakers have something to take in.
        let document = format!("{ROOMY}{}\n", change % 3);
        let changed = async {
            let version = console.rule(&document, last).await;
            coupon.hears_of(version).await;
            version
        };
        let (version, answers) = join(changed, join_all((0..4).map(|_| coupon.looks_a_coupon_up()))).await;
        assert_eq!(answers, [200; 4], "change {change}");
        last = Some(version);
        if change == CHANGES / 5 {
            early = figures(&coupon).await;
        }
    }
    assert_eq!(last, Some(CHANGES));
    let late = figures(&coupon).await;
    let told = format!("bytes, tasks, files: {early:?}, then {late:?}");
    assert!(late.0 - early.0 < 16.0 * 1024.0 * 1024.0, "{told}");
    assert!(late.1 - early.1 < 8.0 && late.2.abs_diff(early.2) < 8, "{told}");
}

/// Memory, tasks and open files.
async fn figures(process: &Process) -> (f64, f64, usize) {
    (process.metric("process_resident_memory_bytes").await, process.metric("process_tasks").await, process.open_files())
}
