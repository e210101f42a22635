//! When is a process ready? Asked from outside, the way its users will meet it.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use sqlx::{Connection, PgConnection};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use crate::process::{Running, Spec, describe, tail};

const ASK_EVERY: Duration = Duration::from_millis(40);
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub enum Probe {
    /// 200 on `/readyz` of the admin port.
    Readyz(u16),
    Listens(u16),
    Redis(u16),
    Postgres(String),
}

impl Probe {
    /// Asks once.
    pub async fn ask(&self) -> Result<()> {
        match timeout(ANSWER_WITHIN, self.answer()).await {
            Ok(answer) => answer,
            Err(_) => bail!("no answer within {} s", ANSWER_WITHIN.as_secs()),
        }
    }

    async fn answer(&self) -> Result<()> {
        match self {
            Self::Readyz(port) => {
                let status =
                    reqwest::get(format!("http://127.0.0.1:{port}/readyz")).await.context("no answer")?.status();
                if status != 200 {
                    bail!("/readyz says {status}");
                }
            }
            Self::Listens(port) => {
                TcpStream::connect(("127.0.0.1", *port)).await?;
            }
            Self::Redis(port) => {
                let mut stream = TcpStream::connect(("127.0.0.1", *port)).await?;
                stream.write_all(b"PING\r\n").await?;
                let mut answer = [0; 5];
                stream.read_exact(&mut answer).await?;
                if &answer != b"+PONG" {
                    bail!("PING got {}", String::from_utf8_lossy(&answer));
                }
            }
            Self::Postgres(url) => PgConnection::connect(url).await?.close().await?,
        }
        Ok(())
    }
}

/// Waits until the process is ready, has ended, or its time is up.
pub async fn until_ready(spec: &Spec, running: &Running) -> Result<()> {
    let started = Instant::now();
    loop {
        if let Some(status) = running.exit_status() {
            bail!("{} ended while starting ({})\n{}", spec.label(), describe(status), tail(&spec.log));
        }
        let Err(answer) = spec.ready.ask().await else {
            // Another program on the same port may have answered for one that has just died of it.
            if running.exit_status().is_none() && running.identity.alive() {
                return Ok(());
            }
            sleep(ASK_EVERY).await;
            continue;
        };
        if started.elapsed() > spec.patience {
            let seconds = spec.patience.as_secs();
            bail!("{} was not ready within {seconds} s ({answer:#})\n{}", spec.label(), tail(&spec.log));
        }
        sleep(ASK_EVERY).await;
    }
}
