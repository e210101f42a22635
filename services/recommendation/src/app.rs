//! Puts recommendation together; nothing is constructed anywhere else.

use std::sync::Arc;

use ::events::{Consumer, ConsumerConfig};
use anyhow::Context;
use cache::{Cache, CacheConfig};
use chassis::{App, Degradable, Lifecycle, Wiring};
use contracts::{Service, topic::ORDERS};
use durable::inbox;
use rules::Degrade;
use serde_json::json;
use sqlx::migrate::Migrator;
use utoipa::OpenApi;

use crate::{
    Config, events, http,
    http::{Api, openapi::Document},
    jobs, meters,
    workflow::Recommender,
};

/// Recommendation's own tables; versions from 100.
pub static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/recommendation");

/// Raised whenever what is cached changes its type or meaning.
const CACHE_SCHEMA: u32 = 1;

pub async fn build(config: Config, wiring: Wiring, lifecycle: Lifecycle) -> anyhow::Result<App> {
    let rules = wiring.rules.handle.clone();
    let messaging = &wiring.rules.rules.messaging;
    let consuming = ConsumerConfig::in_flight(messaging.max_in_flight, messaging.max_in_flight_per_partition);
    let redis = cache::connect_lazily(&config.redis_url).context("REDIS_URL")?;
    let database = chassis::database::open(&wiring, config.database_url, &MIGRATIONS).await?;

    let handler = events::Orders { database: database.clone() };
    let consumer = Consumer::new(config.kafka, events::GROUP, &[ORDERS], handler, consuming);
    lifecycle.spawn_background("orders consumer", |stop| async move {
        if let Err(error) = consumer.run(stop).await {
            tracing::error!(%error, "the consumer of orders cannot run");
        }
    });
    let pool = database.clone();
    lifecycle.measured_by(move || pool.measure());
    lifecycle.spawn_background("inbox pruning", {
        let rules = rules.clone();
        let retention = move || rules.current().messaging.inbox_retention;
        |stop| inbox::keep_pruned(database.pool().clone(), retention, stop)
    });
    lifecycle.spawn_background("prune", |stop| jobs::prune(database.clone(), stop));

    let cached = &wiring.rules.rules.cache;
    let candidates = CacheConfig {
        prefix: config.redis_key_prefix,
        patience: cached.patience,
        keep_stale: cached.keep_stale,
        ..CacheConfig::new(Service::Recommendation.as_str(), CACHE_SCHEMA)
    };
    let recommender = Arc::new(Recommender {
        database: database.clone(),
        cache: Cache::new(redis, candidates),
        switch: Degradable::live(Degrade::RECOMMENDATION, &rules, &lifecycle),
        rules,
    });
    let (ready, state, close) = (database.clone(), recommender.clone(), database);
    Ok(App {
        routes: http::routes(Api { recommender, lifecycle }),
        openapi: Document::openapi(),
        // Redis is not asked: without it answers are slower and otherwise the same.
        ready: Arc::new(move || {
            let database = ready.clone();
            Box::pin(async move { database.ping().await.map_err(|error| error.to_string()) })
        }),
        state: Arc::new(move || {
            let (connections, idle) = state.database.connections();
            json!({
                "database": {"connections": connections, "idle": idle},
                "cache": state.cache.snapshot(),
                "degrade": [state.switch.snapshot()],
            })
        }),
        meters: meters::describe,
        close: Box::pin(async move { close.close().await }),
    })
}
