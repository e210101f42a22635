//! The course of a measurement: start the system, go up with all instances, kill one, go up again, put it back, ask the
//! oracle, and stop, whatever happens.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result};
use chrono::Utc;
use contracts::Service;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    climb::Climb,
    ladder::Ladder,
    record::{Method, Outcome, Record},
    system,
};
use crate::{
    faults::Faults,
    scenario::{FaultSpec, StackSpec},
    stack::Stack,
};

/// What its files and its mark are called.
pub const ID: &str = "capacity";

/// What a measurement is of, and how it is done.
pub struct Measurement<'a> {
    pub system: &'a StackSpec,
    pub ladder: &'a Ladder,
    pub seed: u64,
    pub stack: &'a Stack,
    pub folder: &'a Path,
    /// Ends it early.
    pub interrupted: &'a CancellationToken,
    pub say: &'a dyn Fn(&str),
}

impl Measurement<'_> {
    /// Measures. An error: there is nothing to speak of; nothing is left of it either.
    pub async fn run(&self) -> Result<Record> {
        let (begun, started_at) = (Instant::now(), Utc::now());
        let measured = self.on_the_system().await;
        let stopped = self.stack.down().await;
        let mut outcome = measured?;
        outcome.unrestored.extend(stopped.err().map(|error| format!("{error:#}")));
        let took_seconds = begun.elapsed().as_secs_f64();
        let method = Method { started_at, took_seconds, seed: self.seed, step_seconds: self.ladder.lasts.as_secs() };
        Ok(Record::of(self.system, system::instances(self.system), outcome, method))
    }

    async fn on_the_system(&self) -> Result<Outcome> {
        let rules_file = self.stack.rules_file(self.folder, ID);
        tokio::select! {
            started = self.stack.up(self.system, &rules_file) => started?,
            () = self.interrupted.cancelled() => anyhow::bail!("interrupted before the load began"),
        }
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(10)).build()?;
        let mut faults = Faults::new(client, self.stack.clone(), self.system.clone(), rules_file, self.seed);
        faults.settle_in().await?;
        let answers = self.folder.join(format!("{ID}.answers.jsonl"));
        let climbed = self.climb(&mut faults, &answers).await;
        let unrestored = faults.restore().await;
        let mut outcome = Outcome { unrestored, ..climbed? };
        outcome.interrupted = self.interrupted.is_cancelled();
        if !outcome.interrupted {
            match self.stack.oracle(&answers).await {
                Ok(oracle) => outcome.oracle = oracle,
                Err(error) => outcome.doubts.push(format!("{error:#}")),
            }
        }
        Ok(outcome)
    }

    /// Both ways up. Who was killed for the second is for the caller to bring back.
    async fn climb(&self, faults: &mut Faults, answers: &Path) -> Result<Outcome> {
        let file = File::create(answers).with_context(|| format!("cannot write {}", answers.display()))?;
        let mut file = BufWriter::new(file);
        let Self { ladder, stack, seed, interrupted, say, .. } = *self;
        let climb = Climb { ladder, stack, seed, interrupted, say };
        let instances = system::instances(self.system);
        let mut outcome = Outcome::default();
        say(&format!("all {instances} instances"));
        outcome.all = climb.up(instances, &mut file).await?;
        if !interrupted.is_cancelled() {
            let left = instances.saturating_sub(1);
            // The last one: the others are whom the load then goes to.
            faults.begin(0, &killed(left)?).await?;
            say(&format!("one of {instances} instances missing"));
            outcome.one_missing = climb.up(left, &mut file).await?;
        }
        file.flush().context("cannot write the answers")?;
        Ok(outcome)
    }
}

/// Instance `number` of order, until it is brought back.
fn killed(number: u16) -> Result<FaultSpec> {
    let process = format!("{}:{number}", Service::Order);
    toml::from_str(&format!("at = '0s'\nfor = '1s'\nprocess = '{process}'\nkind = 'kill'")).context("the kill")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_missing_is_the_last_instance() {
        let fault = killed(1).unwrap();
        assert_eq!((fault.process.as_deref(), fault.kind.as_str()), (Some("order:1"), "kill"));
        assert!(fault.target().is_some());
    }
}
