//! What a run observed: every answer, and the metrics that its checks speak of, at their times.

use std::{collections::BTreeMap, time::Duration};

use load::{Kind, Outcome};

use crate::scenario::Window;

/// An answer, at the time at which its request was due.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    pub due: Duration,
    pub kind: Kind,
    pub outcome: Outcome,
    pub latency: Duration,
    /// Of the user who wants most, or for what everybody wants.
    pub hot: bool,
    /// How often its client asked for it: this is the answer to the last time.
    pub tries: u32,
}

/// A charge at the provider.
#[derive(Debug, Clone, Copy)]
pub struct Charged {
    /// When the request for its order was due.
    pub due: Duration,
    /// From when that request left until the charge was decided.
    pub delay: Duration,
}

/// One sample of a metric, summed over nothing yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// The label under which looks keep apart what replicas say.
pub const REPLICA: &str = "replica";

/// All samples of the wanted metrics, by (service, metric), at one time.
#[derive(Debug, Clone, Default)]
pub struct Look {
    pub at: Duration,
    pub samples: BTreeMap<(String, String), Vec<Sample>>,
}

#[derive(Debug, Clone, Default)]
pub struct Log {
    pub answers: Vec<Seen>,
    pub looks: Vec<Look>,
    /// How often the faults of each link were applied.
    pub applied: BTreeMap<String, u64>,
    pub charges: Vec<Charged>,
    /// Crash points at which a process died.
    pub crashes: u32,
}

/// When what was: all from the start of the load.
#[derive(Debug, Clone, Copy)]
pub struct Timeline {
    pub warm_up: Duration,
    /// The start of the first fault; the end where there is none.
    pub broken: Duration,
    /// The end of the last fault.
    pub restored: Duration,
    pub end: Duration,
}

impl Timeline {
    #[must_use]
    pub fn window(&self, window: Window) -> (Duration, Duration) {
        match window {
            Window::Before => (self.warm_up, self.broken),
            Window::During => (self.broken, self.restored),
            Window::After => (self.restored, self.end),
            Window::Whole => (self.warm_up, self.end),
        }
    }
}

impl Log {
    /// The sum of a metric's samples with these labels, at the last look not later than `at` at which its service was
    /// seen with it. `None` before the first look; 0 where the metric is not there yet.
    #[must_use]
    pub fn level(&self, key: &(String, String), labels: &BTreeMap<String, String>, at: Duration) -> Option<f64> {
        let mut looks = self.looks.iter().take_while(|look| look.at <= at).peekable();
        looks.peek()?;
        let seen = looks.filter(|look| look.samples.contains_key(key)).last();
        Some(seen.map_or(0.0, |look| look.sum(key, labels)))
    }
}

impl Look {
    #[must_use]
    pub fn sum(&self, key: &(String, String), labels: &BTreeMap<String, String>) -> f64 {
        // A label may name several values: `succeeded|failed`.
        let one_of = |all: &str, value: &String| all.split('|').any(|one| one == value);
        let fits = |sample: &&Sample| {
            labels.iter().all(|(name, all)| sample.labels.get(name).is_some_and(|value| one_of(all, value)))
        };
        self.samples.get(key).into_iter().flatten().filter(fits).map(|sample| sample.value).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_did_not_answer_is_taken_to_stand_where_it_was_seen_last() {
        let key = ("order".to_owned(), "m".to_owned());
        let seen = |at, value| Look {
            at: Duration::from_secs(at),
            samples: BTreeMap::from([(key.clone(), vec![Sample { labels: BTreeMap::new(), value }])]),
        };
        let unseen = |at| Look { at: Duration::from_secs(at), samples: BTreeMap::new() };
        let log = Log { looks: vec![unseen(1), seen(2, 5.0), unseen(3)], ..Log::default() };
        let level = |at| log.level(&key, &BTreeMap::new(), Duration::from_secs(at));
        assert_eq!([level(0), level(1), level(2), level(9)], [None, Some(0.0), Some(5.0), Some(5.0)]);
    }
}
