//! A running console, and short ways to ask it.

use console::{Config, app};
use contracts::{Service, UserId};
use reqwest::{RequestBuilder, Response};
use rules::Rules;
use serde_json::{Value, json};
use testkit::{TestApp, TestDatabase, caller_token, operator_token};

pub struct Desk {
    pub app: TestApp,
    // Dropped last: with it goes the database.
    pub database: TestDatabase,
}

/// Nothing here is about being fast, and a test machine is slow without being broken.
fn patient() -> Rules {
    let slow = rules::ROUTES.iter().filter(|route| rules::service_of(route) == Some("console"));
    let slow: String = slow.map(|route| format!("[route.\"{route}\"]\ntimeout_ms = 31000\n")).collect();
    Rules::from_toml(&format!("{slow}[database]\nacquire_timeout_ms = 5000\nlock_timeout_ms = 5000\n")).unwrap()
}

impl Desk {
    pub async fn open() -> Self {
        let database = TestDatabase::create().await;
        let config = Config { database_url: database.url() };
        let app =
            TestApp::start(Service::Console, patient(), |wiring, lifecycle| app::build(config, wiring, lifecycle));
        Self { app: app.await, database }
    }

    pub fn get(&self, path: &str) -> RequestBuilder {
        self.app.get(path).bearer_auth(operator_token("ada"))
    }

    pub async fn seen(&self, path: &str) -> Value {
        body(self.get(path).send().await.unwrap(), 200).await
    }

    pub async fn post(&self, path: &str, said: &Value) -> Response {
        self.app.post(path).bearer_auth(operator_token("ada")).json(said).send().await.unwrap()
    }

    pub async fn publish(&self, document: &str, based_on: Option<i64>) -> Response {
        let said = json!({"document": document, "owner": "checkout", "reason": "a test", "based_on": based_on});
        self.post("/v1/rules", &said).await
    }

    /// A draft of this document, based on the newest version.
    pub async fn draft(&self, document: &str) -> i64 {
        let newest = self.seen("/v1/rules?limit=1").await["items"][0]["version"].as_i64();
        body(self.publish(document, newest).await, 201).await["version"].as_i64().unwrap()
    }

    /// `canary`, `promote`, `rollback`.
    pub async fn act(&self, version: i64, act: &str) -> Response {
        let mut said = json!({"reason": "a test"});
        if act == "canary" {
            said["instances"] = json!(["order-0"]);
        }
        self.post(&format!("/v1/rules/{version}/{act}"), &said).await
    }

    pub async fn done(&self, version: i64, act: &str) -> Value {
        body(self.act(version, act).await, 200).await
    }

    /// The states of all versions, newest first.
    pub async fn states(&self) -> Vec<String> {
        let list = self.seen("/v1/rules").await;
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["state"].as_str().unwrap().to_owned()).collect()
    }

    /// What an instance of order hears that has seen `tag`.
    pub fn asking(&self, instance: &str, tag: Option<i64>, wait_ms: u64) -> RequestBuilder {
        let request = self.app.get(&format!("/v1/rules/current?service=order&instance={instance}&wait_ms={wait_ms}"));
        let request = request.bearer_auth(caller_token(Service::Order));
        match tag {
            Some(tag) => request.header("if-none-match", format!("\"{tag}\"")),
            None => request,
        }
    }

    /// The status, and the version where there is one.
    pub async fn heard(&self, instance: &str, tag: Option<i64>) -> (u16, Option<i64>) {
        told(self.asking(instance, tag, 0).send().await.unwrap()).await
    }
}

/// Status and version of an answer to a question for news.
pub async fn told(answer: Response) -> (u16, Option<i64>) {
    let status = answer.status().as_u16();
    let tag = answer.headers().get("etag").map(|tag| tag.to_str().unwrap().trim_matches('"').parse::<i64>().unwrap());
    if status == 200 {
        let rules = body(answer, 200).await;
        assert_eq!(rules["version"].as_i64(), tag);
    }
    (status, tag)
}

/// The body of an answer with this status.
pub async fn body(answer: Response, status: u16) -> Value {
    let (got, text) = (answer.status().as_u16(), answer.text().await.unwrap());
    assert_eq!(got, status, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// A token of nobody who may act here.
pub fn user() -> String {
    testkit::user_token(UserId::generate())
}
