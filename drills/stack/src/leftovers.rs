//! What a supervisor left behind that was killed: found by pid and start time, and stopped in order.

use std::time::Duration;

use anyhow::{Result, bail};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::{
    identity::Identity,
    kafka,
    layout::{Checkout, Layout},
    process::Stage,
    say::say,
    state::{KafkaKind, State},
};

/// Stops all that still runs of `state`, says what it was, and forgets the state.
pub async fn clear(checkout: &Checkout, layout: &Layout, state: &State) -> Result<()> {
    let names: Vec<String> =
        state.leftovers().map(|p| format!("{} (process {})", p.label(), pid(p.identity))).collect();
    if !names.is_empty() {
        say!("stopping what an earlier run left behind: {}", names.join(", "));
    }
    for stage in Stage::STOP_ORDER {
        let of_stage: Vec<Identity> =
            state.leftovers().filter(|p| p.stage == stage).filter_map(|p| p.identity).collect();
        stop(&of_stage, stage.stop_signal(), stage.patience()).await?;
    }
    if state.stores.kafka_kind == KafkaKind::Docker {
        kafka::docker_down(checkout.root()).await?;
    }
    State::remove(layout);
    Ok(())
}

async fn stop(processes: &[Identity], signal: Signal, patience: Duration) -> Result<()> {
    for process in processes {
        process.signal(signal);
    }
    if all_gone(processes, patience).await {
        return Ok(());
    }
    for process in processes {
        process.signal(Signal::KILL);
    }
    if all_gone(processes, Duration::from_secs(5)).await {
        return Ok(());
    }
    let left: Vec<String> = processes.iter().filter(|p| p.alive()).map(|p| p.pid.to_string()).collect();
    bail!("process {} does not end, even after SIGKILL", left.join(", "))
}

/// They are not our children, so there is nothing to wait on: look again and again.
pub async fn all_gone(processes: &[Identity], patience: Duration) -> bool {
    let begun = Instant::now();
    loop {
        if !processes.iter().any(|p| p.alive()) {
            return true;
        }
        if begun.elapsed() > patience {
            return false;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

fn pid(identity: Option<Identity>) -> String {
    identity.map_or_else(|| "-".to_owned(), |i| i.pid.to_string())
}
