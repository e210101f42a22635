//! `./dev drill`. Exit codes: 0 pass, 1 fail, 2 inconclusive (or nothing could be run), 3 aborted.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::Parser;
use runner::{
    course, leftover,
    scenario::{self, Scenario},
    stack::{self, Stack},
    verdict::{Record, Verdict},
};
use tokio_util::sync::CancellationToken;

/// Breaks a system on purpose, and judges how it bears it.
#[derive(Parser)]
#[command(name = "drill", bin_name = "./dev drill", max_term_width = 100)]
struct Cli {
    /// `list`, the name of a drill, or a path to a TOML file.
    what: String,
    /// Write the whole record there.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the drill's own system has its ports; otherwise where there is room.
    #[arg(long, value_name = "N")]
    port_base: Option<u16>,
}

const INCONCLUSIVE: u8 = Verdict::Inconclusive.exit_code();

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse()).await {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(INCONCLUSIVE)
        }
    }
}

async fn run(cli: Cli) -> Result<u8> {
    let folder = stack::folder()?;
    let mark = folder.join("under-way.json");
    if cli.what == "list" {
        return list();
    }
    if let Some(said) = leftover::clear(&mark).await? {
        eprintln!("{said}");
    }
    // For other commands, which only want to know that nothing is left.
    if cli.what == "restore" {
        return Ok(0);
    }
    let file = file_of(&cli.what);
    let Some(scenario) = read(&file)? else { return Ok(INCONCLUSIVE) };
    let base = cli.port_base.map_or_else(stack::free_base, Ok)?;
    let stack = Stack::at(base)?;
    let _marked = leftover::mark(&mark, &scenario.id, base)?;
    let interrupted = CancellationToken::new();
    let token = interrupted.clone();
    tokio::spawn(async move {
        course::until_interrupted().await;
        eprintln!("restoring what was broken, and stopping …");
        token.cancel();
    });
    eprintln!("{}: {} (at most {} s)", scenario.id, scenario.title, scenario.max_duration.0.as_secs());
    let record = match course::run(&scenario, &stack, &folder, &interrupted).await {
        Err(error) if interrupted.is_cancelled() => {
            eprintln!("aborted: {error:#}");
            return Ok(Verdict::Aborted.exit_code());
        }
        record => record?,
    };
    print(&record);
    let json = cli.json.unwrap_or_else(|| folder.join(format!("{}.json", scenario.id)));
    let text = serde_json::to_vec_pretty(&record)?;
    fs::write(&json, text).with_context(|| format!("cannot write {}", json.display()))?;
    eprintln!("  record         {}", json.display());
    Ok(record.verdict.exit_code())
}

/// The scenario, or nothing once that its mistakes are told.
fn read(file: &Path) -> Result<Option<Scenario>> {
    let text = fs::read_to_string(file).with_context(|| format!("no drill {} (./dev drill list)", file.display()))?;
    match scenario::read(&file.display().to_string(), &text) {
        Ok(scenario) => Ok(Some(scenario)),
        Err(mistakes) => {
            mistakes.iter().for_each(|mistake| eprintln!("{mistake}"));
            Ok(None)
        }
    }
}

fn list() -> Result<u8> {
    let folder = scenarios();
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let mut code = 0;
    for file in files {
        match read(&file)? {
            Some(scenario) => say(&format!("{:<28} {}", scenario.id, scenario.title)),
            None => code = INCONCLUSIVE,
        }
    }
    Ok(code)
}

/// A name has neither a folder nor an ending.
fn file_of(what: &str) -> PathBuf {
    let path = Path::new(what);
    if path.extension().is_some() || path.components().count() > 1 {
        path.to_path_buf()
    } else {
        scenarios().join(format!("{what}.toml"))
    }
}

fn scenarios() -> PathBuf {
    env::var_os("DEV_CHECKOUT").map(PathBuf::from).unwrap_or_default().join("drills").join("scenarios")
}

fn print(record: &Record) {
    say(&record.to_string());
}

/// Whoever listened may have left.
fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
