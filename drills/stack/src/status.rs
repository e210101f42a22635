//! `status`: what runs, asked of the processes themselves and not of the record alone.

use std::process::ExitCode;

use anyhow::Result;
use contracts::service::DEFAULT_PORT_BASE;
use futures_util::future::join_all;
use serde::Serialize;

use crate::{
    identity::Identity,
    kafka,
    layout::Checkout,
    linked, postgres,
    probe::Probe,
    process::Stage,
    redis,
    say::say,
    state::{KafkaKind, Phase, Recorded, State, the_system},
};

const NOTHING_RUNS: u8 = 3;
const NOT_ALL_READY: u8 = 1;

/// The published shape: see DESIGN, "The `dev` script".
#[derive(Debug, Serialize)]
struct Status {
    port_base: u16,
    processes: Vec<Process>,
    stores: Stores,
}

#[derive(Debug, Serialize)]
struct Process {
    name: String,
    replica: u16,
    pid: Option<u32>,
    state: Condition,
    api: Option<String>,
    admin: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Condition {
    Ready,
    /// Runs, but does not say that it is ready.
    Unready,
    Exited,
}

#[derive(Debug, Default, Serialize)]
struct Stores {
    postgres: Store,
    redis: Store,
    kafka: Kafka,
}

#[derive(Debug, Default, Serialize)]
struct Store {
    url: Option<String>,
    pid: Option<u32>,
}

#[derive(Debug, Default, Serialize)]
struct Kafka {
    bootstrap: Option<String>,
    pid: Option<u32>,
    kind: Option<KafkaKind>,
}

pub async fn run(checkout: &Checkout, port_base: Option<u16>, json: bool) -> Result<ExitCode> {
    let found = the_system(checkout, port_base)?;
    let status = match &found {
        Some((_, state)) => look(state).await,
        None => Status {
            port_base: port_base.unwrap_or(DEFAULT_PORT_BASE),
            processes: Vec::new(),
            stores: Stores::default(),
        },
    };
    if json {
        say!("{}", serde_json::to_string_pretty(&status)?);
        return Ok(ExitCode::SUCCESS);
    }
    let Some((_, state)) = found else {
        say!("nothing is running");
        return Ok(ExitCode::from(NOTHING_RUNS));
    };
    Ok(describe(&state, &status))
}

async fn look(state: &State) -> Status {
    let pid = |name: &str| state.processes.iter().find(|p| p.name == name).and_then(live_pid);
    Status {
        port_base: state.port_base,
        processes: join_all(shown(state).map(process)).await,
        stores: Stores {
            postgres: Store { url: Some(state.stores.postgres_url.clone()), pid: pid(postgres::NAME) },
            redis: Store { url: state.stores.redis_url.clone(), pid: pid(redis::NAME) },
            kafka: Kafka {
                bootstrap: Some(state.stores.kafka_bootstrap.clone()),
                pid: pid(kafka::NAME),
                kind: Some(state.stores.kafka_kind),
            },
        },
    }
}

async fn process(recorded: &Recorded) -> Process {
    let pid = live_pid(recorded);
    let port = |address: &Option<String>| address.as_deref()?.rsplit_once(':')?.1.parse().ok();
    let probe = match (port(&recorded.admin), port(&recorded.api)) {
        (Some(admin), _) => Some(Probe::Readyz(admin)),
        (None, Some(api)) => Some(Probe::Listens(api)),
        (None, None) => None,
    };
    let state = match (pid, probe) {
        (None, _) => Condition::Exited,
        (Some(_), Some(probe)) if probe.ask().await.is_ok() => Condition::Ready,
        (Some(_), _) => Condition::Unready,
    };
    Process {
        name: recorded.name.clone(),
        replica: recorded.replica,
        pid,
        state,
        api: recorded.api.clone(),
        admin: recorded.admin.clone(),
    }
}

fn live_pid(recorded: &Recorded) -> Option<u32> {
    recorded.identity.filter(|i| Identity::alive(*i)).map(|i| i.pid)
}

fn describe(state: &State, status: &Status) -> ExitCode {
    let supervised = state.supervised();
    match (supervised, state.phase) {
        (true, Phase::Starting) => say!("starting, port base {}", state.port_base),
        (true, Phase::Stopping) => say!("stopping, port base {}", state.port_base),
        (true, Phase::Ready) => say!("running, port base {}", state.port_base),
        (false, _) => say!(
            "half dead, port base {}: the supervisor is gone; ./dev down stops what is left, ./dev up starts anew",
            state.port_base
        ),
    }
    let pid = |pid: Option<u32>| pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
    say!("{:<18} {:<8} {:<10} {:<18} admin", "process", "state", "pid", "API");
    for (process, recorded) in status.processes.iter().zip(shown(state)) {
        let condition = match process.state {
            Condition::Ready => "ready",
            Condition::Unready => "unready",
            Condition::Exited => "exited",
        };
        let died = recorded.died.as_ref().filter(|_| process.pid.is_none()).map(|how| format!("  ({how})"));
        say!(
            "{:<18} {condition:<8} {:<10} {:<18} {}{}",
            recorded.label(),
            pid(process.pid),
            process.api.as_deref().unwrap_or("-"),
            process.admin.as_deref().unwrap_or("-"),
            died.unwrap_or_default()
        );
    }
    let stores = &status.stores;
    let kind = match stores.kafka.kind {
        Some(KafkaKind::Embedded) => " (embedded)",
        Some(KafkaKind::Docker) => " (docker)",
        Some(KafkaKind::External) | None => "",
    };
    for (name, its_pid, address) in [
        ("postgres", stores.postgres.pid, stores.postgres.url.as_deref()),
        ("redis", stores.redis.pid, stores.redis.url.as_deref()),
        ("kafka", stores.kafka.pid, stores.kafka.bootstrap.as_deref()),
    ] {
        let note = if name == "kafka" { kind } else { "" };
        say!("{name:<18} {:<8} {:<10} {}{note}", "", pid(its_pid), address.unwrap_or("none"));
    }
    if state.processes.iter().any(|p| p.name == linked::NAME) {
        for (hop, port) in linked::listeners(state.port_base, state.stores.kafka_kind) {
            say!("{:<27} {:<10} 127.0.0.1:{port}", format!("link {}", hop.name), "");
        }
    }
    let all_ready = supervised && status.processes.iter().all(|p| p.state == Condition::Ready);
    if all_ready { ExitCode::SUCCESS } else { ExitCode::from(NOT_ALL_READY) }
}

/// All but the stores, which have lines of their own.
fn shown(state: &State) -> impl Iterator<Item = &Recorded> {
    state.processes.iter().filter(|p| !matches!(p.stage, Stage::Database | Stage::Store))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_published_shape_is_kept() {
        let status = Status {
            port_base: 8080,
            processes: vec![Process {
                name: "order".into(),
                replica: 0,
                pid: Some(7),
                state: Condition::Ready,
                api: Some("127.0.0.1:8080".into()),
                admin: Some("127.0.0.1:9080".into()),
            }],
            stores: Stores {
                postgres: Store { url: Some("postgres://postgres@127.0.0.1:15432".into()), pid: Some(8) },
                redis: Store::default(),
                kafka: Kafka {
                    bootstrap: Some("127.0.0.1:19092".into()),
                    pid: Some(9),
                    kind: Some(KafkaKind::Embedded),
                },
            },
        };
        assert_eq!(
            serde_json::to_value(&status).unwrap(),
            json!({
                "port_base": 8080,
                "processes": [{
                    "name": "order", "replica": 0, "pid": 7, "state": "ready",
                    "api": "127.0.0.1:8080", "admin": "127.0.0.1:9080"
                }],
                "stores": {
                    "postgres": {"url": "postgres://postgres@127.0.0.1:15432", "pid": 8},
                    "redis": {"url": null, "pid": null},
                    "kafka": {"bootstrap": "127.0.0.1:19092", "pid": 9, "kind": "embedded"}
                }
            })
        );
    }
}
