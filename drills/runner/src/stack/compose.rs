//! Containers: the compose file's system with links in between (`drills/compose.yml`), in a project of its own.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use contracts::Service;
use tokio::process::Command;

use super::{
    command::apart,
    docker::{self, docker},
    image::{self, IMAGE},
    named,
};
use crate::{
    say::say,
    scenario::{Scenario, Target},
};

#[derive(Debug, Clone)]
pub struct Compose {
    pub checkout: PathBuf,
    /// The folder that the services see as theirs; nothing else is in it.
    pub rules: PathBuf,
    /// It holds the oracle.
    pub program: PathBuf,
}

pub const RULES_INSIDE: &str = "/etc/rules/rules.toml";
/// As the compose file has it when nobody says otherwise.
const DATABASES: &str = "postgres://postgres:development@127.0.0.1:15432";

/// What runs, by the names of the compose file.
pub fn containers() -> impl Iterator<Item = &'static str> {
    const OTHERS: [&str; 8] =
        ["console", "envoy", "provider-primary", "provider-backup", "postgres", "redis", "kafka", "links"];
    Service::ALL.into_iter().map(Service::as_str).chain(OTHERS)
}

/// What a drill asks for and the compose file does not have.
pub fn lacks(scenario: &Scenario) -> Option<String> {
    if let Some((service, count)) = scenario.stack.replicas.iter().find(|(_, count)| **count > 1) {
        return Some(format!("it needs {count} replicas of {service} (stack.replicas), and there is one container"));
    }
    if !scenario.stack.redis {
        return Some("it needs a system without Redis (stack.redis), and the compose file's waits for it".to_owned());
    }
    scenario.faults.iter().find_map(|fault| {
        let Some(Target::Process(process)) = fault.target() else { return None };
        if fault.kind == "crash_at" {
            return Some("crash_at arms a process of this machine, and not a container".to_owned());
        }
        let known = container(process).is_ok_and(|name| name != "links");
        (!known).then(|| format!("there is no container {process} to {}", fault.kind))
    })
}

/// The container that a drill means by a process.
fn container(process: &str) -> Result<&str> {
    match named(process)? {
        (name, 0) if containers().any(|known| known == name) => Ok(name),
        _ => bail!("there is no container {process}"),
    }
}

impl Compose {
    pub async fn check(&self) -> Result<()> {
        docker::run(docker(&["compose", "version"])).await.map_err(|error| {
            // The plug-in alone is missing: Docker then takes `compose` for one of its own words.
            let told = error.to_string();
            if told.contains("not installed") { error } else { error.context("no Compose v2") }
        })?;
        docker::run(docker(&["version", "--format", "{{.Server.Version}}"])).await.context("no Docker engine")?;
        let image = docker(&["image", "inspect", "--format", "{{.Id}}", IMAGE]);
        docker::run(image).await.with_context(|| format!("no image {IMAGE} (docker compose build makes it)"))?;
        if let Some(line) = image::out_of_date(&self.checkout).await {
            say(&line);
        }
        Ok(())
    }

    pub fn rules_file(&self) -> PathBuf {
        self.rules.join(Path::new(RULES_INSIDE).file_name().unwrap_or_default())
    }

    /// Makes the folder of the rules, open to the user that the services run as.
    pub fn make_room(&self) -> Result<()> {
        let open = || fs::set_permissions(&self.rules, fs::Permissions::from_mode(0o755));
        let made = fs::create_dir_all(&self.rules).and_then(|()| open());
        made.with_context(|| format!("cannot make {}", self.rules.display()))
    }

    pub async fn up(&self) -> Result<()> {
        let started = self.compose(&["up", "--detach", "--wait"]).await;
        if started.is_err() {
            // What is in the containers' logs goes with them.
            let log = self.rules.with_extension("log");
            let told = self.compose(&["logs", "--no-color", "--tail", "100"]).await.unwrap_or_default();
            return match fs::write(&log, told) {
                Ok(()) => started.with_context(|| format!("the containers' last words are in {}", log.display())),
                Err(_) => started,
            }
            .map(drop);
        }
        started.map(drop)
    }

    pub async fn down(&self) -> Result<()> {
        // Nothing is in hand any more, and nothing is kept.
        self.compose(&["down", "--volumes", "--remove-orphans", "--timeout", "3"]).await.map(drop)
    }

    pub async fn unready(&self) -> Result<Vec<String>> {
        let all = docker::containers(&self.compose(&["ps", "--all", "--format", "json"]).await?)?;
        let unready = containers().filter_map(|name| match all.iter().find(|found| found.service == name) {
            Some(found) if found.is_ready() => None,
            Some(found) => Some(format!("{name} is {}", found.condition())),
            None => Some(format!("{name} has no container")),
        });
        Ok(unready.collect())
    }

    pub async fn restart(&self, process: &str) -> Result<()> {
        let name = container(process)?;
        self.compose(&["restart", name]).await?;
        self.compose(&["up", "--detach", "--wait", "--no-deps", "--no-recreate", name]).await.map(drop)
    }

    pub async fn kill(&self, process: &str) -> Result<()> {
        self.compose(&["kill", "--signal", "SIGKILL", container(process)?]).await.map(drop)
    }

    pub async fn pause(&self, process: &str) -> Result<()> {
        self.compose(&["pause", container(process)?]).await.map(drop)
    }

    pub async fn wake(&self, process: &str) -> Result<()> {
        self.compose(&["unpause", container(process)?]).await.map(drop)
    }

    /// It looks at the stores where they are published.
    pub fn oracle(&self) -> Command {
        let mut command = apart(&self.program);
        command.args(["oracle", "--postgres", DATABASES]);
        command
    }

    async fn compose(&self, arguments: &[&str]) -> Result<String> {
        let mut command = docker::compose(&self.checkout, arguments);
        command.env("DRILL_RULES", &self.rules).env("DRILL_RULES_FILE", RULES_INSIDE);
        docker::run(command).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::read;

    fn lacking(stack: &str, fault: &str) -> Option<String> {
        let text = format!(
            "id = 'a'\ntitle = 't'\nstory = 's'\nsource = 'x'\nmax_duration = '2m'\n{stack}\n\
             load = {{ rate = 10, duration = '30s' }}\nsteady_state = [{{ probe = 'success_ratio', min = 0.99 }}]\n\
             expect = [{{ probe = 'success_ratio', min = 0.9 }}]\nfaults = [{{ at = '1s', for = '2s', {fault} }}]\n"
        );
        lacks(&read("a.toml", &text).unwrap())
    }

    #[test]
    fn what_the_compose_file_does_not_have_is_told_and_all_else_can_be_run() {
        const HANG: &str = "link = 'order->payment', kind = 'hang'";
        assert_eq!(lacking("", HANG), None);
        assert_eq!(lacking("stack.replicas = { order = 1 }", "process = 'kafka', kind = 'kill'"), None);
        assert_eq!(lacking("", "process = 'order:0', kind = 'stop'"), None);
        for (stack, fault, word) in [
            ("stack.replicas = { order = 2 }", HANG, "2 replicas of order"),
            ("stack.redis = false", HANG, "without Redis"),
            ("", "process = 'payment', kind = 'crash_at', points = ['payment.swept']", "crash_at"),
            ("", "process = 'order:1', kind = 'kill'", "no container order:1"),
            ("", "process = 'broker', kind = 'kill'", "no container broker"),
        ] {
            let told = lacking(stack, fault).unwrap_or_default();
            assert!(told.contains(word), "{stack} {fault}: {told}");
        }
    }
}
