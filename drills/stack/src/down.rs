//! `down`: stops the checkout's running system, and returns when its processes are gone and its ports free.

use std::{fs, io, time::Duration};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::{
    identity::Identity,
    layout::{Checkout, Layout},
    leftovers::{self, all_gone},
    ports,
    process::Stage,
    say::say,
    state::{Lock, State, the_system},
};

pub async fn run(checkout: &Checkout, port_base: Option<u16>, wipe: bool) -> Result<()> {
    match the_system(checkout, port_base)? {
        Some((layout, state)) => {
            stop(checkout, &layout, &state).await?;
            say!("stopped; port base {}", layout.base);
            if wipe { remove(&layout) } else { Ok(()) }
        }
        None => {
            say!("nothing is running");
            if wipe { wipe_stopped(checkout, port_base) } else { Ok(()) }
        }
    }
}

async fn stop(checkout: &Checkout, layout: &Layout, state: &State) -> Result<()> {
    if state.supervised() {
        state.supervisor.signal(Signal::TERM);
        if !all_gone(&[state.supervisor], stop_patience()).await {
            say!("the supervisor does not end in time and is killed");
            state.supervisor.signal(Signal::KILL);
            all_gone(&[state.supervisor], Duration::from_secs(5)).await;
        }
    }
    // Read again: a restart may have changed a pid since. None means that it ended in order.
    if let Some(left) = State::read(layout)? {
        leftovers::clear(checkout, layout, &left).await?;
    }
    let processes: Vec<Identity> = state.processes.iter().filter_map(|p| p.identity).collect();
    if !all_gone(&processes, Duration::from_secs(5)).await {
        bail!("processes are still running: see ./dev status");
    }
    ports_free(state).await
}

/// All stages one after the other, and a little more.
fn stop_patience() -> Duration {
    Stage::STOP_ORDER.iter().map(|stage| stage.patience()).sum::<Duration>() + Duration::from_secs(10)
}

async fn ports_free(state: &State) -> Result<()> {
    let addresses = state.processes.iter().flat_map(|p| [&p.api, &p.admin]).flatten();
    let ports: Vec<u16> = addresses.filter_map(|a| a.rsplit_once(':')?.1.parse().ok()).collect();
    let begun = Instant::now();
    loop {
        let Some(taken) = ports.iter().find(|&&port| !ports::is_free(port)) else { return Ok(()) };
        if begun.elapsed() > Duration::from_secs(5) {
            bail!("everything was stopped, but something listens on port {taken}");
        }
        sleep(Duration::from_millis(50)).await;
    }
}

fn wipe_stopped(checkout: &Checkout, port_base: Option<u16>) -> Result<()> {
    let bases = port_base.map_or_else(|| checkout.bases(), |base| vec![base]);
    for base in bases {
        let layout = checkout.layout(base);
        if layout.dir.exists() {
            remove(&layout)?;
        }
    }
    Ok(())
}

fn remove(layout: &Layout) -> Result<()> {
    if Lock::take(layout)?.is_none() {
        bail!("a system is starting on port base {}", layout.base);
    }
    match fs::remove_dir_all(&layout.dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("cannot remove {}", layout.dir.display()))
        }
        _ => {
            say!("removed {}", layout.dir.display());
            Ok(())
        }
    }
}
