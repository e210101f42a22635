//! `./dev drill`, and `./dev capacity`, which has a command line of its own. Exit codes: 0 pass, 1 fail, 2 inconclusive
//! (or nothing could be run), 3 aborted; of several drills, see [`batch::exit_code`].

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::Parser;
use runner::{
    batch::{self, Row, Table},
    capacity,
    catalogue::{self, Drill},
    course,
    guards::Guards,
    leftover, report,
    say::say,
    stack::{self, Stack},
    verdict::{Record, Verdict},
};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

/// Breaks a system on purpose, and judges how it bears it.
#[derive(Parser)]
#[command(name = "drill", bin_name = "./dev drill", max_term_width = 100)]
struct Cli {
    /// `list`, `all`, or names of drills and paths to TOML files, which are run one after the other.
    #[arg(required = true, value_name = "DRILL")]
    what: Vec<String>,
    /// Run each drill without guards as well, and lay both side by side. The exit code is that of the guarded run.
    #[arg(long)]
    compare: bool,
    /// Run each drill's negative control as well: the same drill without the guard that it is about, which has to fail.
    #[arg(long, conflicts_with = "compare")]
    control: bool,
    /// Where the pages go; otherwise target/dev/drills.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Write the whole record there (of several drills a list of them); otherwise each beside its page.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the drill's own system has its ports; otherwise where there is room.
    #[arg(long, value_name = "N")]
    port_base: Option<u16>,
    /// On containers, of the image that `docker compose build` made last, with links in between.
    #[arg(long, conflicts_with = "port_base")]
    compose: bool,
}

const INCONCLUSIVE: u8 = Verdict::Inconclusive.exit_code();

#[tokio::main]
async fn main() -> ExitCode {
    let ended = if env::args_os().nth(1).is_some_and(|first| first == "capacity") {
        let asked: Vec<String> = env::args().skip(1).collect();
        capacity::command::run(capacity::command::Cli::parse_from(&asked), &format!("./dev {}", asked.join(" "))).await
    } else {
        run(Cli::parse()).await
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(INCONCLUSIVE)
        }
    }
}

async fn run(cli: Cli) -> Result<u8> {
    if cli.what == ["list"] {
        return list();
    }
    let folder = stack::folder()?;
    let mark = folder.join("under-way.json");
    if let Some(said) = leftover::clear(&mark).await? {
        eprintln!("{said}");
    }
    // For other commands, which only want to know that nothing is left.
    if cli.what == ["restore"] {
        return Ok(0);
    }
    let drills = match catalogue::find(&cli.what)? {
        Ok(drills) => drills,
        Err(mistakes) => {
            mistakes.iter().for_each(|mistake| eprintln!("{mistake}"));
            return Ok(INCONCLUSIVE);
        }
    };
    if cli.compose {
        Stack::composed()?.check().await?;
    }
    let reports = cli.report.clone().unwrap_or_else(|| folder.clone());
    fs::create_dir_all(&reports).with_context(|| format!("cannot make {}", reports.display()))?;
    let interrupted = course::interruption();
    let place = Place { folder, mark, reports, interrupted };
    if let [drill] = drills.as_slice() { only(&cli, &place, drill).await } else { several(&cli, &place, &drills).await }
}

/// What all runs have in common.
struct Place {
    folder: PathBuf,
    mark: PathBuf,
    reports: PathBuf,
    interrupted: CancellationToken,
}

async fn only(cli: &Cli, place: &Place, drill: &Drill) -> Result<u8> {
    let record = match one(cli, place, drill).await {
        Err(error) if place.interrupted.is_cancelled() => {
            eprintln!("aborted: {error:#}");
            return Ok(Verdict::Aborted.exit_code());
        }
        record => record?,
    };
    say(&record.to_string());
    publish(cli, place, drill, &record)?;
    if let Some(json) = &cli.json {
        write_json(json, &record)?;
    }
    Ok(record.verdict.exit_code())
}

async fn several(cli: &Cli, place: &Place, drills: &[Drill]) -> Result<u8> {
    let (mut rows, mut records) = (Vec::new(), Vec::new());
    for drill in drills {
        let (id, title) = (&drill.scenario.id, &drill.scenario.title);
        if place.interrupted.is_cancelled() {
            rows.push(Row::without_record(id, title, Verdict::Aborted, "not begun"));
            continue;
        }
        match one(cli, place, drill).await {
            Ok(record) => {
                say(&format!("{record}\n"));
                rows.push(Row::of(&record, Some(publish(cli, place, drill, &record)?)));
                records.push(record);
            }
            Err(error) => {
                let ended = place.interrupted.is_cancelled();
                let verdict = if ended { Verdict::Aborted } else { Verdict::Inconclusive };
                eprintln!("{id}: {error:#}");
                rows.push(Row::without_record(id, title, verdict, &format!("{error:#}")));
            }
        }
    }
    say(&Table(&rows).to_string());
    if let Some(json) = &cli.json {
        write_json(json, &records)?;
    }
    eprintln!("  summary        {}", report::write_index(&place.reports, &rows)?.display());
    Ok(batch::exit_code(&rows))
}

fn chosen(cli: &Cli) -> Result<Stack> {
    if cli.compose {
        return Stack::composed();
    }
    Stack::at(cli.port_base.map_or_else(stack::free_base, Ok)?)
}

/// A drill, on record while it runs.
async fn one(cli: &Cli, place: &Place, Drill { scenario, .. }: &Drill) -> Result<Record> {
    let stack = chosen(cli)?;
    if let Some(why) = stack.lacks(scenario) {
        anyhow::bail!("{} cannot be run under Compose: {why}", scenario.id);
    }
    let _marked = leftover::mark(&place.mark, &scenario.id, &stack)?;
    let seconds = scenario.max_duration.0.as_secs();
    let run = |guards| course::run(scenario, guards, &stack, &place.folder, &place.interrupted);
    let first = async |guards: Guards, without: &str| {
        eprintln!("{}: {}, without {without} (at most {seconds} s)", scenario.id, scenario.title);
        let record = run(guards).await.with_context(|| format!("without {without}"))?;
        eprintln!("  {:<14} {}, {}", guards.as_str(), record.verdict, record.headline());
        if place.interrupted.is_cancelled() {
            anyhow::bail!("interrupted before the guarded run began");
        }
        anyhow::Ok(record)
    };
    let control = scenario.control.as_ref().filter(|_| cli.control);
    if cli.control && control.is_none() {
        eprintln!("{}: no rule can take out what it is about; it has no control", scenario.id);
    }
    let unguarded = if cli.compare { Some(Box::new(first(Guards::Off, "guards").await?)) } else { None };
    let taken_out = match control {
        Some(control) => Some(first(Guards::TakenOut, &control.without).await?),
        None => None,
    };
    eprintln!("{}: {} (at most {seconds} s)", scenario.id, scenario.title);
    let record = Record { unguarded, ..run(Guards::On).await? };
    Ok(match taken_out {
        Some(control) => record.against(control),
        None => record,
    })
}

/// Writes the page, and the record beside it unless it goes elsewhere. The name of the page's file.
fn publish(cli: &Cli, place: &Place, drill: &Drill, record: &Record) -> Result<String> {
    let compare = if cli.compare { " --compare" } else { "" };
    let control = if cli.control { " --control" } else { "" };
    let compose = if cli.compose { " --compose" } else { "" };
    let command = format!("./dev drill {}{compare}{control}{compose}", drill.asked);
    if cli.json.is_none() {
        write_json(&place.reports.join(format!("{}.json", record.id)), record)?;
    }
    let page = report::write(&place.reports, &catalogue::checkout(), &command, record)?;
    eprintln!("  report         {}", page.display());
    Ok(page.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

fn write_json(file: &Path, what: &impl Serialize) -> Result<()> {
    fs::write(file, serde_json::to_vec_pretty(what)?).with_context(|| format!("cannot write {}", file.display()))?;
    eprintln!("  record         {}", file.display());
    Ok(())
}

fn list() -> Result<u8> {
    let mut code = 0;
    for file in catalogue::files()? {
        match catalogue::read(&file)? {
            Ok(scenario) => say(&format!("{:<28} {}", scenario.id, scenario.title)),
            Err(mistakes) => {
                mistakes.iter().for_each(|mistake| eprintln!("{mistake}"));
                code = INCONCLUSIVE;
            }
        }
    }
    Ok(code)
}
