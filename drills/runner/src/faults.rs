//! Breaks what a scenario says, and puts it back. Whatever is begun here is ended here, and that it ended is looked at
//! and not assumed.

mod behaviour;
mod crashing;
mod publishing;
mod ruling;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use anyhow::{Context, Result, bail};
use reqwest::Client;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    scenario::{FaultSpec, StackSpec, Target},
    stack::{Paused, Stack},
};

pub struct Faults {
    client: Client,
    stack: Stack,
    /// What the system is like when nothing is broken.
    normal: StackSpec,
    rules_file: PathBuf,
    /// Of the rules that were written last.
    rules_version: i64,
    seed: u64,
    crashes: Arc<AtomicU32>,
    /// What is broken now, by the number of its fault in the scenario.
    broken: BTreeMap<usize, Broken>,
}

enum Broken {
    Link { id: u64 },
    Killed { process: String },
    Stopped { process: String, paused: Paused },
    Restarting(JoinHandle<Result<()>>),
    Crashing { stop: CancellationToken, walk: JoinHandle<Result<()>> },
    Behaving { channel: String },
    Ruled,
    Published { version: i64 },
}

impl Faults {
    #[must_use]
    pub fn new(client: Client, stack: Stack, normal: StackSpec, rules_file: PathBuf, seed: u64) -> Self {
        let (crashes, broken) = (Arc::default(), BTreeMap::new());
        Self { client, stack, normal, rules_file, rules_version: 0, seed, crashes, broken }
    }

    pub async fn begin(&mut self, number: usize, fault: &FaultSpec) -> Result<()> {
        let broken = match (fault.target().context("a fault without a target")?, fault.kind.as_str()) {
            (Target::Link(_), _) => {
                let request = fault.request(self.seed.wrapping_add(number as u64));
                let answer = self.client.post(format!("{}/v1/faults", self.stack.links())).json(&request).send().await;
                let answer = answer.context("the links do not answer")?;
                let (status, body) = (answer.status(), answer.json::<Value>().await.unwrap_or_default());
                match body["id"].as_u64() {
                    Some(id) if status == 201 => Broken::Link { id },
                    _ => bail!("the links refused the fault: {body}"),
                }
            }
            (Target::Process(process), "restart") => {
                let (stack, process) = (self.stack.clone(), process.to_owned());
                Broken::Restarting(tokio::spawn(async move { stack.restart(&process).await }))
            }
            (Target::Process(process), "crash_at") => {
                let (stop, stack, crashes) = (CancellationToken::new(), self.stack.clone(), self.crashes.clone());
                let (process, points, end) = (process.to_owned(), fault.points.clone(), stop.clone());
                let walk = async move { crashing::walk(&stack, &process, &points, &crashes, &end).await };
                Broken::Crashing { stop, walk: tokio::spawn(walk) }
            }
            (Target::Process(process), kind) => {
                let name = process.to_owned();
                if kind == "kill" {
                    self.stack.kill(process).await?;
                    Broken::Killed { process: name }
                } else {
                    Broken::Stopped { paused: self.stack.pause(process).await?, process: name }
                }
            }
            (Target::Provider(channel, wanted), _) => {
                behaviour::put(&self.client, &self.stack, channel, wanted).await?;
                Broken::Behaving { channel: channel.to_owned() }
            }
            (Target::Rules(_), _) => {
                self.rule(fault.rules_on(&self.normal.rules)).await?;
                Broken::Ruled
            }
            (Target::Published(_), _) => {
                let rules = fault.rules_on(&self.normal.rules);
                Broken::Published { version: self.publish(&rules, &fault.to).await? }
            }
        };
        self.broken.insert(number, broken);
        Ok(())
    }

    pub async fn end(&mut self, number: usize) -> Result<()> {
        match self.broken.remove(&number) {
            None => Ok(()),
            Some(Broken::Link { id }) => {
                let url = format!("{}/v1/faults/{id}", self.stack.links());
                let answer = self.client.delete(url).send().await.context("the links do not answer")?;
                // 404: it has removed itself.
                if answer.status() == 200 || answer.status() == 404 {
                    Ok(())
                } else {
                    bail!("the links kept fault {id}: {}", answer.status())
                }
            }
            Some(Broken::Killed { process }) => {
                self.stack.restart(&process).await?;
                // A provider that starts anew has forgotten how it is to behave.
                match process.strip_prefix("provider-") {
                    Some(channel) => self.behave_as_normal(channel).await,
                    None => Ok(()),
                }
            }
            Some(Broken::Stopped { process, paused }) => self.stack.wake(&process, &paused).await,
            Some(Broken::Restarting(restart)) => restart.await?,
            Some(Broken::Crashing { stop, walk }) => {
                stop.cancel();
                walk.await?
            }
            Some(Broken::Behaving { channel }) => self.behave_as_normal(&channel).await,
            Some(Broken::Ruled) => self.rule(self.normal.rules.clone()).await,
            Some(Broken::Published { version }) => self.take_back(version).await,
        }
    }

    /// Brings the system from how it starts to what it is like when nothing is broken.
    pub async fn settle_in(&self) -> Result<()> {
        for channel in self.normal.provider.keys() {
            self.behave_as_normal(channel).await?;
        }
        Ok(())
    }

    /// Ends all that is still broken, and says what is not as it was.
    pub async fn restore(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        for number in self.broken.keys().copied().collect::<Vec<_>>() {
            if let Err(error) = self.end(number).await {
                left.push(format!("{error:#}"));
            }
        }
        match self.faults_in_force().await {
            Ok(faults) => left.extend(faults.iter().map(|fault| format!("a fault on a link: {fault}"))),
            Err(error) => left.push(format!("{error:#}")),
        }
        match self.stack.unready().await {
            Ok(unready) => left.extend(unready),
            Err(error) => left.push(format!("{error:#}")),
        }
        left.extend(self.misbehaving().await);
        left.extend(self.misruled().await);
        left
    }

    /// At how many crash points a process died.
    #[must_use]
    pub fn crashes(&self) -> u32 {
        self.crashes.load(Ordering::Acquire)
    }

    /// How often the faults of each link were met, since the links started.
    pub async fn applied(&self) -> Result<BTreeMap<String, u64>> {
        let answer = self.client.get(format!("{}/v1/links", self.stack.links())).send().await;
        let links: Value = answer.context("the links do not answer")?.error_for_status()?.json().await?;
        let count = |link: &Value| {
            let counts = link["applied"].as_object().into_iter().flatten();
            counts.filter_map(|(_, count)| count.as_u64()).sum::<u64>()
        };
        let links = links["items"].as_array().into_iter().flatten();
        Ok(links.filter_map(|link| Some((link["name"].as_str()?.to_owned(), count(link)))).collect())
    }

    async fn faults_in_force(&self) -> Result<Vec<Value>> {
        let answer = self.client.get(format!("{}/v1/faults", self.stack.links())).send().await;
        let faults: Value = answer.context("the links do not answer")?.error_for_status()?.json().await?;
        Ok(faults["items"].as_array().cloned().unwrap_or_default())
    }
}
