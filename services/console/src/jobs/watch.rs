//! Looks at one instance, once a second: whether it is ready, its metrics and its state, on its admin port.
//!
//! Each instance has a job of its own, so that one that does not answer keeps nobody else waiting.

use std::{sync::Arc, time::Duration};

use reqwest::{Client, StatusCode, redirect::Policy};
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    domain::{
        exposition::Samples,
        live::look::{Condition, Look, WANTED},
    },
    workflow::watched::Instance,
};

const EVERY: Duration = Duration::from_secs(1);
/// A readiness check that finds its database silent takes 800 ms to say so.
const ASK_WITHIN: Duration = Duration::from_millis(1_200);
const CONNECT_WITHIN: Duration = Duration::from_millis(300);
/// Several times what any service says.
const MAX_BODY: usize = 8 * 1024 * 1024;

/// One for all instances.
pub fn client() -> reqwest::Result<Client> {
    Client::builder().no_proxy().redirect(Policy::none()).connect_timeout(CONNECT_WITHIN).build()
}

pub async fn run(instance: Arc<Instance>, client: Client, began: Instant, stop: CancellationToken) {
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let look = async {
            tick.tick().await;
            look(&client, &instance.target.url, began.elapsed()).await
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = instance.gone.cancelled() => return,
            look = look => instance.keep(look),
        }
    }
}

async fn look(client: &Client, url: &str, at: Duration) -> Look {
    let asking = async {
        tokio::try_join!(get(client, url, "/readyz"), get(client, url, "/metrics"), get(client, url, "/internal/state"))
    };
    let (ready, metrics, state) = match timeout(ASK_WITHIN, asking).await {
        Ok(Ok(answers)) => answers,
        Ok(Err(why)) => return Look::unreachable(at, why),
        Err(_) => return Look::unreachable(at, "gives no answer in time"),
    };
    let said = |answer: &(StatusCode, Vec<u8>)| serde_json::from_slice::<Value>(&answer.1).unwrap_or_default();
    let condition = if ready.0 == StatusCode::OK {
        Condition::Up
    } else {
        let reason = said(&ready)["reason"].as_str().unwrap_or("does not say why").to_owned();
        Condition::NotReady(reason)
    };
    let samples = Samples::read(&String::from_utf8_lossy(&metrics.1), WANTED);
    Look { at, condition, samples, state: said(&state) }
}

async fn get(client: &Client, url: &str, path: &str) -> Result<(StatusCode, Vec<u8>), &'static str> {
    let refused = |error: reqwest::Error| if error.is_connect() { "cannot be connected to" } else { "breaks off" };
    let mut answer = client.get(format!("{url}{path}")).send().await.map_err(refused)?;
    let status = answer.status();
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(refused)? {
        if body.len() + chunk.len() > MAX_BODY {
            return Err("says more than it should");
        }
        body.extend_from_slice(&chunk);
    }
    Ok((status, body))
}
