//! Which drills there are, and which are meant.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::scenario::{self, Scenario};

/// A drill, and how it was asked for.
#[derive(Debug)]
pub struct Drill {
    pub asked: String,
    pub scenario: Scenario,
}

/// Every file of `drills/scenarios/`, in the order of their names.
pub fn files() -> Result<Vec<PathBuf>> {
    let folder = checkout().join("drills").join("scenarios");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    Ok(files)
}

/// What is meant by names, paths and `all`, each once. `Err` lines are mistakes in files.
pub fn find(asked: &[String]) -> Result<Result<Vec<Drill>, Vec<String>>> {
    let mut wanted: Vec<(String, PathBuf)> = Vec::new();
    for asked in asked {
        let found = if asked == "all" {
            let name = |file: &PathBuf| file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            files()?.into_iter().map(|file| (name(&file), file)).collect()
        } else {
            vec![(asked.clone(), file_of(asked))]
        };
        for (asked, file) in found {
            if !wanted.iter().any(|(_, known)| *known == file) {
                wanted.push((asked, file));
            }
        }
    }
    let (mut drills, mut mistakes) = (Vec::new(), Vec::new());
    for (asked, file) in wanted {
        match read(&file)? {
            Ok(scenario) => drills.push(Drill { asked, scenario }),
            Err(found) => mistakes.extend(found),
        }
    }
    Ok(if mistakes.is_empty() { Ok(drills) } else { Err(mistakes) })
}

/// The scenario, or what is wrong with it.
pub fn read(file: &Path) -> Result<Result<Scenario, Vec<String>>> {
    let text = fs::read_to_string(file).with_context(|| format!("no drill {} (./dev drill list)", file.display()))?;
    let read = scenario::read(&file.display().to_string(), &text);
    Ok(read.map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect()))
}

/// A name has neither a folder nor an ending.
fn file_of(asked: &str) -> PathBuf {
    let path = Path::new(asked);
    if path.extension().is_some() || path.components().count() > 1 {
        path.to_path_buf()
    } else {
        checkout().join("drills").join("scenarios").join(format!("{asked}.toml"))
    }
}

/// As `./dev` names it; else the current folder.
#[must_use]
pub fn checkout() -> PathBuf {
    env::var_os("DEV_CHECKOUT").map_or_else(|| PathBuf::from("."), PathBuf::from)
}
