//! The system under drill: started, asked, broken and stopped by one of two means, the local one or Compose. What
//! listens where is the same for both.

mod command;
mod compose;
#[cfg(test)]
mod compose_file;
mod docker;
mod image;
mod local;

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use contracts::{Service, service::DEFAULT_PORT_BASE};
use rustix::process::Pid;

pub use local::{free_base, named};

use self::{compose::Compose, local::Local};
use crate::{
    catalogue,
    scenario::{Scenario, StackSpec},
    verdict::Oracle,
};

#[derive(Debug, Clone)]
pub struct Stack {
    means: Means,
    pub base: u16,
}

#[derive(Debug, Clone)]
enum Means {
    Local(Local),
    Compose(Compose),
}

/// What stands still, and how it is woken.
#[derive(Debug)]
pub enum Paused {
    Process(Pid),
    Container,
}

/// The folder that drills write to: below the checkout that `./dev` names.
pub fn folder() -> Result<PathBuf> {
    let root = match env::var_os("DEV_CHECKOUT") {
        Some(root) => PathBuf::from(root),
        None => env::current_dir().context("cannot read the current folder")?,
    };
    let folder = root.join("target").join("dev").join("drills");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

impl Stack {
    /// Processes of this machine, on ports of their own.
    pub fn at(base: u16) -> Result<Self> {
        Ok(Self { means: Means::Local(Local::at(base)?), base })
    }

    /// Containers. Their ports are published where a system with the default port base has them.
    pub fn composed() -> Result<Self> {
        let checkout = std::path::absolute(catalogue::checkout()).context("cannot find the checkout")?;
        let compose = Compose { checkout, rules: folder()?.join("compose"), program: local::program()? };
        Ok(Self { means: Means::Compose(compose), base: DEFAULT_PORT_BASE })
    }

    /// One that starts nothing, for what is running already.
    #[cfg(test)]
    pub(crate) fn nowhere(base: u16) -> Self {
        Self { means: Means::Local(Local::nowhere(base)), base }
    }

    #[must_use]
    pub const fn is_composed(&self) -> bool {
        matches!(self.means, Means::Compose(_))
    }

    /// What keeps any drill from being run by these means; `Err` is a line for people.
    pub async fn check(&self) -> Result<()> {
        match &self.means {
            Means::Local(_) => Ok(()),
            Means::Compose(compose) => compose.check().await,
        }
    }

    /// What this drill asks for and these means do not have.
    #[must_use]
    pub fn lacks(&self, scenario: &Scenario) -> Option<String> {
        match &self.means {
            Means::Local(_) => None,
            Means::Compose(_) => compose::lacks(scenario),
        }
    }

    /// A fresh system as it is described, which follows [its rules](Self::rules_file). Returns when everything is ready.
    pub async fn up(&self, system: &StackSpec, rules_file: &Path) -> Result<()> {
        self.down().await?;
        if let Means::Compose(compose) = &self.means {
            compose.make_room()?;
        }
        write_rules(rules_file, &system.rules)?;
        let started = match &self.means {
            Means::Local(local) => local.up(system, rules_file).await,
            Means::Compose(compose) => compose.up().await,
        };
        started.context("the system did not start")
    }

    /// Stops it and forgets its data. Nothing to stop is as good.
    pub async fn down(&self) -> Result<()> {
        let stopped = match &self.means {
            Means::Local(local) => local.down().await,
            Means::Compose(compose) => compose.down().await,
        };
        stopped.context("the system did not stop")
    }

    /// What is not ready, each with what it is instead.
    pub async fn unready(&self) -> Result<Vec<String>> {
        match &self.means {
            Means::Local(local) => local.unready().await,
            Means::Compose(compose) => compose.unready().await,
        }
    }

    /// `payment`, `order:1`, `redis`: started again, whether or not it runs, and ready.
    pub async fn restart(&self, name: &str) -> Result<()> {
        let restarted = match &self.means {
            Means::Local(local) => local.restart(name).await,
            Means::Compose(compose) => compose.restart(name).await,
        };
        restarted.with_context(|| format!("{name} did not start again"))
    }

    /// With SIGKILL.
    pub async fn kill(&self, name: &str) -> Result<()> {
        let killed = match &self.means {
            Means::Local(local) => local.kill(name).await,
            Means::Compose(compose) => compose.kill(name).await,
        };
        killed.with_context(|| format!("cannot kill {name}"))
    }

    pub async fn pause(&self, name: &str) -> Result<Paused> {
        let paused = match &self.means {
            Means::Local(local) => local.pause(name).await.map(Paused::Process),
            Means::Compose(compose) => compose.pause(name).await.map(|()| Paused::Container),
        };
        paused.with_context(|| format!("cannot stop {name}"))
    }

    pub async fn wake(&self, name: &str, paused: &Paused) -> Result<()> {
        let woken = match (&self.means, paused) {
            (_, Paused::Process(pid)) => local::wake(*pid),
            (Means::Compose(compose), Paused::Container) => compose.wake(name).await,
            (Means::Local(_), Paused::Container) => bail!("{name} is no container"),
        };
        woken.with_context(|| format!("cannot wake {name}"))
    }

    /// Started again with a crash point armed: it may die before it is ready, which is no mistake.
    pub async fn arm(&self, name: &str, point: &str) -> Result<()> {
        self.local()?.arm(name, point).await
    }

    pub async fn has_ended(&self, name: &str, replica: u64) -> Result<bool> {
        self.local()?.has_ended(name, replica).await
    }

    /// The log of one process, from the start of the system.
    pub fn log_of(&self, name: &str, replica: u64) -> Result<PathBuf> {
        Ok(self.local()?.log_of(name, replica))
    }

    /// What the oracle says of what is left when nothing moves any more. `None` where there is no oracle to ask.
    pub async fn oracle(&self, answers: &Path) -> Result<Option<Oracle>> {
        let mut command = match &self.means {
            Means::Local(local) => local.command(&["oracle"]),
            Means::Compose(compose) => compose.oracle(),
        };
        command.arg("--json").arg(format!("--answers={}", answers.display()));
        let output = command.output().await.context("cannot run the oracle")?;
        let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        match output.status.code() {
            Some(code @ (0 | 1)) => match serde_json::from_slice(&output.stdout) {
                Ok(report) => Ok(Some(Oracle { clean: code == 0, report })),
                Err(_) => bail!("the oracle could not be understood: {complaint}"),
            },
            _ if complaint.contains("unknown command") => Ok(None),
            _ => bail!("the oracle could not look: {complaint}"),
        }
    }

    #[must_use]
    pub fn api(&self, service: Service, replica: u16) -> String {
        format!("http://127.0.0.1:{}", service.api_port(self.base, replica))
    }

    #[must_use]
    pub fn admin(&self, service: Service, replica: u16) -> String {
        format!("http://127.0.0.1:{}", service.admin_port(self.base, replica))
    }

    /// A channel of the payment provider.
    #[must_use]
    pub fn provider(&self, channel: &str) -> String {
        let offset = if channel == "backup" { 7 } else { 6 };
        format!("http://127.0.0.1:{}", self.base + offset)
    }

    #[must_use]
    pub fn links(&self) -> String {
        format!("http://127.0.0.1:{}", links::hops::admin_port(self.base))
    }

    /// Where the rules of a drill's system are: it follows what is written there.
    #[must_use]
    pub fn rules_file(&self, folder: &Path, id: &str) -> PathBuf {
        match &self.means {
            Means::Local(_) => folder.join(format!("{id}.rules.toml")),
            Means::Compose(compose) => compose.rules_file(),
        }
    }

    fn local(&self) -> Result<&Local> {
        match &self.means {
            Means::Local(local) => Ok(local),
            Means::Compose(_) => bail!("crash points are for processes of this machine"),
        }
    }
}

/// In one step: nobody reads half of it. Whoever runs the services may read it.
pub fn write_rules(file: &Path, rules: &toml::Table) -> Result<()> {
    let text = toml::to_string(rules).context("cannot write the rules")?;
    let fresh = file.with_extension("new");
    let written = fs::write(&fresh, text)
        .and_then(|()| fs::set_permissions(&fresh, fs::Permissions::from_mode(0o644)))
        .and_then(|()| fs::rename(&fresh, file));
    written.with_context(|| format!("cannot write {}", file.display()))
}
