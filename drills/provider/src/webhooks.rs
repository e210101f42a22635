//! Webhooks: the provider's own word on what it decided, signed, and sent again until somebody takes it.
//!
//! A receiver that is down must not cost the provider more than a bounded queue: beyond it, after the last try, and at
//! a stop, a webhook is lost. That is how real providers fail as well, and why the ledger can be asked.

use std::{fmt, sync::Arc, time::Duration};

use chrono::Utc;
use contracts::{
    headers,
    provider::{Behaviour, Webhook, WebhookMode},
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Where webhooks go, and the secret that signs them.
#[derive(Clone)]
pub struct WebhookTarget {
    pub url: reqwest::Url,
    pub secret: String,
}

pub struct Webhooks {
    target: WebhookTarget,
    client: reqwest::Client,
    waiting: Arc<Semaphore>,
    sending: Arc<Semaphore>,
}

/// A webhook that has its place in the queue.
pub struct Delivery {
    webhooks: Arc<Webhooks>,
    webhook: Webhook,
    copies: u32,
    delay: Duration,
    _place: OwnedSemaphorePermit,
}

/// 0.25, 0.5, 1, 2 and 4 s lie between the tries.
const TRIES: u32 = 6;
const FIRST_BACKOFF: Duration = Duration::from_millis(250);
const TRY_TIMEOUT: Duration = Duration::from_secs(2);
/// Deliveries that wait or run, and those that run.
const MAX_WAITING: usize = 10_000;
const MAX_SENDING: usize = 64;

/// The value of `provider-signature` for a body sent at `unix` seconds.
#[must_use]
pub fn sign(secret: &str, unix: i64, body: &[u8]) -> String {
    // HMAC takes keys of any length, so the error branch is never taken.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return String::new() };
    mac.update(unix.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    format!("t={unix},v1={}", hex::encode(mac.finalize().into_bytes()))
}

impl fmt::Debug for WebhookTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookTarget").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

impl Webhooks {
    pub fn new(target: WebhookTarget) -> reqwest::Result<Self> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(TRY_TIMEOUT)
            .pool_idle_timeout(Duration::from_secs(30))
            .build()?;
        let waiting = Arc::new(Semaphore::new(MAX_WAITING));
        Ok(Self { target, client, waiting, sending: Arc::new(Semaphore::new(MAX_SENDING)) })
    }

    /// What the behaviour in force makes of a webhook; `None` when none is sent or the queue is full.
    pub fn queue(self: &Arc<Self>, webhook: Webhook, behaviour: &Behaviour) -> Option<Delivery> {
        let (copies, delay) = match behaviour.webhook {
            WebhookMode::Off => return None,
            WebhookMode::On => (1, Duration::ZERO),
            WebhookMode::Late => (1, Duration::from_millis(behaviour.webhook_late_ms)),
            WebhookMode::Duplicate => (2, Duration::ZERO),
        };
        let Ok(place) = Arc::clone(&self.waiting).try_acquire_owned() else {
            tracing::warn!(webhook = webhook.id, "too many webhooks wait; this one is lost");
            return None;
        };
        Some(Delivery { webhooks: Arc::clone(self), webhook, copies, delay, _place: place })
    }

    async fn send_once(&self, body: &[u8]) -> Result<(), String> {
        // Signed at every try: receivers refuse a signature that is some minutes old.
        let signature = sign(&self.target.secret, Utc::now().timestamp(), body);
        let _sending = self.sending.acquire().await.map_err(|e| e.to_string())?;
        let answer = self
            .client
            .post(self.target.url.clone())
            .header(headers::PROVIDER_SIGNATURE, signature)
            .header("content-type", "application/json")
            .body(body.to_vec())
            .send()
            .await
            .map_err(|error| error.without_url().to_string())?;
        if answer.status().is_success() { Ok(()) } else { Err(format!("answered {}", answer.status())) }
    }

    async fn send_until_taken(&self, body: &[u8]) -> Result<(), String> {
        let mut backoff = FIRST_BACKOFF;
        for _ in 1..TRIES {
            if self.send_once(body).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(backoff).await;
            backoff *= 2;
        }
        self.send_once(body).await
    }
}

impl Delivery {
    /// Runs until the webhook is taken, given up, or the provider stops.
    pub async fn run(self, closing: CancellationToken) {
        let Ok(body) = serde_json::to_vec(&self.webhook) else { return };
        let deliver = async {
            tokio::time::sleep(self.delay).await;
            for _ in 0..self.copies {
                if let Err(reason) = self.webhooks.send_until_taken(&body).await {
                    tracing::warn!(webhook = self.webhook.id, reason, tries = TRIES, "gave a webhook up");
                }
            }
        };
        tokio::select! {
            () = deliver => {}
            () = closing.cancelled() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_the_hmac_of_time_dot_body() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac whsec_test
        let expected = "38877139021993b830af32feea6e18a8da83eb2f6e49ee50bd9e4cf4ca4d3789";
        assert_eq!(sign("whsec_test", 1_700_000_000, br#"{"a":1}"#), format!("t=1700000000,v1={expected}"));
    }

    #[test]
    fn the_secret_is_not_in_the_debug_output() {
        let target = WebhookTarget { url: "http://localhost/".parse().unwrap(), secret: "s3cret".to_owned() };
        assert!(!format!("{target:?}").contains("s3cret"));
    }
}
