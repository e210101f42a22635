//! A running console, and short ways to ask it.

use console::{Config, app};
use contracts::{Service, UserId};
use reqwest::{RequestBuilder, Response};
use rules::Rules;
use serde_json::Value;
use testkit::{TestApp, TestDatabase, operator_token};

pub struct Desk {
    pub app: TestApp,
    // Dropped last: with it goes the database.
    _database: TestDatabase,
}

impl Desk {
    pub async fn open() -> Self {
        let database = TestDatabase::create().await;
        let config = Config { database_url: database.url() };
        let app = TestApp::start(Service::Console, Rules::default(), |wiring, lifecycle| {
            app::build(config, wiring, lifecycle)
        });
        Self { app: app.await, _database: database }
    }

    pub fn get(&self, path: &str) -> RequestBuilder {
        self.app.get(path).bearer_auth(operator_token("ada"))
    }

    pub async fn seen(&self, path: &str) -> Value {
        json(self.get(path).send().await.unwrap(), 200).await
    }
}

/// The body of an answer with this status.
pub async fn json(answer: Response, status: u16) -> Value {
    let (got, text) = (answer.status().as_u16(), answer.text().await.unwrap());
    assert_eq!(got, status, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// A token of nobody who may act here.
pub fn user() -> String {
    testkit::user_token(UserId::generate())
}
