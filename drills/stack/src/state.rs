//! What is running, on disk: so that `down`, `status` and the next `up` find it, whatever became of the supervisor.
//!
//! Written whole to a second file and renamed, after every change: a reader never sees half of it, and a supervisor
//! that is killed leaves the pids of everything that it had started.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{
    identity::Identity,
    layout::{Checkout, Layout},
    process::{Stage, label},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Starting,
    Ready,
    Stopping,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct State {
    pub port_base: u16,
    pub supervisor: Identity,
    pub phase: Phase,
    pub stores: Stores,
    pub processes: Vec<Recorded>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Stores {
    pub postgres_url: String,
    /// None where the system runs without Redis.
    pub redis_url: Option<String>,
    pub kafka_bootstrap: String,
    pub kafka_kind: KafkaKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KafkaKind {
    Embedded,
    External,
    Docker,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recorded {
    pub name: String,
    pub replica: u16,
    pub stage: Stage,
    /// None between two lives of the process.
    pub identity: Option<Identity>,
    /// How its last life ended, where that was not asked for.
    pub died: Option<String>,
    pub api: Option<String>,
    pub admin: Option<String>,
}

impl State {
    /// None where no system was started, or the last one ended in order.
    pub fn read(layout: &Layout) -> Result<Option<Self>> {
        let file = layout.state_file();
        match fs::read(&file) {
            Ok(text) => {
                let state = serde_json::from_slice(&text).with_context(|| {
                    format!("{} is unreadable: stop what runs by hand, then remove it", file.display())
                })?;
                Ok(Some(state))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    pub fn write(&self, layout: &Layout) -> Result<()> {
        let file = layout.state_file();
        let fresh = file.with_extension("new");
        let write = || -> io::Result<()> {
            let mut out = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
            serde_json::to_writer_pretty(&mut out, self)?;
            out.write_all(b"\n")?;
            fs::rename(&fresh, &file)
        };
        write().with_context(|| format!("cannot write {}", file.display()))
    }

    pub fn remove(layout: &Layout) {
        // Gone already is as good.
        let _ = fs::remove_file(layout.state_file());
    }

    /// Whether the supervisor lives; if not, what is left of the system is nobody's.
    pub fn supervised(&self) -> bool {
        self.supervisor.alive()
    }

    pub fn leftovers(&self) -> impl Iterator<Item = &Recorded> {
        self.processes.iter().filter(|p| p.identity.is_some_and(Identity::alive))
    }
}

impl Recorded {
    /// `order:1` for services, the bare name for all others.
    pub fn label(&self) -> String {
        label(&self.name, self.replica, self.stage)
    }
}

/// The systems of this checkout that run or left something behind.
pub fn systems(checkout: &Checkout) -> Result<Vec<(Layout, State)>> {
    let mut found = Vec::new();
    for base in checkout.bases() {
        let layout = checkout.layout(base);
        if let Some(state) = State::read(&layout)? {
            found.push((layout, state));
        }
    }
    Ok(found)
}

/// The one system that a command without `--port-base` means; None where there is none.
pub fn the_system(checkout: &Checkout, port_base: Option<u16>) -> Result<Option<(Layout, State)>> {
    if let Some(base) = port_base {
        let layout = checkout.layout(base);
        return Ok(State::read(&layout)?.map(|state| (layout, state)));
    }
    let mut systems = systems(checkout)?;
    if systems.len() > 1 {
        let bases: Vec<String> = systems.iter().map(|(layout, _)| layout.base.to_string()).collect();
        bail!("several systems run here: choose one with --port-base, of {}", bases.join(", "));
    }
    Ok(systems.pop())
}

/// Held by a supervisor for its life; the kernel lets go of it however that life ends.
pub struct Lock {
    _file: File,
}

impl Lock {
    /// None where another supervisor holds it.
    pub fn take(layout: &Layout) -> Result<Option<Self>> {
        let path = layout.lock_file();
        let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e).with_context(|| format!("cannot lock {}", path.display())),
        }
    }
}
