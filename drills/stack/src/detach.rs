//! `up --detach`: starts the supervisor in a session of its own, shows what it says until everything is ready or it
//! has failed, and leaves it alone.

use std::{
    env,
    fs::{self, File},
    io::{Read, Write, stderr, stdout},
    process::{ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::process::{Signal as Kill, setsid};
use tokio::{
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use crate::{
    args::Up,
    identity::Identity,
    layout::{Checkout, Layout},
    process::describe,
    say::say,
    state::{Lock, Phase, State},
    supervise, welcome,
};

/// The name of the supervisor's log.
pub const SUPERVISOR: &str = "supervisor";

/// The exit code is a failure where the supervisor has said itself why it ended.
pub async fn run(checkout: &Checkout, up: &Up) -> Result<ExitCode> {
    let layout = checkout.layout(up.port_base);
    fs::create_dir_all(layout.logs()).with_context(|| format!("cannot write to {}", layout.dir.display()))?;
    // Before the log of the one that runs is cut off. The lock itself is the supervisor's to hold.
    if Lock::take(&layout)?.is_none() {
        return Err(supervise::already_runs(&layout));
    }
    let path = layout.log(SUPERVISOR, None);
    let log = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut said =
        Said { log: File::open(&path).with_context(|| format!("cannot read {}", path.display()))?, error: false };
    let mut supervisor = Command::new(env::current_exe().context("cannot find this program")?)
        .args(up.background_args())
        .env("DEV_CHECKOUT", checkout.root())
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("cannot share the log")?)
        .stderr(log)
        .spawn()
        .context("cannot start the supervisor")?;
    if !watch(&layout, &mut supervisor, &mut said).await? {
        return Ok(ExitCode::FAILURE);
    }
    welcome::first_order(&layout, up).await?;
    say!("\n./dev down stops everything.");
    Ok(ExitCode::SUCCESS)
}

/// In the supervisor: away from the terminal, so that neither Ctrl-C nor its closing reaches it.
pub fn leave_terminal() -> Result<()> {
    setsid().context("cannot leave the terminal").map(|_| ())
}

/// Whether the system is ready. False where it is not and the supervisor has said why.
async fn watch(layout: &Layout, supervisor: &mut Child, said: &mut Said) -> Result<bool> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let identity = supervisor.id().and_then(Identity::of).context("the supervisor has no pid")?;
    loop {
        let ready = is_ready(layout, identity);
        let ended = supervisor.try_wait().context("cannot wait for the supervisor")?;
        // Looked at before the copy, so that the copy holds all that was said until then.
        said.pass_on()?;
        match ended {
            Some(_) if said.error => return Ok(false),
            Some(status) => bail!("the supervisor ended without a word ({})", describe(status)),
            None if ready => return Ok(true),
            None => {}
        }
        tokio::select! {
            () = sleep(Duration::from_millis(30)) => {}
            _ = interrupt.recv() => identity.signal(Kill::TERM),
            _ = terminate.recv() => identity.signal(Kill::TERM),
        }
    }
}

fn is_ready(layout: &Layout, supervisor: Identity) -> bool {
    // Unreadable is not ready; the next look may find it whole.
    State::read(layout).ok().flatten().is_some_and(|s| s.supervisor == supervisor && s.phase == Phase::Ready)
}

/// What the supervisor writes to its log.
struct Said {
    log: File,
    /// Everything from its error on belongs on stderr.
    error: bool,
}

impl Said {
    fn pass_on(&mut self) -> Result<()> {
        let mut fresh = Vec::new();
        self.log.read_to_end(&mut fresh).context("cannot read the supervisor's log")?;
        for line in fresh.split_inclusive(|&byte| byte == b'\n') {
            self.error |= line.starts_with(b"error: ");
            // Nobody may be reading any more; the system starts all the same.
            let _ = if self.error { stderr().write_all(line) } else { stdout().write_all(line) };
        }
        let _ = stdout().flush();
        Ok(())
    }
}
