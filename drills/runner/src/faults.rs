//! Breaks what a scenario says, and puts it back. Whatever is begun here is ended here, and that it ended is looked at
//! and not assumed.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use reqwest::Client;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{scenario::FaultSpec, stack::Stack};

pub struct Faults {
    client: Client,
    stack: Stack,
    seed: u64,
    /// What is broken now, by the number of its fault in the scenario.
    broken: BTreeMap<usize, Broken>,
}

enum Broken {
    Link { id: u64 },
    Killed { process: String },
    Stopped { process: String, pid: Pid },
}

impl Faults {
    #[must_use]
    pub fn new(client: Client, stack: Stack, seed: u64) -> Self {
        Self { client, stack, seed, broken: BTreeMap::new() }
    }

    pub async fn begin(&mut self, number: usize, fault: &FaultSpec) -> Result<()> {
        let broken = match (&fault.process, fault.kind.as_str()) {
            (None, _) => {
                let request = fault.request(self.seed.wrapping_add(number as u64));
                let answer = self.client.post(format!("{}/v1/faults", self.stack.links())).json(&request).send().await;
                let answer = answer.context("the links do not answer")?;
                let (status, body) = (answer.status(), answer.json::<Value>().await.unwrap_or_default());
                match body["id"].as_u64() {
                    Some(id) if status == 201 => Broken::Link { id },
                    _ => bail!("the links refused the fault: {body}"),
                }
            }
            (Some(process), "restart") => {
                self.stack.restart(process).await?;
                return Ok(());
            }
            (Some(process), kind) => {
                let pid = self.pid(process).await?;
                let (process, signal) = (process.clone(), if kind == "kill" { Signal::KILL } else { Signal::STOP });
                kill_process(pid, signal).with_context(|| format!("cannot signal {process}"))?;
                if kind == "kill" { Broken::Killed { process } } else { Broken::Stopped { process, pid } }
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
            Some(Broken::Killed { process }) => self.stack.restart(&process).await,
            Some(Broken::Stopped { process, pid }) => {
                kill_process(pid, Signal::CONT).with_context(|| format!("cannot wake {process}"))
            }
        }
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
        match self.stack.status().await {
            Ok(status) => {
                let unready = status["processes"].as_array().into_iter().flatten().filter(|p| p["state"] != "ready");
                left.extend(unready.map(|p| format!("{} is {}", p["name"], p["state"])));
            }
            Err(error) => left.push(format!("{error:#}")),
        }
        left
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

    async fn pid(&self, process: &str) -> Result<Pid> {
        let (name, replica) = process.split_once(':').unwrap_or((process, "0"));
        let replica: u64 = replica.parse().with_context(|| format!("{process} is no process"))?;
        let status = self.stack.status().await?;
        let mut processes = status["processes"].as_array().into_iter().flatten();
        let found = processes.find(|p| p["name"] == name && p["replica"] == replica);
        let pid = found.map_or(&status["stores"][name]["pid"], |p| &p["pid"]).as_i64();
        let pid = pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        pid.with_context(|| format!("{process} does not run"))
    }
}
