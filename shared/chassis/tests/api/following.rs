//! A service that follows a console: a stand-in for it, which really makes callers wait, and a service that serves.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use chassis::{Env, Lifecycle, Wiring, rules_console, service};
use contracts::Service;
use serde_json::{Value, json};
use testkit::{Reply, Stub, eventually, stub::refusing_url};
use tokio::{runtime::Handle, sync::watch};

use crate::ruling::{Document, app, rules_of};

/// What the console says to whoever asks.
#[derive(Debug, Clone, PartialEq)]
enum Word {
    Unsaid,
    TakenBack,
    Rules(i64, &'static str),
}

impl Word {
    /// `None` where it is no news to who has seen `tag`.
    fn to(&self, tag: Option<i64>) -> Option<Reply> {
        match self {
            Self::Unsaid => None,
            Self::TakenBack => (tag != Some(0)).then(|| Reply::Raw(204, String::new())),
            Self::Rules(version, document) => (tag != Some(*version))
                .then(|| Reply::Json(200, json!({"version": version, "document": document, "state": "active"}))),
        }
    }

    fn without_news(&self) -> Reply {
        if *self == Self::Unsaid { Reply::Json(404, json!({})) } else { Reply::Raw(304, String::new()) }
    }
}

struct Console {
    stub: Stub,
    word: watch::Sender<Word>,
    reports: Arc<Mutex<Vec<Value>>>,
}

impl Console {
    async fn saying(word: Word) -> Self {
        let (word, hears) = watch::channel(word);
        let reports: Arc<Mutex<Vec<Value>>> = Arc::default();
        let log = reports.clone();
        let stub = Stub::asking(move |seen| {
            let mut hears = hears.clone();
            let reported = (seen.method == "POST").then(|| log.lock().unwrap().push(seen.body.clone()));
            let tag = seen.header("if-none-match").map(|tag| tag.trim_matches('"').parse().unwrap());
            let waits = !seen.path.ends_with("wait_ms=0");
            async move {
                if reported.is_some() {
                    return Reply::Raw(204, String::new());
                }
                loop {
                    let word = hears.borrow_and_update().clone();
                    match word.to(tag) {
                        Some(reply) => return reply,
                        None if !waits => return word.without_news(),
                        None => drop(hears.changed().await),
                    }
                }
            }
        })
        .await;
        Self { stub, word, reports }
    }

    fn says(&self, word: Word) {
        self.word.send_replace(word);
    }

    async fn is_told(&self, version: i64, origin: &str) -> Value {
        eventually("the report", async || {
            let last = self.reports.lock().unwrap().last().cloned()?;
            (last["version"] == version && last["origin"] == origin).then_some(last)
        })
        .await
    }
}

/// A folder of its own, gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("following-{}", uuid::Uuid::now_v7()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, text: &str) {
        let fresh = self.0.join("fresh");
        fs::write(&fresh, text).unwrap();
        fs::rename(fresh, self.0.join("rules.toml")).unwrap();
    }

    fn kept(&self) -> String {
        fs::read_to_string(self.0.join("kept.toml")).unwrap_or_default()
    }

    /// A service as its process starts it, and what it began with.
    async fn start(&self, console: &str) -> (service::Running, (i64, String)) {
        let mut pairs = vec![("APP_ENV", "dev".to_owned()), ("CONSOLE_URL", console.to_owned())];
        pairs.extend(["API_ADDR", "ADMIN_ADDR"].map(|name| (name, "127.0.0.1:0".to_owned())));
        pairs.push(("RULES_LAST_KNOWN_GOOD", self.0.join("kept.toml").display().to_string()));
        let file = self.0.join("rules.toml");
        pairs.extend(file.exists().then(|| ("RULES_FILE", file.display().to_string())));
        let mut env = Env::from_pairs(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let mut wiring = Wiring::from_env(Service::Inventory, &mut env).unwrap();
        rules_console::at_start(&mut wiring).await;
        let begun = (wiring.rules.rules.version, wiring.rules.origin.as_str().to_owned());
        let lifecycle = Lifecycle::new(Handle::current());
        let running = service::serve(&wiring, lifecycle, app(<Document as utoipa::OpenApi>::openapi())).unwrap();
        assert_eq!(rules_of(&running).await.1, begun.1);
        (running, begun)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn comes_to(running: &service::Running, version: i64, origin: &str) {
    let wanted = (version, origin.to_owned());
    eventually("the rules", async || (rules_of(running).await == wanted).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_console_says_is_in_force_from_the_start_is_followed_kept_and_reported() {
    let (folder, console) = (Folder::new(), Console::saying(Word::Rules(4, "version = 1\n")).await);
    let (running, begun) = folder.start(&console.stub.url()).await;
    assert_eq!(begun, (4, "console".to_owned()), "the number is the console's");
    let report = console.is_told(4, "console").await;
    assert_eq!((&report["service"], &report["instance"]), (&"inventory".into(), &"inventory-0".into()));
    console.says(Word::Rules(5, "[chain]\nretries = 2\n"));
    console.is_told(5, "console").await;
    assert!(folder.kept().contains("version = 5") && folder.kept().contains("retries = 2"), "{}", folder.kept());
    // Back to a lower one, as at the end of a canary.
    console.says(Word::Rules(4, ""));
    console.is_told(4, "console").await;
    assert_eq!(rules_of(&running).await, (4, "console".to_owned()));
    let asked = console.stub.seen_at("GET", "/v1/rules/current");
    assert!(asked[0].path.contains("service=inventory&instance=inventory-0&wait_ms=0"), "{}", asked[0].path);
    assert_eq!(asked[0].header("authorization").map(|value| value.starts_with("Bearer ")), Some(true));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_is_refused_here_changes_nothing_and_its_reason_is_reported() {
    let (folder, console) = (Folder::new(), Console::saying(Word::Rules(4, "")).await);
    let (running, _) = folder.start(&console.stub.url()).await;
    console.says(Word::Rules(5, "\n[chain]\nretires = 2\n"));
    let told = eventually("the refusal", async || {
        let last = console.reports.lock().unwrap().last().cloned()?;
        last["error"].as_str().map(str::to_owned)
    })
    .await;
    assert!(told.starts_with("version 5: line 3: chain.retires"), "{told}");
    assert_eq!(rules_of(&running).await, (4, "console".to_owned()));
    assert!(folder.kept().contains("version = 4"), "{}", folder.kept());
    // It is not asked for again, and the next one is heard.
    console.says(Word::Rules(6, ""));
    assert_eq!(console.is_told(6, "console").await["error"], Value::Null);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_console_a_start_runs_on_the_last_known_good_then_the_file_then_the_defaults_and_says_which() {
    let (folder, console) = (Folder::new(), Console::saying(Word::Rules(4, "")).await);
    let nobody = refusing_url();
    let (running, begun) = folder.start(&nobody).await;
    assert_eq!(begun, (0, "default".to_owned()));
    running.stop().await;
    folder.file("version = 2");
    let (running, begun) = folder.start(&nobody).await;
    assert_eq!(begun, (2, "file".to_owned()));
    running.stop().await;
    let (running, _) = folder.start(&console.stub.url()).await;
    running.stop().await;
    let (running, begun) = folder.start(&nobody).await;
    assert_eq!(begun, (4, "last_known_good".to_owned()));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_console_that_takes_connections_and_never_answers_holds_up_neither_start_nor_stop() {
    let (folder, silent) = (Folder::new(), Stub::start(|_| Reply::Hang).await);
    let (running, begun) = folder.start(&silent.url()).await;
    assert_eq!(begun, (0, "default".to_owned()));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_console_rules_the_file_waits_and_when_it_takes_back_the_file_counts_again() {
    let (folder, console) = (Folder::new(), Console::saying(Word::Unsaid).await);
    folder.file("version = 1");
    let (running, begun) = folder.start(&console.stub.url()).await;
    assert_eq!(begun, (1, "file".to_owned()), "a console without a history takes nothing away");
    console.is_told(1, "file").await;
    console.says(Word::Rules(9, ""));
    comes_to(&running, 9, "console").await;
    folder.file("version = 2");
    console.says(Word::TakenBack);
    comes_to(&running, 2, "file").await;
    assert!(folder.kept().contains("version = 2") && folder.kept().contains("\"file\""), "{}", folder.kept());
    folder.file("version = 3");
    comes_to(&running, 3, "file").await;
    running.stop().await;
}
