//! Other rules, in force in every service before the drill goes on.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use contracts::Service;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::Faults;
use crate::stack;

/// The services look at their file once a second; a busy machine lets them wait longer.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Faults {
    /// Puts these rules in force in place of those before.
    pub(super) async fn rule(&mut self, mut rules: toml::Table) -> Result<()> {
        self.rules_version += 1;
        rules.insert("version".to_owned(), self.rules_version.into());
        stack::write_rules(&self.rules_file, &rules)?;
        let give_up = Instant::now() + TAKEN_WITHIN;
        loop {
            match self.misruled().await.pop() {
                None => return Ok(()),
                Some(one) if Instant::now() > give_up => bail!("{one}"),
                Some(_) => sleep(LOOK_EVERY).await,
            }
        }
    }

    /// The processes in which other rules are in force than were written last. Nothing was written: nobody is asked.
    pub(super) async fn misruled(&self) -> Vec<String> {
        let mut left = Vec::new();
        if self.rules_version == 0 {
            return left;
        }
        for service in Service::ALL {
            for replica in 0..self.normal.replicas.get(service.as_str()).copied().unwrap_or(1) {
                let version = self.version_in_force(&self.stack.admin(service, replica)).await;
                if version.as_ref().ok() != Some(&self.rules_version) {
                    left.push(format!("{service}:{replica} does not go by the rules that were written last"));
                }
            }
        }
        left
    }

    pub(super) async fn version_in_force(&self, admin: &str) -> Result<i64> {
        let state: Value = self.client.get(format!("{admin}/internal/state")).send().await?.json().await?;
        state["rules"]["version"].as_i64().context("no version")
    }
}
