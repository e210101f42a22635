//! A client as clients should be: it keeps its key, and sends again until it knows.

use std::time::Duration;

use reqwest::{Client, Response, header::RETRY_AFTER};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

#[derive(Clone)]
pub struct Shop {
    client: Client,
    urls: Vec<String>,
    token: String,
}

/// What a client was told in the end.
#[derive(Debug, Clone)]
pub struct Told {
    pub status: u16,
    pub body: Value,
}

impl Shop {
    pub fn new(urls: Vec<String>, token: String) -> Self {
        let client = Client::builder().no_proxy().timeout(Duration::from_secs(5)).build().unwrap();
        Self { client, urls, token }
    }

    pub fn of(&self, token: String) -> Self {
        Self { token, ..self.clone() }
    }

    /// One request, to the replica that `turn` falls on.
    pub async fn place_once(&self, turn: usize, key: &str, order: &Value) -> reqwest::Result<(Told, Option<u64>)> {
        let url = format!("{}/v1/orders", self.urls[turn % self.urls.len()]);
        let request = self.client.post(url).bearer_auth(&self.token).header("idempotency-key", key).json(order);
        let response = request.send().await?;
        let status = response.status().as_u16();
        let wait = retry_after(&response);
        Ok((Told { status, body: response.json().await? }, wait))
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
        let give_up = Instant::now() + Duration::from_secs(60);
        loop {
            let request = self.client.get(format!("{}{path}", self.urls[0])).bearer_auth(&self.token);
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            let wait = retry_after(&response);
            let told = Told { status, body: response.json().await.unwrap() };
            if status != 429 {
                return told;
            }
            assert!(Instant::now() < give_up, "{path}: {told:?}");
            sleep(pause(&told, wait)).await;
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
