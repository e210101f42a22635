//! The programs of Docker: how they are called, and what their answers mean.

use std::{io, path::Path, process::Output};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use tokio::process::Command;

use super::command::apart;

/// Beside whatever else runs of this checkout.
pub const PROJECT: &str = "order-system-drill";
/// The first is the one from whose folder all paths in both count.
const FILES: [&str; 2] = ["docker-compose.yml", "drills/compose.yml"];

/// What the compose files read of the environment. A drill's users are signed for with the well-known secrets, and its
/// oracle knows the well-known passwords: nobody else's may come in between.
pub const NOT_TAKEN_OVER: [&str; 17] = [
    "APP_ENV",
    "AUTH_JWT_SECRET",
    "INTERNAL_TOKENS",
    "ORDER_TOKEN",
    "INVENTORY_TOKEN",
    "PAYMENT_TOKEN",
    "COUPON_TOKEN",
    "RECOMMENDATION_TOKEN",
    "CONSOLE_TOKEN",
    "CONSOLE_OPERATORS",
    "WEBHOOK_SECRET",
    "WEBHOOK_SECRETS",
    "POSTGRES_PASSWORD",
    "SERVICE_DB_PASSWORD",
    "COMPOSE_FILE",
    "COMPOSE_PROJECT_NAME",
    "COMPOSE_PROFILES",
];

/// A command of Docker's own.
pub fn docker(arguments: &[&str]) -> Command {
    let mut command = apart(Path::new("docker"));
    command.args(arguments);
    command
}

/// A command on the drill's project.
pub fn compose(checkout: &Path, arguments: &[&str]) -> Command {
    // An `.env` beside the file is for the system that one runs by hand.
    let mut command = docker(&["compose", "--project-name", PROJECT, "--env-file", "/dev/null"]);
    for file in FILES {
        command.args(["--file", file]);
    }
    command.args(arguments).current_dir(checkout);
    for name in NOT_TAKEN_OVER {
        command.env_remove(name);
    }
    command
}

/// What it printed, or the line in which it says what is wrong. Who stops waiting stops the command.
pub async fn run(mut command: Command) -> Result<String> {
    let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn();
    let child = child.map_err(not_installed)?;
    let group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
    let output = child.wait_with_output().await.context("cannot run docker")?;
    group.ended();
    said(&output)
}

fn not_installed(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::NotFound {
        anyhow::anyhow!("docker is not installed; --compose needs a Docker engine and Compose v2")
    } else {
        anyhow::Error::from(error).context("cannot run docker")
    }
}

fn said(output: &Output) -> Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    // Before it stands how far everything else has come.
    let last = complaint.lines().map(str::trim).rfind(|line| !line.is_empty());
    bail!("{}", last.unwrap_or("docker gives no reason"))
}

/// The command and what it has started, as long as it is waited for.
struct Group(Option<Pid>);

impl Group {
    fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended by itself just now, which is what is wanted.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// A container, as `compose ps` tells of it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Container {
    pub service: String,
    state: String,
    #[serde(default)]
    health: String,
}

impl Container {
    pub fn is_ready(&self) -> bool {
        self.state == "running" && matches!(self.health.as_str(), "" | "healthy")
    }

    pub fn condition(&self) -> &str {
        if self.state == "running" && !self.health.is_empty() { &self.health } else { &self.state }
    }
}

/// Of the answer to `compose ps --format json`: a list, or from newer versions a line for each.
pub fn containers(text: &str) -> Result<Vec<Container>> {
    let read = if text.trim_start().starts_with('[') {
        serde_json::from_str(text)
    } else {
        text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str).collect()
    };
    read.context("docker says of its containers what cannot be understood")
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

    use super::*;

    #[test]
    fn a_command_is_for_the_drills_own_project_and_takes_over_no_secret() {
        let command = compose(Path::new("/checkout"), &["up", "--detach"]);
        let command = command.as_std();
        let arguments: Vec<_> = command.get_args().map(|argument| argument.to_str().unwrap()).collect();
        assert_eq!(
            arguments.join(" "),
            "compose --project-name order-system-drill --env-file /dev/null --file docker-compose.yml --file \
             drills/compose.yml up --detach"
        );
        assert_eq!(command.get_current_dir(), Some(Path::new("/checkout")));
        assert!(command.get_envs().any(|(name, value)| name == "AUTH_JWT_SECRET" && value.is_none()));
    }

    #[test]
    fn both_shapes_of_the_list_are_read_and_only_what_runs_and_is_well_is_ready() {
        let one = r#"{"Service":"order","State":"running","Health":"healthy","Name":"x"}"#;
        let other = r#"{"Service":"redis","State":"exited","Health":""}"#;
        let third = r#"{"Service":"kafka","State":"running","Health":"starting"}"#;
        for text in [format!("{one}\n{other}\n{third}\n"), format!("[{one},{other},{third}]")] {
            let all = containers(&text).unwrap();
            assert_eq!(all.iter().map(Container::is_ready).collect::<Vec<_>>(), [true, false, false]);
            assert_eq!(all.iter().map(Container::condition).collect::<Vec<_>>(), ["healthy", "exited", "starting"]);
        }
        assert!(containers("").unwrap().is_empty());
        assert!(containers("no containers").is_err());
    }

    #[test]
    fn of_a_long_complaint_the_last_line_is_told() {
        let failed = |stderr: &str| Output {
            status: ExitStatus::from_raw(256),
            stdout: Vec::new(),
            stderr: stderr.as_bytes().to_vec(),
        };
        let told = said(&failed(" Container a  Started\nport is already allocated\n\n")).unwrap_err();
        assert_eq!(told.to_string(), "port is already allocated");
        assert_eq!(said(&failed("")).unwrap_err().to_string(), "docker gives no reason");
    }
}
