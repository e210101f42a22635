//! `./dev capacity`. Exit codes as of a drill: 0 measured, 1 the oracle found a violation or something was not put back,
//! 2 inconclusive (or nothing could be run), 3 interrupted.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use clap::Parser;

use super::{
    course::{ID, Measurement},
    draft,
    ladder::{self, Ladder, Rates},
    page,
    record::Record,
    system,
};
use crate::{
    course, leftover,
    say::say,
    stack::{self, Stack},
    verdict::Verdict,
};

/// Measures how many orders a second the system carries, with all instances of order and with one missing, and derives
/// thresholds.
#[derive(Debug, Parser)]
#[command(name = "capacity", bin_name = "./dev capacity", max_term_width = 100)]
pub struct Cli {
    /// Orders a second for each instance, going up: 6,10,13 … It ends where the breakage is certain.
    #[arg(long, value_name = "RATE,…")]
    steps: Option<Rates>,
    /// Of each step; the first two seconds of it count for nothing.
    #[arg(long, value_name = "DURATION", default_value = "8s", value_parser = ladder::lasts)]
    step_duration: Duration,
    /// Instances of order, at least two; otherwise as the system's file says.
    #[arg(long, value_name = "N")]
    replicas: Option<u16>,
    /// The system to measure: a TOML file with a drill's [stack].
    #[arg(long, value_name = "FILE")]
    system: Option<PathBuf>,
    /// Of the arrivals and baskets.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the page and the draft go; otherwise target/dev/drills.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Write the whole record there; otherwise beside the page.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the system has its ports; otherwise where there is room.
    #[arg(long, value_name = "N")]
    port_base: Option<u16>,
}

/// `asked` is the command line, for who wants to do it again.
pub async fn run(cli: Cli, asked: &str) -> Result<u8> {
    let folder = stack::folder()?;
    let mark = folder.join("under-way.json");
    if let Some(said) = leftover::clear(&mark).await? {
        eprintln!("{said}");
    }
    let system = system::read(cli.system.as_deref(), cli.replicas)?;
    let reports = cli.report.clone().unwrap_or_else(|| folder.clone());
    fs::create_dir_all(&reports).with_context(|| format!("cannot make {}", reports.display()))?;
    let files = Files::within(&reports, cli.json);
    // One of an earlier measurement is not the draft of this one, whatever comes of it.
    files.forget_draft()?;

    let base = cli.port_base.map_or_else(stack::free_base, Ok)?;
    let stack = Stack::at(base)?;
    let _marked = leftover::mark(&mark, ID, &stack)?;
    let ladder = Ladder { rates: cli.steps.unwrap_or_default(), lasts: cli.step_duration };
    let interrupted = course::interruption();
    let measurement = Measurement {
        system: &system,
        ladder: &ladder,
        seed: cli.seed,
        stack: &stack,
        folder: &folder,
        interrupted: &interrupted,
        say: &|line| eprintln!("{line}"),
    };
    let record = match measurement.run().await {
        Err(error) if interrupted.is_cancelled() => {
            eprintln!("aborted: {error:#}");
            return Ok(Verdict::Aborted.exit_code());
        }
        record => record?,
    };
    say(&record.to_string());
    files.write(&record, asked)?;
    Ok(record.verdict.exit_code())
}

/// What a measurement leaves.
struct Files {
    page: PathBuf,
    record: PathBuf,
    draft: PathBuf,
}

impl Files {
    fn within(reports: &Path, record: Option<PathBuf>) -> Self {
        let of = |ending: &str| reports.join(format!("{ID}.{ending}"));
        Self { page: of("html"), record: record.unwrap_or_else(|| of("json")), draft: of("draft.toml") }
    }

    fn forget_draft(&self) -> Result<()> {
        match fs::remove_file(&self.draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.draft.display()))
            }
            _ => Ok(()),
        }
    }

    fn write(&self, record: &Record, asked: &str) -> Result<()> {
        let put = |what: &str, file: &Path, text: &[u8]| {
            fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
            eprintln!("  {what:<14} {}", file.display());
            anyhow::Ok(())
        };
        put("record", &self.record, &serde_json::to_vec_pretty(record)?)?;
        if let Some(thresholds) = &record.thresholds {
            put("draft", &self.draft, draft::draft(thresholds, &record.rules, asked)?.as_bytes())?;
        }
        let name = self.draft.file_name().map(|name| name.to_string_lossy().into_owned());
        let draft = name.filter(|_| record.thresholds.is_some());
        put("report", &self.page, page::page(record, asked, draft.as_deref())?.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::{record::Outcome, sample};

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("capacity-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_measurement_leaves_a_page_a_record_and_a_draft_that_a_service_would_take() {
        let folder = folder("all");
        let files = Files::within(&folder, None);
        files.write(&sample::record(), "./dev capacity").unwrap();
        rules::Rules::from_toml(&fs::read_to_string(&files.draft).unwrap()).unwrap();
        let record: serde_json::Value = serde_json::from_slice(&fs::read(&files.record).unwrap()).unwrap();
        assert_eq!((&record["verdict"], &record["curves"][1]["instances"]), (&"pass".into(), &1.into()));
        assert!(fs::read_to_string(&files.page).unwrap().contains("href=\"capacity.draft.toml\""));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn one_that_says_nothing_leaves_no_draft_and_not_that_of_an_earlier_one_either() {
        let folder = folder("none");
        let files = Files::within(&folder, Some(folder.join("own.json")));
        fs::write(&files.draft, "version = 1").unwrap();
        files.forget_draft().unwrap();
        files.forget_draft().unwrap();
        let nothing = Record::of(&crate::scenario::StackSpec::default(), 2, Outcome::default(), sample::METHOD);
        files.write(&nothing, "./dev capacity").unwrap();
        assert!(!files.draft.exists() && files.page.exists() && folder.join("own.json").exists());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_command_line_is_sound_and_says_what_is_not() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
        let cli =
            Cli::try_parse_from(["capacity", "--steps", "5,10", "--step-duration", "4s", "--replicas", "3"]).unwrap();
        assert_eq!((cli.step_duration.as_secs(), cli.replicas), (4, Some(3)));
        let refused = Cli::try_parse_from(["capacity", "--steps", "10,5"]).unwrap_err();
        assert!(refused.to_string().contains("that go up"), "{refused}");
    }
}
