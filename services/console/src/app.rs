//! Puts the console together; nothing is constructed anywhere else.

use std::sync::Arc;

use chassis::{App, Lifecycle, Wiring};
use serde_json::json;
use sqlx::migrate::Migrator;
use utoipa::OpenApi;

use crate::{
    Config, http,
    http::{Api, openapi::Document},
    jobs, meters,
    workflow::{Board, Rulebook},
};

/// The console's own tables; versions from 100.
pub static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/console");

pub async fn build(config: Config, wiring: Wiring, lifecycle: Lifecycle) -> anyhow::Result<App> {
    let database = chassis::database::open(&wiring, config.database_url, &MIGRATIONS).await?;
    let pool = database.clone();
    lifecycle.measured_by(move || pool.measure());
    let board = Board::open(database.clone()).await?;
    lifecycle.spawn_background("board", |stop| board.clone().keep_up(stop));
    lifecycle.spawn_background("instances", |stop| jobs::forget_gone(database.clone(), stop));
    let rulebook = Rulebook { database: database.clone(), board };
    let (ready, state, close) = (database.clone(), database.clone(), database.clone());
    Ok(App {
        routes: http::routes(Api { rulebook, lifecycle }),
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
