//! Puts coupon together; nothing is constructed anywhere else.

use std::sync::Arc;

use ::events::{Consumer, ConsumerConfig, Relay, RelayConfig};
use anyhow::Context;
use chassis::{App, Lifecycle, Wiring};
use contracts::topic::{COMPENSATE, ORDERS};
use durable::{inbox, outbox::Outbox};
use serde_json::json;
use sqlx::migrate::Migrator;
use utoipa::OpenApi;

use crate::{
    Config, events, http,
    http::{Api, openapi::Document},
    jobs::Backlog,
    meters, seed,
};

/// Coupon's own tables; versions from 100.
pub static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/coupon");

pub async fn build(config: Config, wiring: Wiring, lifecycle: Lifecycle) -> anyhow::Result<App> {
    let rules = wiring.rules.handle.clone();
    let messaging = &wiring.rules.rules.messaging;
    let consuming = ConsumerConfig::in_flight(messaging.max_in_flight, messaging.max_in_flight_per_partition);
    let database = chassis::database::open(&wiring, config.database_url, &MIGRATIONS).await?;
    if wiring.dev {
        let added = seed::seed(&database).await.context("the seed data cannot be added")?;
        tracing::info!(added, "seeded");
    }

    let outbox = Outbox::new(database.pool().clone());
    let in_force = rules.clone();
    let relay = Relay::live(outbox.clone(), config.kafka.clone(), move || {
        let messaging = &in_force.current().messaging;
        RelayConfig {
            poll_interval: messaging.relay_poll,
            lease_ttl: messaging.relay_lease,
            retention: messaging.outbox_retention,
            ..RelayConfig::default()
        }
    });
    lifecycle.spawn_background("relay", |stop| relay.run(stop));

    let orders = events::Orders { database: database.clone(), outbox: outbox.clone() };
    let orders = Consumer::new(config.kafka.clone(), events::GROUP, &[ORDERS], orders, consuming.clone());
    lifecycle.spawn_background("orders consumer", |stop| async move {
        if let Err(error) = orders.run(stop).await {
            tracing::error!(%error, "the consumer of orders cannot run");
        }
    });
    let compensations = events::Compensations { database: database.clone(), outbox, rules: rules.clone(), tier: 0 };
    let compensations = Consumer::of_queue(
        config.kafka,
        events::COMPENSATION_GROUP,
        &COMPENSATE,
        |tier| events::Compensations { tier, ..compensations.clone() },
        consuming,
    );
    lifecycle.spawn_background("compensations consumer", |stop| async move {
        if let Err(error) = compensations.run(stop).await {
            tracing::error!(%error, "the consumer of compensations cannot run");
        }
    });
    let backlog = Backlog::default();
    lifecycle.spawn_background("compensation backlog", |stop| backlog.clone().keep_measured(database.clone(), stop));
    let pool = database.clone();
    lifecycle.measured_by(move || pool.measure());
    let retention = move || rules.current().messaging.inbox_retention;
    lifecycle.spawn_background("inbox pruning", |stop| inbox::keep_pruned(database.pool().clone(), retention, stop));

    let (ready, state, close) = (database.clone(), database.clone(), database.clone());
    Ok(App {
        routes: http::routes(Api { database, lifecycle }),
        openapi: Document::openapi(),
        ready: Arc::new(move || {
            let database = ready.clone();
            Box::pin(async move { database.ping().await.map_err(|error| error.to_string()) })
        }),
        state: Arc::new(move || {
            let (connections, idle) = state.connections();
            json!({
                "database": {"connections": connections, "idle": idle},
                "compensations": backlog.shown(),
            })
        }),
        meters: meters::describe,
        close: Box::pin(async move { close.close().await }),
    })
}
