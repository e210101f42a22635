//! The only place that constructs things.

use std::sync::Arc;

use anyhow::Context;
use chassis::{App, Downstream, Lifecycle, Wiring, downstream};
use contracts::payment::Channel;
use durable::outbox::Outbox;
use events::{Relay, RelayConfig};
use serde_json::json;
use sqlx::migrate::Migrator;

use crate::{
    config::Config,
    downstream::provider::Provider,
    http::{self, Api},
    workflow::Payments,
};

/// The service's own tables; versions from 100.
pub static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/payment");

pub async fn build(config: Config, wiring: Wiring, lifecycle: Lifecycle) -> anyhow::Result<App> {
    let rules = &wiring.rules.rules;
    let connections = rules.database.connections();
    let database = chassis::database::open(&wiring, config.database_url, &MIGRATIONS).await?;

    let outbox = Outbox::new(database.pool().clone());
    let in_force = wiring.rules.handle.clone();
    let relay = Relay::live(outbox.clone(), config.kafka, move || {
        let messaging = &in_force.current().messaging;
        RelayConfig {
            poll_interval: messaging.relay_poll,
            lease_ttl: messaging.relay_lease,
            retention: messaging.outbox_retention,
            ..RelayConfig::default()
        }
    });
    lifecycle.spawn_background("relay", |stop| relay.run(stop));
    lifecycle.spawn_background("pool gauge", |stop| database.clone().keep_measured(stop));

    let primary = Downstream::live(
        "provider",
        &config.provider_primary_url,
        None,
        &wiring.rules.handle,
        |rules| &rules.provider,
        &lifecycle,
    )
    .context("no client for the provider")?;
    let callees = [primary.clone()];
    let payments = Payments::new(database.clone(), outbox, Provider::new(Channel::Primary, primary));
    let api = Api { lifecycle, payments };

    let (pinged, shown, closed) = (database.clone(), database.clone(), database);
    Ok(App {
        routes: Arc::new(move |config| http::routes(config, api.clone())),
        openapi: http::openapi::document(),
        ready: Arc::new(move || {
            let database = pinged.clone();
            Box::pin(async move { database.ping().await.map_err(|error| error.to_string()) })
        }),
        state: Arc::new(move || {
            let (open, idle) = shown.connections();
            json!({
                "database": {"connections": open, "idle": idle, "limit": connections},
                "downstream": downstream::snapshots(&callees),
            })
        }),
        close: Box::pin(async move { closed.close().await }),
    })
}
