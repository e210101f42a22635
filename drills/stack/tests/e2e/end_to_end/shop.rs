//! A client as clients should be: it keeps its key, and sends again until it knows. What it is told goes into a log,
//! for the oracle.

use std::time::Duration;

use contracts::UserId;
use oracle::{Answer, AnswerLog};
use reqwest::{Client, RequestBuilder, Response, header::RETRY_AFTER};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

#[derive(Clone)]
pub struct Shop {
    client: Client,
    urls: Vec<String>,
    user: UserId,
    token: String,
    log: AnswerLog,
}

/// What a client was told in the end.
#[derive(Debug, Clone)]
pub struct Told {
    pub status: u16,
    pub body: Value,
}

impl Shop {
    pub fn new(urls: Vec<String>, user: UserId, token: String, log: AnswerLog) -> Self {
        let client = Client::builder().no_proxy().timeout(Duration::from_secs(5)).build().unwrap();
        Self { client, urls, user, token, log }
    }

    pub fn of(&self, user: UserId, token: String) -> Self {
        Self { user, token, ..self.clone() }
    }

    pub fn log(&self) -> &AnswerLog {
        &self.log
    }

    /// One request, to the replica that `turn` falls on.
    pub async fn place_once(&self, turn: usize, key: &str, order: &Value) -> reqwest::Result<(Told, Option<u64>)> {
        let request = self.client.post(self.url(turn, "/v1/orders")).header("idempotency-key", key).json(order);
        self.exchange(request, Some(key), "POST", "/v1/orders").await
    }

    fn url(&self, turn: usize, path: &str) -> String {
        format!("{}{path}", self.urls[turn % self.urls.len()])
    }

    async fn exchange(
        &self,
        request: RequestBuilder,
        key: Option<&str>,
        method: &str,
        path: &str,
    ) -> reqwest::Result<(Told, Option<u64>)> {
        let response = request.bearer_auth(&self.token).send().await?;
        let status = response.status().as_u16();
        let wait = retry_after(&response);
        let told = Told { status, body: response.json().await? };
        self.log.write(&Answer::new(self.user, key, method, path, status, &told.body)).unwrap();
        Ok((told, wait))
    }

    /// The first answer that is not a limit's: limits stand before keys, and store nothing.
    pub async fn place_let_in(&self, turn: usize, key: &str, order: &Value) -> Told {
        let give_up = Instant::now() + Duration::from_secs(60);
        loop {
            let (told, wait) = self.place_once(turn, key, order).await.unwrap();
            if told.status != 429 {
                return told;
            }
            assert!(Instant::now() < give_up, "{key}: {told:?}");
            sleep(pause(&told, wait)).await;
        }
    }

    /// Sends until the answer is one that stands: not a lost connection, not "later".
    pub async fn place(&self, key: &str, order: &Value) -> Told {
        let give_up = Instant::now() + Duration::from_secs(60);
        let mut turn = 0;
        loop {
            match self.place_once(turn, key, order).await {
                Ok((told, _)) if told.status != 202 && told.body["retryable"] != true => return told,
                Ok((told, _)) if told.status == 202 => return told,
                Ok((told, wait)) => {
                    assert!(Instant::now() < give_up, "{key}: {told:?}");
                    sleep(pause(&told, wait)).await;
                }
                Err(error) => {
                    assert!(Instant::now() < give_up, "{key}: {error}");
                    sleep(Duration::from_millis(50)).await;
                }
            }
            turn += 1;
        }
    }

    pub async fn get(&self, path: &str) -> Told {
        self.until_let_in("GET", path, |turn| self.client.get(self.url(turn, path))).await
    }

    pub async fn cancel(&self, id: &str) -> Told {
        let path = format!("/v1/orders/{id}/cancel");
        self.until_let_in("POST", &path, |turn| self.client.post(self.url(turn, &path))).await
    }

    /// The order, once it is `status`.
    pub async fn once(&self, id: &str, status: &str) -> Value {
        let path = format!("/v1/orders/{id}");
        testkit::eventually(&format!("order {id} is {status}"), async || {
            let now = self.get(&path).await.body;
            (now["status"] == status).then_some(now)
        })
        .await
    }

    /// Sends until the answer is neither a limit's nor lost.
    async fn until_let_in(&self, method: &str, path: &str, request: impl Fn(usize) -> RequestBuilder) -> Told {
        let give_up = Instant::now() + Duration::from_secs(60);
        let mut turn = 0;
        loop {
            let wait = match self.exchange(request(turn), None, method, path).await {
                Ok((told, _)) if told.status != 429 && told.status != 503 => return told,
                Ok((told, wait)) => pause(&told, wait),
                Err(_) => Duration::from_millis(50),
            };
            assert!(Instant::now() < give_up, "{method} {path} is not answered");
            sleep(wait).await;
            turn += 1;
        }
    }
}

fn retry_after(response: &Response) -> Option<u64> {
    response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok())
}

/// After a 429 exactly what was asked for, as a limit holds for who ignores it too. Of any other "later" a tenth:
/// patience is not what is tested.
fn pause(told: &Told, wait: Option<u64>) -> Duration {
    match told.status {
        429 => Duration::from_secs(wait.unwrap_or(1)),
        _ => Duration::from_millis(wait.unwrap_or(1).min(1) * 100),
    }
}

pub fn fresh_key() -> String {
    Uuid::now_v7().to_string()
}

pub fn order_of(sku: &str, quantity: i64, method: &str) -> Value {
    json!({"items": [{"sku": sku, "quantity": quantity}], "payment_method": method})
}

/// The load generator's own line about an answer is one that the oracle reads.
pub fn logged(answer: &load::Answer) -> Answer {
    serde_json::from_value(serde_json::to_value(answer).unwrap()).unwrap()
}
