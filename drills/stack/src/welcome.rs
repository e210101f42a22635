//! What `up` says when everything is ready: where things are, and how to place a first order.

use std::time::Duration;

use anyhow::{Context, Result};
use chassis::dev_secrets;
use serde_json::Value;

use crate::{
    args::{Token, Up},
    layout::Layout,
    say::say,
    state::KafkaKind,
    system::{System, console_url},
    token,
};

pub fn table(system: &System, up: &Up) {
    say!("\n{:<18} {:<24} admin (/readyz, /metrics)", "process", "API");
    for spec in system
        .gateway
        .iter()
        .chain(&system.services)
        .chain(&system.console)
        .chain(&system.providers)
        .chain(&system.links)
    {
        let http = |port: Option<u16>| port.map_or_else(String::new, |port| format!("http://127.0.0.1:{port}"));
        say!("{:<18} {:<24} {}", spec.label(), http(spec.api), http(spec.admin));
    }
    say!("{:<18} {}", "postgres", system.stores.postgres_url);
    match (&system.stores.redis_url, up.no_redis) {
        (Some(url), _) => say!("{:<18} {url}", "redis"),
        (None, true) => say!("{:<18} none, as asked: the system runs degraded", "redis"),
        (None, false) => say!("{:<18} none, redis-server is not installed: the system runs degraded", "redis"),
    }
    let bootstrap = &system.stores.kafka_bootstrap;
    match system.stores.kafka_kind {
        KafkaKind::Embedded => {
            say!("{:<18} {bootstrap}, an embedded broker for development: in memory, 5 MiB a partition", "kafka")
        }
        KafkaKind::External | KafkaKind::Docker => say!("{:<18} {bootstrap}", "kafka"),
    }
    say!("{:<18} {}", "logs", system.layout.logs().display());
    if up.no_guards {
        say!("{:<18} OFF, as asked: nothing refuses, no breaker opens, nobody gives up early", "guards");
    }
    say!("");
}

/// Not part of the table, since that goes to the supervisor's log, where no token belongs.
pub async fn first_order(layout: &Layout, up: &Up) -> Result<()> {
    let token =
        token::mint(&Token { user: token::DEFAULT_USER.to_owned(), tenant: None, tier: None, operator: false })?;
    let order = format!("http://127.0.0.1:{}", layout.entrance(up.gateway));
    let sku = any_sku(&order, &token).await.unwrap_or_else(|_| "SKU".to_owned());
    let body = format!(r#"{{"items":[{{"sku":"{sku}","quantity":1}}],"payment_method":"tok_approve"}}"#);
    say!("place an order as the user `{}`:\n", token::DEFAULT_USER);
    say!("  token={token}");
    say!("  curl -i {order}/v1/orders -H \"authorization: Bearer $token\" -H 'content-type: application/json' \\");
    say!("    -H \"idempotency-key: $(date +%s%N)\" -d '{body}'");
    if !up.no_console {
        let (url, password) = (console_url(layout), dev_secrets::OPERATOR_PASSWORD);
        say!("\nthe console, for operators: {url}, name `operator`, password `{password}`");
    }
    Ok(())
}

/// A product that exists.
async fn any_sku(order: &str, token: &str) -> Result<String> {
    let answer = reqwest::Client::new()
        .get(format!("{order}/v1/products?limit=1"))
        .bearer_auth(token)
        .timeout(Duration::from_secs(2))
        .send()
        .await?
        .error_for_status()?;
    let list: Value = answer.json().await?;
    Ok(list.pointer("/items/0/sku").and_then(Value::as_str).context("no product")?.to_owned())
}
