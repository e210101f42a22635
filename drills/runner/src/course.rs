//! The course of a run: start the system, load it, break it, restore it, judge it, and stop it, whatever happens.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::Result;
use chrono::Utc;
use load::Report;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    breaking::Run,
    charges,
    faults::Faults,
    guards::Guards,
    log::Timeline,
    scenario::Scenario,
    scrape::Scraper,
    stack::Stack,
    verdict::{Outcome, Record, judge},
};

/// Runs a drill. `interrupted` ends it early. An error: there is no run to speak of; nothing is left of it either.
pub async fn run(
    scenario: &Scenario,
    guards: Guards,
    stack: &Stack,
    folder: &Path,
    interrupted: &CancellationToken,
) -> Result<Record> {
    let begun = Instant::now();
    let started_at = Utc::now();
    let scenario = &guards.asks(scenario)?;
    let recorded = on_the_system(scenario, guards, stack, folder, begun, interrupted).await;
    let stopped = stack.down().await;
    let mut record = recorded?;
    if let Err(error) = stopped {
        record.reasons.push(format!("{error:#}"));
    }
    Ok(Record { started_at, took_seconds: begun.elapsed().as_secs_f64(), ..record })
}

async fn on_the_system(
    scenario: &Scenario,
    guards: Guards,
    stack: &Stack,
    folder: &Path,
    begun: Instant,
    interrupted: &CancellationToken,
) -> Result<Record> {
    let rules_file = stack.rules_file(folder, &scenario.id);
    tokio::select! {
        started = stack.up(&scenario.stack, &rules_file) => started?,
        // Half a start has no faults yet.
        () = interrupted.cancelled() => anyhow::bail!("interrupted before the load began"),
    }
    let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(10)).build()?;
    let mut run = Run {
        scenario,
        timeline: timeline(scenario)?,
        log: Mutex::default(),
        faults: Faults::new(client.clone(), stack.clone(), scenario.stack.clone(), rules_file, scenario.seed),
        scraper: Scraper::new(client.clone(), stack, scenario),
        outcome: Outcome::default(),
        placed: charges::Placed::default(),
        stop: CancellationToken::new(),
    };
    run.faults.settle_in().await?;
    let answers = folder.join(format!("{}{}.answers.jsonl", scenario.id, guards.suffix()));
    let give_up = begun + scenario.max_duration.0;
    // From here on an interruption is an orderly end, which the course itself sees to.
    let done = run.load_and_break(stack, &answers, give_up, interrupted).await;
    let unrestored = run.faults.restore().await;
    let recording = done?;
    run.outcome.unrestored = unrestored;
    run.outcome.doubts.extend(recording.doubt().map(|doubt| doubt.to_string()));
    match run.faults.applied().await {
        Ok(applied) => run.log().applied = applied,
        Err(error) => run.outcome.doubts.push(format!("{error:#}")),
    }
    run.log().crashes = run.faults.crashes();
    match charges::delays(&client, stack, &run.placed).await {
        Ok(delays) => run.log().charges = delays,
        Err(error) => run.outcome.doubts.push(format!("{error:#}")),
    }
    if run.outcome.aborted.is_none() {
        match stack.oracle(&answers).await {
            Ok(oracle) => run.outcome.oracle = oracle,
            Err(error) => run.outcome.doubts.push(format!("{error:#}")),
        }
    }
    let Run { log, timeline, outcome, .. } = run;
    let log = log.into_inner().unwrap_or_else(PoisonError::into_inner);
    let record = judge(scenario, guards, &log, &timeline, outcome);
    Ok(Record { load: Some(Report::new(&recording, scenario.seed)), ..record })
}

fn timeline(scenario: &Scenario) -> Result<Timeline> {
    let end = profile(scenario)?.duration();
    let mut unusual: Vec<(Duration, Duration)> = scenario.faults.iter().map(|f| (f.at.0, f.end())).collect();
    // A spike is what there is to bear, whether or not something is broken as well.
    let spike = scenario.load.spike().transpose()?;
    unusual.extend(spike.map(|spike| (spike.at, spike.at + spike.lasts)));
    let broken = unusual.iter().map(|(from, _)| *from).min().unwrap_or(end);
    let restored = unusual.iter().map(|(_, to)| *to).max().unwrap_or(end);
    Ok(Timeline { warm_up: scenario.load.warm_up.0, broken, restored, end })
}

pub(crate) fn profile(scenario: &Scenario) -> Result<load::Profile> {
    scenario.load.profile().map_err(|(key, reason)| anyhow::anyhow!("load.{key}: {reason}"))
}

/// Cancelled by the first signal that asks for an early end. From now on such a signal does nothing else.
#[must_use]
pub fn interruption() -> CancellationToken {
    use tokio::signal::unix::{SignalKind, signal};
    let interrupted = CancellationToken::new();
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return interrupted;
    };
    let token = interrupted.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        eprintln!("restoring what was broken, and stopping …");
        token.cancel();
    });
    interrupted
}
