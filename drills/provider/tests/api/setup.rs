//! A provider on a free port with a ledger of its own, and a client that speaks to it.

use std::{path::PathBuf, time::Duration};

use contracts::{
    Problem,
    provider::{ChargeReply, Ledger},
};
use provider::{ProviderConfig, RunningProvider, start};
use reqwest::{Client, Response};
use serde_json::{Value, json};

pub struct Setup {
    pub provider: RunningProvider,
    pub api: Api,
}

/// The provider's API at an address.
#[derive(Clone)]
pub struct Api {
    pub client: Client,
    pub base: String,
}

pub async fn setup() -> Setup {
    setup_with(|_| {}).await
}

pub async fn setup_with(change: impl FnOnce(&mut ProviderConfig)) -> Setup {
    let mut config = ProviderConfig::local("primary", new_ledger());
    config.hold_for = Duration::from_millis(300);
    change(&mut config);
    let provider = start(config).await.unwrap();
    let api = Api::at(provider.url());
    Setup { provider, api }
}

/// A ledger file that nobody has used.
pub fn new_ledger() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(uuid::Uuid::now_v7().to_string()).join("ledger.jsonl")
}

pub fn body(method: &str) -> Value {
    json!({"amount_minor": 1_000, "currency": "USD", "payment_method": method, "reference": "order-1"})
}

pub async fn problem(response: Response, status: u16, slug: &str) -> Problem {
    assert_eq!(response.status(), status);
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let problem: Problem = response.json().await.unwrap();
    assert_eq!((problem.status, problem.kind.slug()), (status, slug));
    problem
}

impl Api {
    pub fn at(base: String) -> Self {
        Self { client: Client::builder().no_proxy().build().unwrap(), base }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub fn post_charge(&self, key: &str, body: &Value) -> reqwest::RequestBuilder {
        self.client.post(self.url("/v1/charges")).header("idempotency-key", key).json(body)
    }

    pub async fn try_charge(&self, key: &str, method: &str) -> reqwest::Result<Response> {
        self.post_charge(key, &body(method)).send().await
    }

    pub async fn charge(&self, key: &str, method: &str) -> ChargeReply {
        let response = self.try_charge(key, method).await.unwrap();
        assert_eq!(response.status(), 200);
        response.json().await.unwrap()
    }

    pub async fn refund(&self, charge: &str, key: &str, amount_minor: i64) -> Response {
        let url = self.url(&format!("/v1/charges/{charge}/refunds"));
        let request = self.client.post(url).header("idempotency-key", key);
        request.json(&json!({"amount_minor": amount_minor})).send().await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Response {
        self.client.get(self.url(path)).send().await.unwrap()
    }

    pub async fn by_key(&self, key: &str) -> Option<ChargeReply> {
        let response = self.get(&format!("/v1/charges/by-key/{key}")).await;
        if response.status() == 404 { None } else { Some(response.json().await.unwrap()) }
    }

    pub async fn ledger(&self) -> Ledger {
        self.get("/v1/ledger").await.json().await.unwrap()
    }

    pub async fn behave(&self, behaviour: Value) -> Response {
        self.client.put(self.url("/admin/behaviour")).json(&behaviour).send().await.unwrap()
    }
}
