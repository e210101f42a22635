//! `oracle`: whether what a system left behind is as it must be.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use contracts::service::DEFAULT_PORT_BASE;
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
    let sources = sources(checkout, wanted)?;
    let patience = Duration::from_secs(wanted.quiet_within);
    let report = oracle::consult(&sources, told.concat(), patience).await?;
    if wanted.json {
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        say!("{report}");
    }
    Ok(report)
}

/// Where the stores are: of the system that is on record here, or of one that was started otherwise.
fn sources(checkout: &Checkout, wanted: &Oracle) -> Result<Sources> {
    let (layout, postgres, kafka) = match &wanted.postgres {
        Some(server) => {
            let layout = checkout.layout(wanted.port_base.unwrap_or(DEFAULT_PORT_BASE));
            let kafka = format!("127.0.0.1:{}", layout.kafka_port());
            (layout, server.clone(), kafka)
        }
        None => {
            let (layout, state) = the_system(checkout, wanted.port_base)?.context("nothing is running")?;
            (layout, state.stores.postgres_url, state.stores.kafka_bootstrap)
        }
    };
    let ledger = |backup| format!("http://127.0.0.1:{}", layout.provider_port(backup));
    Ok(Sources {
        databases: Databases::on(&postgres),
        ledgers: vec![ledger(false), ledger(true)],
        kafka: Some(KafkaConfig::new(kafka, "dev")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_that_is_on_no_record_is_looked_for_where_the_port_base_has_it() {
        let wanted = Oracle {
            answers: Vec::new(),
            quiet_within: 1,
            postgres: Some("postgres://postgres:secret@127.0.0.1:15432".into()),
            json: false,
            port_base: None,
        };
        let found = sources(&Checkout::find().unwrap(), &wanted).unwrap();
        assert_eq!(found.databases.payment, "postgres://postgres:secret@127.0.0.1:15432/payment");
        assert_eq!(found.ledgers, ["http://127.0.0.1:8086", "http://127.0.0.1:8087"]);
        assert_eq!(found.kafka.unwrap().bootstrap, "127.0.0.1:19092");
    }
}
