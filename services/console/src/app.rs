//! Puts the console together; nothing is constructed anywhere else.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Context;
use chassis::{App, Lifecycle, Wiring};
use resilience::rate_limit::{PerKey, PerKeyConfig, Quota};
use serde_json::json;
use sqlx::migrate::Migrator;
use tokio::{sync::Notify, time::Instant};
use utoipa::OpenApi;

use crate::{
    Config,
    downstream::Callees,
    http,
    http::{Api, openapi::Document},
    jobs, meters,
    workflow::{Board, Rulebook, live::Live, watched::Watched},
};

/// The console's own tables; versions from 100.
pub static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/console");

/// Guesses at the password of one name: some at once, for slips of the finger, and then one in ten seconds. Names are
/// made up as easily as passwords, so only so many are remembered, and the rest share what the last line says.
fn attempts() -> PerKeyConfig<String> {
    PerKeyConfig {
        default: Quota::new(0.1, 5),
        tiers: BTreeMap::new(),
        overrides: BTreeMap::new(),
        max_keys: 1_000,
        overflow: Quota::new(1.0, 5),
    }
}

pub async fn build(config: Config, wiring: Wiring, lifecycle: Lifecycle) -> anyhow::Result<App> {
    let database = chassis::database::open(&wiring, config.database_url, &MIGRATIONS).await?;
    let pool = database.clone();
    lifecycle.measured_by(move || pool.measure());
    let board = Board::open(database.clone()).await?;
    lifecycle.spawn_background("board", |stop| board.clone().keep_up(stop));
    lifecycle.spawn_background("instances", |stop| jobs::forget::run(database.clone(), stop));
    let rulebook = Rulebook { database: database.clone(), board };
    let callees = Callees::new(&config.callees, wiring.credentials.own_token())?;
    let (live, watched) = (Arc::new(Live::default()), Arc::new(Watched::new(config.targets.fixed)));
    let letters_changed = Arc::new(Notify::new());
    let attempts = Arc::new(PerKey::new(attempts())?);
    let listened = live.clone();
    lifecycle.measured_by(move || metrics::gauge!("console_listeners").set(listened.listeners() as f64));

    let (client, began) = (jobs::watch::client().context("no client")?, Instant::now());
    for instance in watched.instances() {
        let client = client.clone();
        lifecycle.spawn_background("watch", move |stop| jobs::watch::run(instance, client, began, stop));
    }
    for group in config.targets.groups {
        let (watched, client) = (watched.clone(), client.clone());
        lifecycle.spawn_background("discover", move |stop| jobs::discover::run(group, watched, client, began, stop));
    }
    if let Some(url) = config.callees.links_admin_url {
        let (watched, client) = (watched.clone(), client.clone());
        lifecycle.spawn_background("links", move |stop| jobs::links::run(client, url, watched, stop));
    }
    let (kafka, seen, changed) = (config.kafka.clone(), watched.clone(), letters_changed.clone());
    lifecycle.spawn_background("letters", move |stop| jobs::letters::run(kafka, seen, changed, stop));
    let told = live.clone();
    lifecycle.spawn_background("compose", move |stop| jobs::compose::run(watched, told, stop));
    let (pruned, tried) = (database.clone(), attempts.clone());
    lifecycle.spawn_background("prune", move |stop| jobs::prune::run(pruned, tried, stop));

    let (ready, state, close) = (database.clone(), database.clone(), database.clone());
    let (kafka, operators, is_dev) = (config.kafka, config.operators, config.is_dev);
    let shown = live.clone();
    Ok(App {
        routes: http::routes(Api {
            rulebook,
            lifecycle,
            live,
            callees,
            kafka,
            letters_changed,
            operators,
            attempts,
            is_dev,
        }),
        openapi: Document::openapi(),
        ready: Arc::new(move || {
            let database = ready.clone();
            Box::pin(async move { database.ping().await.map_err(|error| error.to_string()) })
        }),
        state: Arc::new(move || {
            let (connections, idle) = state.connections();
            json!({"database": {"connections": connections, "idle": idle}, "listeners": shown.listeners()})
        }),
        meters: meters::describe,
        close: Box::pin(async move { close.close().await }),
    })
}
