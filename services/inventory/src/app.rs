//! Puts inventory together; nothing is constructed anywhere else.

use std::sync::Arc;

use ::events::{Consumer, ConsumerConfig};
use anyhow::Context;
use chassis::{App, Lifecycle, Wiring};
use contracts::topic::ORDERS;
use durable::inbox;
use serde_json::json;
use sqlx::migrate::Migrator;
use utoipa::OpenApi;

use crate::{
    Config, events, http,
    http::{Api, openapi::Document},
    jobs, meters, seed,
};

/// Inventory's own tables; versions from 100.
pub static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/inventory");

pub async fn build(config: Config, wiring: Wiring, lifecycle: Lifecycle) -> anyhow::Result<App> {
    let rules = wiring.rules.handle.clone();
    let messaging = &wiring.rules.rules.messaging;
    let consuming = ConsumerConfig::in_flight(messaging.max_in_flight, messaging.max_in_flight_per_partition);
    let database = chassis::database::open(&wiring, config.database_url, &MIGRATIONS).await?;
    if wiring.dev {
        let added = seed::seed(&database).await.context("the seed data cannot be added")?;
        tracing::info!(added, "seeded");
    }

    let handler = events::Orders { database: database.clone() };
    let consumer = Consumer::new(config.kafka, events::GROUP, &[ORDERS], handler, consuming);
    lifecycle.spawn_background("orders consumer", |stop| async move {
        if let Err(error) = consumer.run(stop).await {
            tracing::error!(%error, "the consumer of orders cannot run");
        }
    });
    let pool = database.clone();
    lifecycle.measured_by(move || pool.measure());
    lifecycle.spawn_background("gauges", |stop| jobs::gauges(database.clone(), stop));
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
            json!({"database": {"connections": connections, "idle": idle}})
        }),
        meters: meters::describe,
        close: Box::pin(async move { close.close().await }),
    })
}
