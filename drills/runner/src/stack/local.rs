//! Processes of this machine, through the program behind `./dev`, on ports of their own.

use std::{
    env,
    net::TcpListener,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::process::Command;

use super::{
    command::{apart, said},
    folder,
};
use crate::scenario::StackSpec;

#[derive(Debug, Clone)]
pub struct Local {
    program: PathBuf,
    /// Where the running system keeps its files.
    files: PathBuf,
    base: u16,
}

/// Far from the default and from each other, and below the range from which connections get their ports.
const BASES: [u16; 5] = [21_580, 17_580, 13_580, 19_580, 15_580];

/// A port base that nobody uses: a look at a port of each kind, since `up` looks at all of them.
pub fn free_base() -> Result<u16> {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let all_free = |base: &u16| [0, 6, 394, 420, 1000, 7352].into_iter().all(|offset| free(base + offset));
    BASES.into_iter().find(all_free).context("no free port base for a drill; --port-base chooses one")
}

/// The program lies beside this one, or in the folder that `DEV_BIN_DIR` names.
pub fn program() -> Result<PathBuf> {
    let dir = match env::var_os("DEV_BIN_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => {
            let own = env::current_exe().context("cannot find the folder of this program")?;
            own.parent().map(Path::to_path_buf).unwrap_or_default()
        }
    };
    let program = dir.join("stack");
    if !program.is_file() {
        bail!("{} is not built: run ./dev up", program.display());
    }
    Ok(program)
}

/// `order:1` is the second replica of order, `order` its first.
pub fn named(process: &str) -> Result<(&str, u64)> {
    let (name, replica) = process.split_once(':').unwrap_or((process, "0"));
    Ok((name, replica.parse().with_context(|| format!("{process} is no process"))?))
}

pub fn wake(pid: Pid) -> Result<()> {
    Ok(kill_process(pid, Signal::CONT)?)
}

impl Local {
    pub fn at(base: u16) -> Result<Self> {
        Ok(Self { program: program()?, files: folder()?.with_file_name(base.to_string()), base })
    }

    #[cfg(test)]
    pub fn nowhere(base: u16) -> Self {
        Self { program: PathBuf::new(), files: PathBuf::new(), base }
    }

    pub async fn up(&self, system: &StackSpec, rules: &Path) -> Result<()> {
        let mut command = self.command(&["up", "--detach"]);
        for (service, count) in &system.replicas {
            command.arg(format!("--replicas={service}={count}"));
        }
        if !system.redis {
            command.arg("--no-redis");
        }
        if !system.console {
            command.arg("--no-console");
        }
        command.env("RULES_FILE", rules);
        ask(command).await.map(drop)
    }

    pub async fn down(&self) -> Result<()> {
        ask(self.command(&["down", "--wipe"])).await.map(drop)
    }

    pub async fn unready(&self) -> Result<Vec<String>> {
        let status = self.status().await?;
        let unready = status["processes"].as_array().into_iter().flatten().filter(|p| p["state"] != "ready");
        Ok(unready.map(|p| format!("{} is {}", p["name"], p["state"])).collect())
    }

    pub async fn restart(&self, name: &str) -> Result<()> {
        ask(self.command(&["restart", name])).await.map(drop)
    }

    pub async fn kill(&self, name: &str) -> Result<()> {
        Ok(kill_process(self.pid(name).await?, Signal::KILL)?)
    }

    pub async fn pause(&self, name: &str) -> Result<Pid> {
        let pid = self.pid(name).await?;
        kill_process(pid, Signal::STOP)?;
        Ok(pid)
    }

    pub async fn arm(&self, name: &str, point: &str) -> Result<()> {
        let mut command = self.command(&["restart", name]);
        command.arg(format!("--env=CRASH_AT={point}"));
        command.output().await.context("cannot run the stack").map(drop)
    }

    pub async fn has_ended(&self, name: &str, replica: u64) -> Result<bool> {
        let status = self.status().await?;
        let mut processes = status["processes"].as_array().into_iter().flatten();
        Ok(processes.any(|p| p["name"] == name && p["replica"] == replica && p["state"] == "exited"))
    }

    pub fn log_of(&self, name: &str, replica: u64) -> PathBuf {
        self.files.join("logs").join(format!("{name}-{replica}.log"))
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = apart(&self.program);
        command.args(arguments).arg(format!("--port-base={}", self.base));
        command
    }

    async fn status(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&ask(self.command(&["status", "--json"])).await?)?)
    }

    async fn pid(&self, process: &str) -> Result<Pid> {
        let (name, replica) = named(process)?;
        let status = self.status().await?;
        let mut processes = status["processes"].as_array().into_iter().flatten();
        let found = processes.find(|p| p["name"] == name && p["replica"] == replica);
        let pid = found.map_or(&status["stores"][name]["pid"], |p| &p["pid"]).as_i64();
        let pid = pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        pid.with_context(|| format!("{process} does not run"))
    }
}

async fn ask(mut command: Command) -> Result<Vec<u8>> {
    said(command.output().await.context("cannot run the stack")?)
}
