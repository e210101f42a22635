//! Kafka, in one of three ways: the embedded broker of ours, one that runs already, or the compose file's.

use std::{net::ToSocketAddrs, path::Path, process::Stdio, time::Duration};

use anyhow::{Context, Result, bail};
use tokio::{net::TcpStream, process::Command, time::timeout};

use crate::{
    account::Account,
    layout::{Layout, our_program},
    probe::Probe,
    process::{Spec, Stage},
};

pub const NAME: &str = "broker";

/// The compose file's broker calls itself by this address, so it cannot follow the port base.
pub const DOCKER_PORT: u16 = 19_092;

/// The embedded broker. It ends when its stdin closes, so it cannot outlive the supervisor. It sends its clients to the
/// port that it advertises, if it does.
pub fn embedded(layout: &Layout, advertise: Option<u16>) -> Result<Spec> {
    let port = layout.kafka_port();
    let mut args = vec!["--listen".into(), format!("127.0.0.1:{port}").into()];
    args.extend(advertise.map(|port| format!("--advertise={port}").into()));
    Ok(Spec {
        name: NAME.to_owned(),
        replica: 0,
        stage: Stage::Store,
        program: our_program(NAME)?,
        args,
        env: Vec::new(),
        extra: Vec::new(),
        account: Account::Same,
        hold_stdin: true,
        log: layout.log(NAME, None),
        ready: Probe::Listens(port),
        patience: Duration::from_secs(20),
        api: None,
        admin: None,
    })
}

/// A wrong address is better said now than found in the logs of five services.
pub async fn require_reachable(bootstrap: &str) -> Result<()> {
    let addresses: Vec<_> =
        bootstrap.to_socket_addrs().with_context(|| format!("cannot resolve {bootstrap}"))?.collect();
    match timeout(Duration::from_secs(3), TcpStream::connect(&addresses[..])).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(e)) => Err(e).with_context(|| format!("no Kafka at {bootstrap}")),
        Err(_) => bail!("no Kafka at {bootstrap}: no answer within 3 s"),
    }
}

/// Starts the compose file's broker, in a project of its own. The services make their topics.
pub async fn docker_up(root: &Path) -> Result<()> {
    compose(root, &["up", "--detach", "--wait", "kafka"]).await
}

pub async fn docker_down(root: &Path) -> Result<()> {
    compose(root, &["down", "--volumes"]).await
}

async fn compose(root: &Path, command: &[&str]) -> Result<()> {
    let files = ["-f", "docker-compose.yml", "-f", "deploy/compose.host-kafka.yml", "-p", "dev-kafka"];
    let done = Command::new("docker")
        .arg("compose")
        .args(files)
        .args(command)
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .await
        .context("cannot run docker")?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        bail!(
            "docker compose {} failed: {}",
            command.join(" "),
            said.trim().lines().last().unwrap_or("no reason given")
        );
    }
    Ok(())
}
