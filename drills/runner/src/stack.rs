//! The system under drill: started, asked and stopped through the program behind `./dev`, on ports of its own.

use std::{
    env, fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use anyhow::{Context, Result, bail};
use contracts::Service;
use serde_json::Value;
use tokio::process::Command;

use crate::{scenario::Scenario, verdict::Oracle};

#[derive(Debug, Clone)]
pub struct Stack {
    program: PathBuf,
    /// Where the running system keeps its files.
    files: PathBuf,
    pub base: u16,
}

/// Far from the default and from each other, and below the range from which connections get their ports.
const BASES: [u16; 5] = [21_580, 17_580, 13_580, 19_580, 15_580];

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

/// A port base that nobody uses: a look at a port of each kind, since `up` looks at all of them.
pub fn free_base() -> Result<u16> {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let all_free = |base: &u16| [0, 6, 394, 420, 1000, 7352].into_iter().all(|offset| free(base + offset));
    BASES.into_iter().find(all_free).context("no free port base for a drill; --port-base chooses one")
}

impl Stack {
    /// The program lies beside this one, or in the folder that `DEV_BIN_DIR` names.
    pub fn at(base: u16) -> Result<Self> {
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
        let files = folder()?.with_file_name(base.to_string());
        Ok(Self { program, files, base })
    }

    /// One that starts nothing, for what is running already.
    #[cfg(test)]
    pub(crate) fn nowhere(base: u16) -> Self {
        Self { program: PathBuf::new(), files: PathBuf::new(), base }
    }

    /// A fresh system as the scenario wants it. Returns when everything is ready.
    pub async fn up(&self, scenario: &Scenario, folder: &Path) -> Result<()> {
        self.down().await?;
        let mut command = self.command(&["up", "--detach"]);
        for (service, count) in &scenario.stack.replicas {
            command.arg(format!("--replicas={service}={count}"));
        }
        if !scenario.stack.redis {
            command.arg("--no-redis");
        }
        let file = rules_file(folder, &scenario.id);
        write_rules(&file, &scenario.stack.rules)?;
        command.env("RULES_FILE", file);
        said(command.output().await.context("cannot run the stack")?).context("the system did not start").map(drop)
    }

    /// Stops it and forgets its data. Nothing to stop is as good.
    pub async fn down(&self) -> Result<()> {
        let output = self.command(&["down", "--wipe"]).output().await.context("cannot run the stack")?;
        said(output).context("the system did not stop").map(drop)
    }

    pub async fn status(&self) -> Result<Value> {
        let output = self.command(&["status", "--json"]).output().await.context("cannot run the stack")?;
        Ok(serde_json::from_slice(&said(output)?)?)
    }

    /// `payment`, `order:1`, `redis`.
    pub async fn restart(&self, name: &str) -> Result<()> {
        let output = self.command(&["restart", name]).output().await.context("cannot run the stack")?;
        said(output).with_context(|| format!("{name} did not start again")).map(drop)
    }

    /// The same with a crash point armed: it may die before it is ready, which is no mistake.
    pub async fn arm(&self, name: &str, point: &str) -> Result<()> {
        let mut command = self.command(&["restart", name]);
        command.arg(format!("--env=CRASH_AT={point}"));
        command.output().await.context("cannot run the stack").map(drop)
    }

    /// The log of one process, from the start of the system.
    #[must_use]
    pub fn log_of(&self, name: &str, replica: u64) -> PathBuf {
        self.files.join("logs").join(format!("{name}-{replica}.log"))
    }

    /// What the oracle says of what is left when nothing moves any more. `None` where there is no oracle to ask.
    pub async fn oracle(&self, answers: &Path) -> Result<Option<Oracle>> {
        let mut command = self.command(&["oracle", "--json"]);
        let output =
            command.arg(format!("--answers={}", answers.display())).output().await.context("cannot run the oracle")?;
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

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).arg(format!("--port-base={}", self.base)).stdin(Stdio::null());
        // Ctrl-C is for the runner, which then puts things back in order.
        command.process_group(0);
        command
    }
}

/// Where the rules of a drill's system are: it follows what is written there.
#[must_use]
pub fn rules_file(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.rules.toml"))
}

/// In one step: nobody reads half of it.
pub fn write_rules(file: &Path, rules: &toml::Table) -> Result<()> {
    let text = toml::to_string(rules).context("cannot write the rules")?;
    let fresh = file.with_extension("new");
    let written = fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, file));
    written.with_context(|| format!("cannot write {}", file.display()))
}

/// What was printed, or what was complained of.
fn said(output: Output) -> Result<Vec<u8>> {
    if output.status.success() {
        return Ok(output.stdout);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    bail!("{}", complaint.trim().trim_start_matches("error: "))
}
