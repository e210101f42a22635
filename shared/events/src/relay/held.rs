//! Keys whose last delivery failed wait for a growing while; the others go on.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

/// More keys than this at a time are not their own fault: then everything waits.
const MAX_KEYS: usize = 1_000;

#[derive(Debug)]
pub(super) struct HeldKeys {
    first: Duration,
    max: Duration,
    keys: HashMap<String, Held>,
    /// Rounds in which nothing went through.
    failures: u32,
}

#[derive(Debug)]
struct Held {
    until: Instant,
    failures: u32,
}

impl HeldKeys {
    pub(super) fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, keys: HashMap::new(), failures: 0 }
    }

    /// The keys that are not tried yet.
    pub(super) fn keys(&self) -> Vec<String> {
        let now = Instant::now();
        self.keys.iter().filter(|(_, held)| held.until > now).map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn hold(&mut self, failed: impl Iterator<Item = String>) {
        for key in failed {
            let failures = self.keys.get(&key).map_or(0, |held| held.failures) + 1;
            let until = Instant::now() + backoff(self.first, self.max, failures);
            self.keys.insert(key, Held { until, failures });
        }
        if self.keys.len() > MAX_KEYS {
            self.all_failed();
        }
    }

    pub(super) fn all_failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.keys.clear();
    }

    pub(super) fn all_went(&mut self, went: Vec<String>) {
        self.failures = 0;
        if !self.keys.is_empty() {
            for key in went {
                self.keys.remove(&key);
            }
        }
    }

    /// How long everything waits.
    pub(super) fn pause(&self) -> Duration {
        backoff(self.first, self.max, self.failures)
    }
}

fn backoff(first: Duration, max: Duration, failures: u32) -> Duration {
    first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> HeldKeys {
        HeldKeys::new(Duration::from_millis(200), Duration::from_secs(5))
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_longer_with_each_failure_up_to_the_bound() {
        let mut held = keys();
        let mut waits = Vec::new();
        for _ in 0..7 {
            held.hold(["a".to_owned()].into_iter());
            let began = Instant::now();
            while !held.keys().is_empty() {
                tokio::time::advance(Duration::from_millis(100)).await;
            }
            waits.push(began.elapsed().as_millis());
        }
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 5000, 5000]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_went_through_starts_over() {
        let mut held = keys();
        held.hold(["a".to_owned(), "b".to_owned()].into_iter());
        held.all_went(vec!["a".to_owned()]);
        assert_eq!(held.keys(), ["b"]);
        assert_eq!(held.keys["b"].failures, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_held_keys_make_everything_wait_instead() {
        let mut held = keys();
        held.hold((0..=MAX_KEYS).map(|n| n.to_string()));
        assert!(held.keys().is_empty());
        assert_eq!(held.pause(), Duration::from_millis(200));
    }
}
