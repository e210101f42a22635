//! `oracle`: whether what the system that runs here left behind is as it must be.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use events::KafkaConfig;
use oracle::{Report, Sources, answers, sources::Databases};

use crate::{args::Oracle, layout::Checkout, say::say, state::the_system};

const VIOLATED: u8 = 1;
const COULD_NOT_LOOK: u8 = 2;

pub async fn run(checkout: &Checkout, wanted: &Oracle) -> ExitCode {
    match consult(checkout, wanted).await {
        Ok(report) if report.clean() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(VIOLATED),
        Err(e) => {
            eprintln!("error: could not look: {e:#}");
            ExitCode::from(COULD_NOT_LOOK)
        }
    }
}

async fn consult(checkout: &Checkout, wanted: &Oracle) -> Result<Report> {
    let told = wanted.answers.iter().map(PathBuf::as_path).map(answers::read).collect::<Result<Vec<_>>>()?;
    let sources = sources(checkout, wanted.port_base)?;
    let patience = Duration::from_secs(wanted.quiet_within);
    let report = oracle::consult(&sources, told.concat(), patience).await?;
    if wanted.json {
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        say!("{report}");
    }
    Ok(report)
}

/// Where the running system's stores are.
fn sources(checkout: &Checkout, port_base: Option<u16>) -> Result<Sources> {
    let (layout, state) = the_system(checkout, port_base)?.context("nothing is running")?;
    let ledger = |backup| format!("http://127.0.0.1:{}", layout.provider_port(backup));
    Ok(Sources {
        databases: Databases::on(&state.stores.postgres_url),
        ledgers: vec![ledger(false), ledger(true)],
        kafka: Some(KafkaConfig::new(state.stores.kafka_bootstrap, "dev")),
    })
}
