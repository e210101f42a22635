//! # Last known: the answer of a minute ago, for when there is none now
//!
//! **Problem.** A page needs a figure from a service that does not answer, and a figure that is some minutes old would
//! do, if only it said so.
//!
//! **Rule.** Every good answer is kept beside being given, with the time when it was true. When the source fails, the
//! last one stands in for it, unless it is older than `max_age`. Nothing is asked of any other machine, so this works
//! when everything else does not. At most `capacity` answers are kept; the one that was true longest ago goes first.
//!
//! **Not for** sparing the source: every call asks it. Not for decisions that must be right, such as whether there is
//! stock to sell. Each process knows only what it has seen itself: one that has just started knows nothing.
//!
//! **When you copy this**, set `max_age` to the age at which an old answer is worse than none, and mind that `capacity`
//! counts answers, not bytes.
//!
//! **Proved by** the drills `inventory-plus-300ms` and `recommendation-down`.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::millis;

/// The limits of one memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LastKnownConfig {
    /// Answers kept at once.
    pub capacity: NonZeroUsize,
    /// An answer older than this is not used any more.
    #[serde(rename = "max_age_ms", with = "millis")]
    pub max_age: Duration,
}

impl Default for LastKnownConfig {
    fn default() -> Self {
        // A few hundred KiB of small answers; ten minutes outlast the restart of a source.
        Self { capacity: NonZeroUsize::MIN.saturating_add(499), max_age: Duration::from_secs(600) }
    }
}

/// The last answer for each of the keys that were asked for most lately.
#[derive(Debug)]
pub struct LastKnown<T> {
    state: Mutex<State<T>>,
}

/// There is no answer that may still be used. It has no `retry_after`: only the source can end this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nothing is known that is fresh enough")]
pub struct NothingKnown;

/// For metrics and people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LastKnownSnapshot {
    pub entries: usize,
    pub capacity: usize,
    /// Times that an old answer was given.
    pub recalled_total: u64,
}

impl<T: Clone> LastKnown<T> {
    #[must_use]
    pub fn new(config: LastKnownConfig) -> Self {
        let state = State { config, entries: HashMap::new(), by_age: BTreeMap::new(), next: 0, recalled: 0 };
        Self { state: Mutex::new(state) }
    }

    /// Other limits. Answers above a smaller capacity go at once.
    pub fn reconfigure(&self, config: LastKnownConfig) {
        let mut state = self.state();
        if state.config != config {
            state.config = config;
            state.shrink_to(config.capacity.get());
        }
    }

    /// What the source has just said.
    pub fn keep(&self, key: &str, value: T) {
        let mut state = self.state();
        state.remove(key);
        let room = state.config.capacity.get() - 1;
        state.shrink_to(room);
        let (turn, key) = (state.next, Arc::<str>::from(key));
        state.next += 1;
        state.by_age.insert(turn, key.clone());
        state.entries.insert(key, Entry { turn, at: Instant::now(), value });
    }

    /// The source says that there is no such thing any more. Whether there was.
    pub fn forget(&self, key: &str) -> bool {
        self.state().remove(key)
    }

    /// What it said last, and how long ago.
    pub fn recall(&self, key: &str) -> Result<(T, Duration), NothingKnown> {
        let mut state = self.state();
        let entry = state.entries.get(key).ok_or(NothingKnown)?;
        let age = entry.at.elapsed();
        if age > state.config.max_age {
            state.remove(key);
            return Err(NothingKnown);
        }
        let value = entry.value.clone();
        state.recalled += 1;
        Ok((value, age))
    }

    #[must_use]
    pub fn snapshot(&self) -> LastKnownSnapshot {
        let state = self.state();
        LastKnownSnapshot {
            entries: state.entries.len(),
            capacity: state.config.capacity.get(),
            recalled_total: state.recalled,
        }
    }

    /// Each change of the state is whole before anything in it could panic.
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct State<T> {
    config: LastKnownConfig,
    entries: HashMap<Arc<str>, Entry<T>>,
    /// The same keys by the turn in which they were kept.
    by_age: BTreeMap<u64, Arc<str>>,
    next: u64,
    recalled: u64,
}

#[derive(Debug)]
struct Entry<T> {
    turn: u64,
    at: Instant,
    value: T,
}

impl<T> State<T> {
    fn remove(&mut self, key: &str) -> bool {
        let removed = self.entries.remove(key);
        if let Some(entry) = &removed {
            self.by_age.remove(&entry.turn);
        }
        removed.is_some()
    }

    fn shrink_to(&mut self, most: usize) {
        while self.entries.len() > most {
            let Some((_, key)) = self.by_age.pop_first() else { return };
            self.entries.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::time::advance;

    use super::*;

    fn memory(capacity: usize) -> LastKnown<u32> {
        let capacity = NonZeroUsize::new(capacity).unwrap();
        LastKnown::new(LastKnownConfig { capacity, max_age: Duration::from_secs(60) })
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_answer_is_recalled_with_its_age_until_it_is_too_old() {
        let known = memory(10);
        assert_eq!(known.recall("tea"), Err(NothingKnown));
        known.keep("tea", 1);
        known.keep("tea", 2);
        advance(Duration::from_secs(60)).await;
        assert_eq!(known.recall("tea"), Ok((2, Duration::from_secs(60))));
        advance(Duration::from_millis(1)).await;
        assert_eq!(known.recall("tea"), Err(NothingKnown));
        assert_eq!(known.snapshot(), LastKnownSnapshot { entries: 0, capacity: 10, recalled_total: 1 });
    }

    #[tokio::test(start_paused = true)]
    async fn the_answer_that_was_true_longest_ago_makes_room() {
        let known = memory(2);
        known.keep("a", 1);
        known.keep("b", 2);
        known.keep("a", 3);
        known.keep("c", 4);
        assert_eq!(known.recall("b"), Err(NothingKnown));
        assert_eq!((known.recall("a").unwrap().0, known.recall("c").unwrap().0), (3, 4));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_gone_is_forgotten_and_a_smaller_capacity_holds_at_once() {
        let known = memory(3);
        for (key, value) in [("a", 1), ("b", 2), ("c", 3)] {
            known.keep(key, value);
        }
        assert!(known.forget("c") && !known.forget("c"));
        assert_eq!(known.recall("c"), Err(NothingKnown));
        known.reconfigure(LastKnownConfig { capacity: NonZeroUsize::MIN, ..LastKnownConfig::default() });
        assert_eq!(known.recall("a"), Err(NothingKnown));
        assert_eq!(known.recall("b").unwrap().0, 2);
        advance(Duration::from_secs(61)).await;
        assert!(known.recall("b").is_ok(), "the age that counts is the new one");
    }

    proptest! {
        #[test]
        fn memory_stays_within_its_capacity_and_holds_the_latest(keys in proptest::collection::vec(0_u8..20, 1..200)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let _in_runtime = runtime.enter();
            let known = memory(5);
            for (nth, key) in (0..).zip(&keys) {
                known.keep(&key.to_string(), nth);
                prop_assert!(known.snapshot().entries <= 5);
                prop_assert_eq!(known.state().entries.len(), known.state().by_age.len());
            }
            let mut latest: Vec<_> = (0_u32..).zip(&keys).collect();
            latest.reverse();
            let mut seen = std::collections::HashSet::new();
            latest.retain(|(_, key)| seen.insert(**key));
            for (nth, key) in latest.iter().take(5) {
                prop_assert_eq!(known.recall(&key.to_string()).map(|found| found.0), Ok(*nth));
            }
        }
    }
}
