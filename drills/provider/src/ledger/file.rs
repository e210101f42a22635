//! The ledger on disk: one JSON line an entry, appended and synced, read back at the start.
//!
//! A process that is killed while it writes leaves the beginning of a line. Nobody was answered about it yet, so it is
//! cut off. Damage anywhere else is no such thing, and stops the start.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use super::book::{Book, Entry, Unwritten};

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot {act} the ledger {path}: {reason}", path = path.display())]
    Io { act: &'static str, path: PathBuf, reason: io::Error },
    #[error("the ledger {path} is in use by another process", path = path.display())]
    InUse { path: PathBuf },
    #[error("the ledger {path} is damaged in line {line}: {reason}", path = path.display())]
    Damaged { path: PathBuf, line: usize, reason: serde_json::Error },
}

pub struct LedgerFile(pub(super) File);

impl LedgerFile {
    /// Opens or creates the file, takes it for this process alone, and reads what is in it.
    pub fn open(path: &Path) -> Result<(Self, Book), OpenError> {
        let failed = |act| move |reason| OpenError::Io { act, path: path.to_owned(), reason };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed("make the folder of"))?;
        }
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed("open"))?;
        // Two writers would each believe in a book of their own.
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => OpenError::InUse { path: path.to_owned() },
            TryLockError::Error(reason) => failed("lock")(reason),
        })?;

        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed("read"))?;
        let (book, end) =
            replay(&bytes).map_err(|(line, reason)| OpenError::Damaged { path: path.to_owned(), line, reason })?;
        match end {
            End::Clean => {}
            End::Torn { keep } => {
                tracing::warn!(ledger = %path.display(), bytes = bytes.len() - keep, "cut off a torn last line");
                let keep = u64::try_from(keep).unwrap_or(u64::MAX);
                file.set_len(keep).and_then(|()| file.sync_data()).map_err(failed("repair"))?;
            }
            End::Unterminated => {
                file.write_all(b"\n").and_then(|()| file.sync_data()).map_err(failed("repair"))?;
            }
        }
        Ok((Self(file), book))
    }

    /// Returns once the entries are on disk. After an error it is unknown how much of them is.
    pub fn write(&mut self, unwritten: &Unwritten) -> io::Result<()> {
        if unwritten.clear_first {
            self.0.set_len(0)?;
        }
        let mut lines = Vec::new();
        for entry in &unwritten.entries {
            serde_json::to_writer(&mut lines, entry)?;
            lines.push(b'\n');
        }
        self.0.write_all(&lines)?;
        self.0.sync_data()
    }
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Clean,
    /// The last line cannot be read; what comes before it is `keep` bytes long.
    Torn {
        keep: usize,
    },
    /// The last line is whole, but for its line feed.
    Unterminated,
}

fn replay(bytes: &[u8]) -> Result<(Book, End), (usize, serde_json::Error)> {
    let mut book = Book::default();
    let mut start = 0;
    for (index, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        let last = start + line.len() == bytes.len();
        match serde_json::from_slice::<Entry>(line) {
            Ok(entry) => book.replay(entry),
            Err(_) if last => return Ok((book, End::Torn { keep: start })),
            Err(reason) => return Err((index + 1, reason)),
        }
        start += line.len();
    }
    let end = if bytes.is_empty() || bytes.ends_with(b"\n") { End::Clean } else { End::Unterminated };
    Ok((book, end))
}

#[cfg(test)]
mod tests {
    use chrono::Utc;
    use contracts::provider::LedgerRefund;

    use super::*;

    fn line(key: &str) -> Vec<u8> {
        let refund = LedgerRefund {
            id: format!("re-{key}"),
            key: key.to_owned(),
            charge_id: "ch".to_owned(),
            amount_minor: 1,
            at: Utc::now(),
        };
        let mut line = serde_json::to_vec(&Entry::Refund(refund)).unwrap();
        line.push(b'\n');
        line
    }

    #[test]
    fn wherever_the_last_line_is_torn_the_lines_before_it_are_kept() {
        let (first, second) = (line("a"), line("b"));
        for cut in 1..second.len() - 1 {
            let bytes = [&first[..], &second[..cut]].concat();
            let (book, end) = replay(&bytes).unwrap();
            assert_eq!(end, End::Torn { keep: first.len() }, "cut after {cut} bytes");
            assert_eq!(book.ledger().refunds.len(), 1);
        }
        let bytes = [&first[..], &second[..second.len() - 1]].concat();
        let (book, end) = replay(&bytes).unwrap();
        assert_eq!((end, book.ledger().refunds.len()), (End::Unterminated, 2));
    }

    #[test]
    fn damage_before_the_last_line_is_an_error_that_names_the_line() {
        let bytes = [&line("a")[..], b"{\"kind\":\n", &line("b")[..]].concat();
        let (at, _) = replay(&bytes).unwrap_err();
        assert_eq!(at, 2);
    }
}
