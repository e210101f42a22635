//! Runs a command with a PostgreSQL and a Redis of its own, on free ports, and stops both however it ends.
//!
//! For tests: nothing in these stores outlives the command, so PostgreSQL does not wait for the disk.

use std::{
    ffi::OsString,
    fs, io,
    net::TcpListener,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{self, ExitCode, ExitStatus},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, kill_process_group};
use tokio::{
    process::Command,
    signal::unix::{Signal, SignalKind, signal},
    time::timeout,
};

use crate::{
    identity::Identity,
    layout::{Checkout, Layout},
    leftovers,
    postgres::{self, Cluster},
    redis,
    roster::Roster,
    state::{KafkaKind, Lock, Phase, State, Stores},
};

pub async fn run(checkout: &Checkout, dir: &Path, command: &[OsString]) -> Result<ExitCode> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    // The ports are not a base's, but the files are a system's.
    let layout = Layout { base: 0, dir: std::path::absolute(dir)? };
    fs::create_dir_all(layout.logs()).with_context(|| format!("cannot write to {}", layout.dir.display()))?;
    let Some(_lock) = Lock::take(&layout)? else {
        bail!("another run uses {}", layout.dir.display());
    };
    if let Some(earlier) = State::read(&layout)? {
        leftovers::clear(checkout, &layout, &earlier).await?;
    }
    remove_data(&layout)?;

    let (postgres_port, redis_port) = two_free_ports()?;
    let stores = Stores {
        postgres_url: postgres::url(postgres_port),
        redis_url: Some(redis::url(redis_port)),
        kafka_bootstrap: String::new(),
        kafka_kind: KafkaKind::External,
    };
    let supervisor = Identity::of(process::id()).context("cannot read /proc")?;
    let state = State { port_base: 0, supervisor, phase: Phase::Starting, stores, processes: Vec::new() };
    let (roster, _deaths) = Roster::new(layout.clone(), state)?;

    let work = async {
        let database = Cluster::plan(layout.postgres_data(), postgres_port, layout.log(postgres::NAME, None)).await?;
        database.make().await?;
        let settings = [
            ("max_connections", "400".to_owned()),
            ("fsync", "off".to_owned()),
            ("full_page_writes", "off".to_owned()),
        ];
        roster.start(database.spec(&settings)).await?;
        let redis = redis::spec(layout.dir.clone(), redis_port, layout.log(redis::NAME, None))
            .context("redis-server is not installed")?;
        roster.start(redis).await?;
        roster.set_phase(Phase::Ready)?;
        Ok::<_, anyhow::Error>([
            ("TEST_DATABASE_URL", format!("{}/postgres", database.url())),
            ("TEST_REDIS_URL", redis::url(redis_port)),
        ])
    };
    let ended = tokio::select! {
        stores = work => match stores {
            Ok(env) => run_command(command, env, &mut interrupt, &mut terminate).await,
            Err(e) => Err(e),
        },
        _ = interrupt.recv() => Err(anyhow!("interrupted")),
        _ = terminate.recv() => Err(anyhow!("interrupted")),
    };
    roster.stop_all().await;
    State::remove(&layout);
    remove_data(&layout)?;
    let status = ended?;
    // As a shell says it: 128 and the signal.
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// In a process group of its own, so that a signal reaches all that it has started, and it is given time to tidy up.
async fn run_command(
    command: &[OsString],
    env: [(&str, String); 2],
    interrupt: &mut Signal,
    terminate: &mut Signal,
) -> Result<ExitStatus> {
    let (program, args) = command.split_first().context("no command")?;
    let cannot = || format!("cannot run {}", program.display());
    let mut child = Command::new(program).args(args).envs(env).process_group(0).spawn().with_context(cannot)?;
    let group = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)).with_context(cannot)?;
    tokio::select! {
        status = child.wait() => return status.with_context(cannot),
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    // It may have ended by itself just now, which is what is wanted.
    let _ = kill_process_group(group, rustix::process::Signal::TERM);
    if timeout(Duration::from_secs(15), child.wait()).await.is_err() {
        let _ = kill_process_group(group, rustix::process::Signal::KILL);
        child.wait().await.with_context(cannot)?;
    }
    bail!("interrupted")
}

fn remove_data(layout: &Layout) -> Result<()> {
    let data: PathBuf = layout.postgres_data();
    match fs::remove_dir_all(&data) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("cannot remove {}", data.display()))
        }
        _ => Ok(()),
    }
}

/// Held together, so that they differ.
fn two_free_ports() -> Result<(u16, u16)> {
    let free = || TcpListener::bind("127.0.0.1:0").context("no free port");
    let (first, second) = (free()?, free()?);
    Ok((first.local_addr()?.port(), second.local_addr()?.port()))
}
