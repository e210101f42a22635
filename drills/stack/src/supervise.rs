//! `up` in the foreground, and the half of `up --detach` that stays: starts everything, watches it, stops it.

use std::{fs, path::Path, process, sync::Arc, time::Duration};

use anyhow::{Context, Result, anyhow, bail};
use futures_util::future::try_join_all;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    time::{Instant, sleep},
};

use crate::{
    args::{Kafka, Up},
    control,
    identity::Identity,
    kafka,
    layout::{Checkout, Layout},
    leftovers, ports, postgres,
    process::{Spec, tail},
    roster::{Death, Roster},
    say::say,
    state::{KafkaKind, Lock, Phase, State},
    system::System,
    welcome,
};

/// Below this `initdb` or the first minutes of work would run into the end of the disk.
const LEAST_FREE_MIB: u64 = 256;

pub async fn run(checkout: &Checkout, up: &Up) -> Result<()> {
    let layout = checkout.layout(up.port_base);
    let mut signals = Signals::install()?;
    prepare_folder(&layout)?;
    let Some(_lock) = Lock::take(&layout)? else { return Err(already_runs(&layout)) };
    if let Some(earlier) = State::read(&layout)? {
        leftovers::clear(checkout, &layout, &earlier).await?;
    }
    let system = System::plan(checkout, &layout, up).await?;
    ports::require_free(&system.ports())?;
    if let Kafka::External(bootstrap) = &up.kafka {
        kafka::require_reachable(bootstrap).await?;
    }
    forget_old_logs(&layout);

    let supervisor = Identity::of(process::id()).context("cannot read /proc")?;
    let state = State {
        port_base: layout.base,
        supervisor,
        phase: Phase::Starting,
        stores: system.stores.clone(),
        processes: Vec::new(),
    };
    let (roster, mut deaths) = Roster::new(layout.clone(), state)?;
    let ended = serve(checkout, &system, up, &roster, &mut deaths, &mut signals).await;
    if ended.is_ok() {
        say!("stopping");
    }
    stop(&roster, &mut signals).await;
    let removed = match system.stores.kafka_kind {
        KafkaKind::Docker => kafka::docker_down(checkout.root()).await,
        KafkaKind::Embedded | KafkaKind::External => Ok(()),
    };
    control::forget(&layout);
    State::remove(&layout);
    ended.and(removed)
}

/// Until a signal asks for the end, or the start fails.
async fn serve(
    checkout: &Checkout,
    system: &System,
    up: &Up,
    roster: &Arc<Roster>,
    deaths: &mut mpsc::UnboundedReceiver<Death>,
    signals: &mut Signals,
) -> Result<()> {
    let layout = &system.layout;
    let starting = start(checkout, system, roster);
    tokio::pin!(starting);
    let console = system.console.as_ref().map(Spec::label);
    loop {
        tokio::select! {
            biased;
            started = &mut starting => break started?,
            Some(death) = deaths.recv() => {
                // Nothing rests on it, and its own start tells.
                if console.as_ref() == Some(&death.label) {
                    continue;
                }
                let log = layout.logs().join(format!("{}.log", death.label.replace(':', "-")));
                return Err(anyhow!("{} died while the system was starting ({})\n{}", death.label, death.how, tail(&log)));
            }
            () = signals.asked() => bail!("interrupted while starting; nothing is left running"),
        }
    }
    let control = control::listen(layout, roster.clone())?;
    welcome::table(system, up);
    if !up.background {
        welcome::first_order(layout, up).await?;
        say!("\nCtrl-C stops everything.");
    }
    roster.set_phase(Phase::Ready)?;

    let mut lives = Lives::default();
    loop {
        tokio::select! {
            () = signals.asked() => break,
            Some(death) = deaths.recv() => {
                if up.keep {
                    let pause = lives.pause_for(&death.label);
                    say!("{} died by itself ({}); it is started again in {} s", death.label, death.how, pause.as_secs());
                    tokio::spawn(revive(roster.clone(), death.label, pause));
                } else {
                    say!("{0} died by itself ({1}); ./dev restart {0} starts it again", death.label, death.how);
                }
            }
        }
    }
    control.abort();
    Ok(())
}

/// What does not rest on each other starts at once.
async fn start(checkout: &Checkout, system: &System, roster: &Arc<Roster>) -> Result<()> {
    let begun = Instant::now();
    let started = async |spec: &Spec| {
        roster.start(spec.clone()).await?;
        say!("{:<18} ready after {:.1} s", spec.label(), begun.elapsed().as_secs_f32());
        Ok::<_, anyhow::Error>(())
    };
    let database = async {
        if !system.database.data.exists() {
            say!("postgres           making a data folder");
        }
        system.database.make().await?;
        started(&system.database.spec(&system.database_settings)).await?;
        postgres::create_databases(&system.database.url()).await
    };
    let others = [&system.redis, &system.broker, &system.links].into_iter().flatten().chain(&system.providers);
    let others = others.map(&started);
    let docker = async {
        if system.stores.kafka_kind == KafkaKind::Docker {
            say!("kafka              starting the compose file's");
            kafka::docker_up(checkout.root()).await?;
        }
        Ok(())
    };
    tokio::try_join!(database, try_join_all(others), docker)?;
    // First to start and last to be waited for: nothing rests on it, and what it knows is good to have from the start.
    let console = async {
        match &system.console {
            None => {}
            Some(spec) => {
                if let Err(error) = started(spec).await {
                    say!("{:<18} does not run, and the rest does without it: {error:#}", spec.label());
                }
            }
        }
        Ok(())
    };
    tokio::try_join!(console, try_join_all(system.services.iter().chain(&system.gateway).map(&started)))?;
    Ok(())
}

/// In order; a second signal ends it at once.
async fn stop(roster: &Roster, signals: &mut Signals) {
    let stopping = roster.stop_all();
    tokio::pin!(stopping);
    tokio::select! {
        () = &mut stopping => {}
        () = signals.asked() => {
            say!("killing what still runs");
            roster.kill_all();
            stopping.await;
        }
    }
}

async fn revive(roster: Arc<Roster>, label: String, pause: Duration) {
    sleep(pause).await;
    // If it dies again, that is a death of its own.
    match roster.revive(&label).await {
        Ok(()) => say!("{label} runs again"),
        Err(e) => say!("{label} did not come back: {e:#}"),
    }
}

/// A process that dies at every start must not keep the machine busy: 1, 2, 4 … 32 s.
#[derive(Default)]
struct Lives {
    deaths: std::collections::HashMap<String, (u32, Option<Instant>)>,
}

impl Lives {
    fn pause_for(&mut self, label: &str) -> Duration {
        let now = Instant::now();
        let (count, last) = self.deaths.entry(label.to_owned()).or_default();
        let long_ago = last.is_none_or(|last| now.duration_since(last) > Duration::from_secs(120));
        *count = if long_ago { 0 } else { (*count + 1).min(5) };
        *last = Some(now);
        Duration::from_secs(1 << *count)
    }
}

fn prepare_folder(layout: &Layout) -> Result<()> {
    let cannot = || format!("cannot write to {}", layout.dir.display());
    fs::create_dir_all(layout.logs()).with_context(cannot)?;
    let probe = layout.dir.join("probe");
    fs::write(&probe, [0; 4096]).with_context(cannot)?;
    fs::remove_file(&probe).with_context(cannot)?;
    let free = free_mib(&layout.dir)?;
    if free < LEAST_FREE_MIB {
        bail!("only {free} MiB are free below {}, {LEAST_FREE_MIB} are needed", layout.dir.display());
    }
    Ok(())
}

fn free_mib(dir: &Path) -> Result<u64> {
    let disk = rustix::fs::statvfs(dir).with_context(|| format!("cannot look at {}", dir.display()))?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize) >> 20)
}

pub fn already_runs(layout: &Layout) -> anyhow::Error {
    let pid =
        State::read(layout).ok().flatten().map_or_else(String::new, |s| format!(" (process {})", s.supervisor.pid));
    anyhow!("a system runs here already on port base {}{pid}; ./dev down stops it", layout.base)
}

/// Each run has its own logs. The supervisor's own is being written already.
fn forget_old_logs(layout: &Layout) {
    let Ok(entries) = fs::read_dir(layout.logs()) else { return };
    let own = layout.log(crate::detach::SUPERVISOR, None);
    for file in entries.flatten().map(|e| e.path()).filter(|file| *file != own) {
        // One that cannot be removed is appended to.
        let _ = fs::remove_file(file);
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn install() -> Result<Self> {
        let on = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hangup: on(SignalKind::hangup())?,
        })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
