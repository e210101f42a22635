//! `logs`: the logs of one process or of all, each line with the name of the process before it.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write, stdout},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use tokio::time::sleep;

use crate::{
    args::Target,
    layout::{Checkout, Layout},
    state::the_system,
};

const LOOK_EVERY: Duration = Duration::from_millis(200);

pub async fn run(
    checkout: &Checkout,
    port_base: Option<u16>,
    service: Option<&Target>,
    lines: usize,
    follow: bool,
) -> Result<()> {
    let layout = layout(checkout, port_base)?;
    let mut logs: Vec<Log> = files(&layout, service)?.into_iter().map(Log::new).collect();
    let width = logs.iter().map(|log| log.name.len()).max().unwrap_or_default();
    let mut most = lines;
    loop {
        for log in &mut logs {
            // It may be gone for a moment, while a new run begins.
            let fresh = log.read().unwrap_or_default();
            let skip = fresh.len().saturating_sub(most);
            if print(&log.name, width, &fresh[skip..]).is_err() {
                // Nobody listens any more.
                return Ok(());
            }
        }
        if !follow {
            return Ok(());
        }
        most = usize::MAX;
        sleep(LOOK_EVERY).await;
    }
}

/// The running system's, or else the only one's that ever ran.
fn layout(checkout: &Checkout, port_base: Option<u16>) -> Result<Layout> {
    if let Some((layout, _)) = the_system(checkout, port_base)? {
        return Ok(layout);
    }
    match (port_base, checkout.bases().as_slice()) {
        (Some(base), _) => Ok(checkout.layout(base)),
        (None, [base]) => Ok(checkout.layout(*base)),
        (None, []) => bail!("nothing has run here yet"),
        (None, bases) => bail!("choose the logs of one run with --port-base, of {bases:?}"),
    }
}

fn files(layout: &Layout, service: Option<&Target>) -> Result<Vec<PathBuf>> {
    let folder = layout.logs();
    let entries = fs::read_dir(&folder).with_context(|| format!("no logs in {}", folder.display()))?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "log")).collect();
    files.sort();
    let Some(target) = service else { return Ok(files) };
    let names: Vec<String> = files.iter().map(|file| name(file)).collect();
    files.retain(|file| matches(&name(file), target));
    if files.is_empty() {
        bail!("no log of that name; there are {}", names.join(", "));
    }
    Ok(files)
}

fn name(file: &std::path::Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// `order` means `order-0`, `order-1` …, and a name without a number itself.
fn matches(log: &str, target: &Target) -> bool {
    match (target.replica, log.rsplit_once('-')) {
        (Some(k), _) => log == format!("{}-{k}", target.name),
        (None, Some((name, k))) if k.parse::<u16>().is_ok() => name == target.name,
        (None, _) => log == target.name,
    }
}

fn print(name: &str, width: usize, lines: &[String]) -> io::Result<()> {
    let mut out = stdout().lock();
    for line in lines {
        writeln!(out, "{name:<width$} | {line}")?;
    }
    out.flush()
}

struct Log {
    path: PathBuf,
    name: String,
    at: u64,
    /// A line whose end has not been written yet.
    rest: Vec<u8>,
}

impl Log {
    fn new(path: PathBuf) -> Self {
        Self { name: name(&path), path, at: 0, rest: Vec::new() }
    }

    /// The whole lines added since the last look.
    fn read(&mut self) -> io::Result<Vec<String>> {
        let mut file = File::open(&self.path)?;
        if file.metadata()?.len() < self.at {
            // A new run began a new log.
            self.at = 0;
            self.rest.clear();
        }
        file.seek(SeekFrom::Start(self.at))?;
        let mut fresh = std::mem::take(&mut self.rest);
        self.at += file.read_to_end(&mut fresh)? as u64;
        let whole = fresh.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
        self.rest = fresh.split_off(whole);
        Ok(String::from_utf8_lossy(&fresh).lines().map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_all_replicas_and_a_number_one() {
        let target = |text: &str| text.parse::<Target>().unwrap();
        assert!(matches("order-0", &target("order")) && matches("order-1", &target("order")));
        assert!(matches("order-1", &target("order:1")) && !matches("order-0", &target("order:1")));
        assert!(matches("provider-primary", &target("provider-primary")) && matches("redis", &target("redis")));
        assert!(!matches("provider-primary", &target("provider")));
    }

    #[test]
    fn half_a_line_waits_for_its_end_and_a_new_log_is_read_from_its_beginning() {
        let path = std::env::temp_dir().join(format!("half-a-line-{}.log", std::process::id()));
        fs::write(&path, "one\ntw").unwrap();
        let mut log = Log::new(path.clone());
        assert_eq!(log.read().unwrap(), ["one"]);
        fs::write(&path, "one\ntwo\n").unwrap();
        assert_eq!(log.read().unwrap(), ["two"]);
        fs::write(&path, "new\n").unwrap();
        assert_eq!(log.read().unwrap(), ["new"]);
        fs::remove_file(&path).unwrap();
    }
}
