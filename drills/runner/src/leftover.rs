//! A run that was killed cannot tidy up: what it had started is on record, and the next command does.

use std::{fs, io, path::Path, process};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::stack::Stack;

/// Of a run that is under way, or was killed.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    pid: u32,
    /// Tells the process from another one that has got its number since.
    started: String,
    scenario: String,
    base: u16,
    /// Its system consists of containers.
    #[serde(default)]
    compose: bool,
}

/// On record until dropped or killed.
pub struct Marked<'a>(&'a Path);

/// Puts a run on record.
pub fn mark<'a>(file: &'a Path, scenario: &str, stack: &Stack) -> Result<Marked<'a>> {
    let pid = process::id();
    let started = started(pid).context("cannot read /proc")?;
    let (base, compose) = (stack.base, stack.is_composed());
    let mark = Mark { pid, started, scenario: scenario.to_owned(), base, compose };
    fs::write(file, serde_json::to_vec(&mark)?).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(Marked(file))
}

impl Drop for Marked<'_> {
    fn drop(&mut self) {
        // One that stays is looked at, and found to need nothing.
        let _ = fs::remove_file(self.0);
    }
}

/// Stops what a killed run has left, and says so. `None`: there was none. An error: one is under way.
pub async fn clear(file: &Path) -> Result<Option<String>> {
    let text = match fs::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("cannot read {}", file.display()))?,
    };
    // A mark that was half written belongs to a run that had started nothing.
    let Ok(mark) = serde_json::from_slice::<Mark>(&text) else {
        return fs::remove_file(file).map(|()| None).context("cannot remove the mark of an earlier drill");
    };
    if started(mark.pid).is_some_and(|started| started == mark.started) {
        anyhow::bail!("the drill {} is under way (process {})", mark.scenario, mark.pid);
    }
    let stack = if mark.compose { Stack::composed()? } else { Stack::at(mark.base)? };
    stack.down().await?;
    fs::remove_file(file).context("cannot remove the mark of an earlier drill")?;
    Ok(Some(format!("the drill {} was killed: its system and its faults are gone now", mark.scenario)))
}

/// The start time in a process's `stat`: the 22nd field, counted behind the name, which may hold anything. A process
/// that has ended and that nobody has asked after yet is no process any more.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    (state != "Z" && state != "X").then(|| fields.nth(18).map(str::to_owned)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("drill-mark-{}-{name}", process::id()))
    }

    #[tokio::test]
    async fn a_run_that_is_under_way_is_left_alone_and_one_that_ended_is_off_the_record() {
        let file = file("under-way");
        let mark = mark(&file, "payment-slow", &Stack::nowhere(1)).unwrap();
        assert!(clear(&file).await.unwrap_err().to_string().contains("payment-slow is under way"));
        drop(mark);
        assert_eq!(clear(&file).await.unwrap(), None);
    }

    #[test]
    fn a_process_that_has_ended_is_none_even_while_it_is_still_listed() {
        let mut child = process::Command::new("true").spawn().unwrap();
        while started(child.id()).is_some() {
            std::thread::yield_now();
        }
        assert!(started(process::id()).is_some());
        child.wait().unwrap();
    }

    #[tokio::test]
    async fn half_a_mark_is_no_run() {
        let file = file("half");
        fs::write(&file, "{\"pid\":").unwrap();
        assert_eq!(clear(&file).await.unwrap(), None);
        assert!(!file.exists());
    }
}
