//! One process of the system: how to start it, how to know that it is ready, how to stop it.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::{process::Command, sync::watch, time::timeout};

use crate::{account::Account, identity::Identity, probe::Probe};

/// What rests on what: started in this order, stopped in the reverse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Database,
    Store,
    Provider,
    Service,
    /// The one that clients talk to: it stops before the others, so that what it has begun can still finish below.
    Edge,
    /// In front of that one, where there is a gateway.
    Gateway,
}

impl Stage {
    pub const STOP_ORDER: [Self; 6] =
        [Self::Gateway, Self::Edge, Self::Service, Self::Provider, Self::Store, Self::Database];

    /// PostgreSQL waits for its clients on SIGTERM; SIGINT is its orderly stop without them.
    pub const fn stop_signal(self) -> Signal {
        match self {
            Self::Database => Signal::INT,
            _ => Signal::TERM,
        }
    }

    /// How long after the signal comes SIGKILL. Services bound their own shutdown by 10 s.
    pub const fn patience(self) -> Duration {
        match self {
            Self::Edge | Self::Service => Duration::from_secs(12),
            Self::Database => Duration::from_secs(15),
            Self::Gateway | Self::Provider | Self::Store => Duration::from_secs(3),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Spec {
    pub name: String,
    pub replica: u16,
    pub stage: Stage,
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub env: Vec<(&'static str, String)>,
    /// Settings of one life, over all others.
    pub extra: Vec<(String, String)>,
    pub account: Account,
    /// Its stdin stays open while it is supervised, and closes when the supervisor dies.
    pub hold_stdin: bool,
    pub log: PathBuf,
    pub ready: Probe,
    pub patience: Duration,
    pub api: Option<u16>,
    pub admin: Option<u16>,
}

impl Spec {
    /// `order:1` for services, which may have several; the bare name for all others.
    pub fn label(&self) -> String {
        label(&self.name, self.replica, self.stage)
    }
}

pub fn label(name: &str, replica: u16, stage: Stage) -> String {
    match stage {
        Stage::Service | Stage::Edge => format!("{name}:{replica}"),
        Stage::Database | Stage::Store | Stage::Provider | Stage::Gateway => name.to_owned(),
    }
}

/// A life of a process.
#[derive(Debug, Clone)]
pub struct Running {
    pub identity: Identity,
    exit: watch::Receiver<Option<ExitStatus>>,
}

impl Running {
    pub fn exit_status(&self) -> Option<ExitStatus> {
        *self.exit.borrow()
    }

    pub async fn exited(&self) -> Option<ExitStatus> {
        let mut exit = self.exit.clone();
        exit.wait_for(Option::is_some).await.ok().and_then(|status| *status)
    }

    /// Signal, bounded wait, SIGKILL. Returns whether SIGKILL was needed.
    pub async fn stop(&self, signal: Signal, patience: Duration) -> bool {
        self.identity.signal(signal);
        if timeout(patience, self.exited()).await.is_ok() {
            return signal == Signal::KILL;
        }
        self.identity.signal(Signal::KILL);
        // Nothing survives SIGKILL but a process stuck in the kernel; that one is reported by `down`.
        let _ = timeout(Duration::from_secs(5), self.exited()).await;
        true
    }
}

/// Starts the process; `on_exit` is called with its end, once.
pub fn spawn(spec: &Spec, on_exit: impl FnOnce(ExitStatus) + Send + 'static) -> Result<Running> {
    let log = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&spec.log)
        .with_context(|| format!("cannot write {}", spec.log.display()))?;
    let mut command = Command::new(&spec.program);
    command.args(&spec.args).envs(spec.env.iter().map(|(name, value)| (name, value)));
    command.envs(spec.extra.iter().map(|(name, value)| (name, value)));
    spec.account.apply(&mut command);
    let mut child = command
        .stdin(if spec.hold_stdin { Stdio::piped() } else { Stdio::null() })
        .stdout(log.try_clone().context("cannot share the log")?)
        .stderr(log)
        // Ctrl-C on the terminal is for the supervisor, which then stops the others in order.
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {} ({})", spec.label(), spec.program.display()))?;
    let identity = child.id().and_then(Identity::of).with_context(|| format!("{} has no pid", spec.label()))?;

    let (ended, exit) = watch::channel(None);
    let stdin = child.stdin.take();
    tokio::spawn(async move {
        if let Ok(status) = child.wait().await {
            ended.send_replace(Some(status));
            on_exit(status);
        }
        drop(stdin);
    });
    Ok(Running { identity, exit })
}

/// The last lines of a log, indented, for an error message.
pub fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return format!("  {} is empty", log.display());
    }
    let mut out = format!("  last lines of {}:", log.display());
    for line in &lines[lines.len().saturating_sub(12)..] {
        out.push_str("\n  | ");
        out.push_str(line);
    }
    out
}

/// `exit code 3`, `signal 9`.
pub fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
