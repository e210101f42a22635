//! Rules from a file, in a service that runs: what changes in the file is in force without a restart.

use std::{fs, path::PathBuf, sync::Arc};

use actix_web::web;
use chassis::{App, Env, Lifecycle, Wiring, service};
use contracts::Service;
use serde_json::{Value, json};
use testkit::eventually;
use tokio::runtime::Handle;
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi()]
pub struct Document;

/// A route that is served and that no rule can name.
#[derive(OpenApi)]
#[openapi(paths(unruled))]
struct Forgotten;

#[utoipa::path(get, path = "/v1/forgotten", responses((status = 200)))]
#[expect(dead_code, reason = "only its description is used")]
fn unruled() {}

pub fn app(openapi: utoipa::openapi::OpenApi) -> App {
    App {
        routes: Arc::new(|_: &mut web::ServiceConfig| {}),
        openapi,
        ready: Arc::new(|| Box::pin(async { Ok(()) })),
        state: Arc::new(|| json!({})),
        meters: || {},
        close: Box::pin(async {}),
    }
}

fn wiring(file: Option<&PathBuf>, kept: Option<&PathBuf>) -> Wiring {
    let mut pairs = vec![("APP_ENV", "dev".to_owned())];
    pairs.extend(["API_ADDR", "ADMIN_ADDR"].map(|name| (name, "127.0.0.1:0".to_owned())));
    pairs.extend(file.map(|path| ("RULES_FILE", path.display().to_string())));
    pairs.extend(kept.map(|path| ("RULES_LAST_KNOWN_GOOD", path.display().to_string())));
    let mut env = Env::from_pairs(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)));
    Wiring::from_env(Service::Inventory, &mut env).unwrap()
}

pub async fn rules_of(running: &service::Running) -> (i64, String) {
    let url = format!("http://{}/internal/state", running.admin_addr());
    let state: Value = reqwest::get(url).await.unwrap().json().await.unwrap();
    (state["rules"]["version"].as_i64().unwrap(), state["rules"]["origin"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_file_is_in_force_without_a_restart_and_survives_one_without_the_file() {
    let folder = std::env::temp_dir().join(format!("ruling-{}", uuid::Uuid::now_v7()));
    fs::create_dir(&folder).unwrap();
    let (file, kept) = (folder.join("rules.toml"), folder.join("kept.toml"));
    fs::write(&file, "version = 1").unwrap();

    let serve =
        |wiring: &Wiring| service::serve(wiring, Lifecycle::new(Handle::current()), app(Document::openapi())).unwrap();
    let running = serve(&wiring(Some(&file), Some(&kept)));
    assert_eq!(rules_of(&running).await, (1, "file".to_owned()));
    fs::write(&file, "version = 33").unwrap();
    eventually("the new rules", async || (rules_of(&running).await.0 == 33).then_some(())).await;
    eventually("they are kept", async || fs::read_to_string(&kept).unwrap().contains("version = 33").then_some(()))
        .await;
    running.stop().await;

    let running = serve(&wiring(None, Some(&kept)));
    assert_eq!(rules_of(&running).await, (33, "last_known_good".to_owned()));
    running.stop().await;
    fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_that_no_rule_can_name_is_not_served() {
    let lifecycle = Lifecycle::new(Handle::current());
    let refused = service::serve(&wiring(None, None), lifecycle, app(Forgotten::openapi())).err().unwrap();
    assert!(refused.to_string().contains("GET /v1/forgotten"), "{refused}");
}
