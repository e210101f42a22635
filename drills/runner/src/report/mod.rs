//! A run as a page: one file, no script, nothing to fetch, for a light screen and a dark one.
//!
//! Reading order: [`page`] (what stands where) → [`tables`], [`oracle`] (the numbers) → [`panels`] (which pictures) →
//! [`chart`] (one picture) → [`palette`] (what colours mean) → [`html`], and [`index`] for several drills.

pub mod chart;
pub mod html;
mod index;
pub(crate) mod oracle;
pub mod page;
pub mod palette;
pub mod panels;
mod tables;

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, Result};

use self::page::Around;
use crate::{batch::Row, verdict::Record};

/// Writes a drill's page into `folder`, and says where.
pub fn write(folder: &Path, checkout: &Path, command: &str, record: &Record) -> Result<PathBuf> {
    let pattern = record.pattern.as_ref().map(|pattern| checkout.join(pattern)).filter(|page| page.is_file());
    let pattern = pattern.and_then(|page| Some(link(&folder.canonicalize().ok()?, &page.canonicalize().ok()?)));
    let around = Around { command: command.to_owned(), pattern };
    put(folder.join(format!("{}.html", record.id)), &page::page(record, &around)?)
}

/// Writes the summary into `folder`, and says where.
pub fn write_index(folder: &Path, rows: &[Row]) -> Result<PathBuf> {
    put(folder.join("index.html"), &index::index(rows))
}

fn put(file: PathBuf, text: &str) -> Result<PathBuf> {
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

/// The way from a folder to a file, as a page says it. It goes on leading there when both are moved together.
fn link(folder: &Path, file: &Path) -> String {
    let (from, to): (Vec<Component<'_>>, Vec<Component<'_>>) =
        (folder.components().collect(), file.components().collect());
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = from[common..].iter().map(|_| "..".to_owned());
    let down = to[common..].iter().map(|part| encoded(&part.as_os_str().to_string_lossy()));
    up.chain(down).collect::<Vec<_>>().join("/")
}

fn encoded(part: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    part.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests;
