//! The keys of a quota in this process: bounded, the idle ones forgotten.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use super::{account::Account, local::LocalBucket};

/// How a round trip ended, for those who waited for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Landed {
    Answered,
    Unanswered,
}

pub(super) type Landing = watch::Receiver<Option<Landed>>;

pub(super) struct Entry {
    pub counter: String,
    /// Weight of the requests that wait for a lease.
    waiting: AtomicU64,
    state: Mutex<State>,
}

pub(super) struct State {
    pub account: Account,
    pub local: LocalBucket,
    /// The one round trip of this key that is under way.
    pub flight: Option<Landing>,
    pub used_at: Instant,
}

impl Entry {
    fn new(counter: String, now: Instant) -> Arc<Self> {
        let state = State { account: Account::new(now), local: LocalBucket::new(now), flight: None, used_at: now };
        Arc::new(Self { counter, waiting: AtomicU64::new(0), state: Mutex::new(state) })
    }

    /// Nothing that can panic runs under this lock.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }

    pub(super) fn wait(&self, weight: u32) -> Waiting<'_> {
        self.waiting.fetch_add(u64::from(weight), Relaxed);
        Waiting { entry: self, weight }
    }
}

/// Taken back on every path, also when the caller goes away.
pub(super) struct Waiting<'a> {
    entry: &'a Entry,
    weight: u32,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.entry.waiting.fetch_sub(u64::from(self.weight), Relaxed);
    }
}

pub(super) struct Keys {
    stem: String,
    max: usize,
    /// An entry unused for so long knows nothing that a new one would not: its lease has ended, its bucket is full.
    idle_after: Duration,
    entries: RwLock<Entries>,
    /// Of all keys beyond the bound: together they have one quota, so that a flood of keys is no way around it.
    beyond: Arc<Entry>,
}

struct Entries {
    by_key: HashMap<Box<str>, Arc<Entry>>,
    swept_at: Instant,
}

impl Keys {
    pub(super) fn new(stem: String, max: usize, window: Duration, now: Instant) -> Self {
        let beyond = Entry::new(format!("{stem}beyond"), now);
        let entries = RwLock::new(Entries { by_key: HashMap::new(), swept_at: now });
        Self { stem, max, idle_after: 2 * window, entries, beyond }
    }

    pub(super) fn entry(&self, key: &str, now: Instant) -> Arc<Entry> {
        if let Some(entry) = self.entries.read().unwrap_or_else(PoisonError::into_inner).by_key.get(key) {
            return entry.clone();
        }
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if entries.by_key.len() >= self.max && now >= entries.swept_at + self.idle_after.min(Duration::from_secs(1)) {
            entries.swept_at = now;
            // Only this map makes clones, under this lock, so a count of one means that nobody uses the entry.
            let idle =
                |entry: &Arc<Entry>| Arc::strong_count(entry) == 1 && now >= entry.state().used_at + self.idle_after;
            entries.by_key.retain(|_, entry| !idle(entry));
            entries.by_key.shrink_to_fit();
        }
        if let Some(entry) = entries.by_key.get(key) {
            return entry.clone();
        }
        if entries.by_key.len() >= self.max {
            return self.beyond.clone();
        }
        let entry = Entry::new(format!("{}key:{key}", self.stem), now);
        entries.by_key.insert(key.into(), entry.clone());
        entry
    }

    pub(super) fn forget_refusals(&self) {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.by_key.values().chain([&self.beyond]).for_each(|entry| entry.state().account.forget_refusal());
    }

    pub(super) fn len(&self) -> usize {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).by_key.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn beyond_the_bound_keys_share_one_entry_until_idle_ones_have_gone() {
        let window = Duration::from_secs(1);
        let keys = Keys::new("q:".to_owned(), 2, window, Instant::now());
        let a = keys.entry("a", Instant::now());
        keys.entry("b", Instant::now());
        assert!(Arc::ptr_eq(&keys.entry("a", Instant::now()), &a));
        assert_eq!(keys.entry("c", Instant::now()).counter, "q:beyond");
        assert!(Arc::ptr_eq(&keys.entry("c", Instant::now()), &keys.entry("d", Instant::now())));
        tokio::time::advance(2 * window).await;
        // Still held here, so it stays; b is forgotten.
        assert_eq!(keys.entry("c", Instant::now()).counter, "q:key:c");
        assert!(Arc::ptr_eq(&keys.entry("a", Instant::now()), &a));
        assert_eq!(keys.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_million_keys_leave_no_more_than_the_bound() {
        let keys = Keys::new("q:".to_owned(), 1_000, Duration::from_secs(1), Instant::now());
        for n in 0..1_000_000 {
            keys.entry(&n.to_string(), Instant::now());
        }
        assert_eq!(keys.len(), 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_goes_away_no_longer_counts_as_waiting() {
        let entry = Entry::new("k".to_owned(), Instant::now());
        let waiting = entry.wait(3);
        assert_eq!(entry.waiting(), 3);
        drop(waiting);
        assert_eq!(entry.waiting(), 0);
    }
}
