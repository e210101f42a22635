//! The ledger: what really happened to the money. Nothing that it says can be forgotten.
//!
//! Every answer, be it of a charge or of a lookup, waits until all that it could have seen is on disk. One thread
//! writes; it takes all that came up while it was syncing and syncs that at once, so that the disk is waited for once a
//! batch and not once a charge. When writing fails the ledger refuses everything from then on: it could no longer
//! prove what it says. A restart reads back what did get to the disk.

mod book;
mod file;

use std::{
    io,
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use tokio::sync::watch;

pub use book::{Book, Booked, Refused};
use file::LedgerFile;
pub use file::OpenError;

/// The ledger is closed, or its file could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the ledger cannot be written")]
pub struct Unwritable;

/// A handle for those who read and write entries.
#[derive(Clone)]
pub struct Ledger {
    shared: Arc<Shared>,
    /// How many changes are on disk. Its sender lives in the writer and dies with it.
    durable: watch::Receiver<u64>,
}

/// Owns the writing thread. Dropping it writes what is left and frees the file.
pub struct LedgerWriter {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    book: Book,
    closed: bool,
}

impl Ledger {
    /// Reads the file and starts the writer.
    pub fn open(path: &Path) -> Result<(Self, LedgerWriter), OpenError> {
        let (file, book) = LedgerFile::open(path)?;
        Self::over(file, book).map_err(|reason| OpenError::Io {
            act: "start the writer of",
            path: path.to_owned(),
            reason,
        })
    }

    fn over(file: LedgerFile, book: Book) -> io::Result<(Self, LedgerWriter)> {
        let shared = Arc::new(Shared { state: Mutex::new(State { book, closed: false }), work: Condvar::new() });
        let (sender, durable) = watch::channel(0);
        let thread = thread::Builder::new().name("ledger".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || write_until_closed(&shared, file, &sender)
        })?;
        Ok((Self { shared: Arc::clone(&shared), durable }, LedgerWriter { shared, thread: Some(thread) }))
    }

    /// Reads or changes the book, and returns once all that `act` saw or did is on disk.
    pub async fn act<T>(&self, act: impl FnOnce(&mut Book) -> T) -> Result<T, Unwritable> {
        let (outcome, seen) = {
            let mut state = self.shared.lock();
            if state.closed {
                return Err(Unwritable);
            }
            (act(&mut state.book), state.book.changes())
        };
        self.shared.work.notify_one();
        let mut durable = self.durable.clone();
        durable.wait_for(|written| *written >= seen).await.map_err(|_| Unwritable)?;
        Ok(outcome)
    }
}

impl Drop for LedgerWriter {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has told its readers by dropping its sender.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write_until_closed(shared: &Shared, mut file: LedgerFile, durable: &watch::Sender<u64>) {
    loop {
        let (unwritten, upto) = {
            let mut state = shared.lock();
            while !state.book.has_unwritten() {
                if state.closed {
                    return;
                }
                state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            (state.book.take_unwritten(), state.book.changes())
        };
        if let Err(error) = file.write(&unwritten) {
            tracing::error!(%error, "the ledger cannot be written; every request is refused until a restart");
            return;
        }
        durable.send_replace(upto);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[tokio::test]
    async fn a_ledger_whose_file_cannot_be_written_refuses_everything_from_then_on() {
        let read_only = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
        let (ledger, _writer) = Ledger::over(LedgerFile(read_only), Book::default()).unwrap();
        assert_eq!(ledger.act(|book| book.by_key("k")).await, Ok(None));
        assert_eq!(ledger.act(Book::clear).await, Err(Unwritable));
        assert_eq!(ledger.act(|book| book.by_key("k")).await, Err(Unwritable), "it would show what is not on disk");
    }

    #[tokio::test]
    async fn a_closed_ledger_says_so() {
        let read_only = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
        let (ledger, writer) = Ledger::over(LedgerFile(read_only), Book::default()).unwrap();
        drop(writer);
        assert_eq!(ledger.act(|book| book.ledger()).await, Err(Unwritable));
    }
}
