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
}

/// One sample of a metric, summed over nothing yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

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
    /// The sum of a metric's samples with these labels, at the last look not later than `at`. `None` before the first.
    #[must_use]
    pub fn level(&self, key: &(String, String), labels: &BTreeMap<String, String>, at: Duration) -> Option<f64> {
        let look = self.looks.iter().take_while(|look| look.at <= at).last()?;
        Some(look.sum(key, labels))
    }
}

impl Look {
    #[must_use]
    pub fn sum(&self, key: &(String, String), labels: &BTreeMap<String, String>) -> f64 {
        let fits = |sample: &&Sample| labels.iter().all(|(name, value)| sample.labels.get(name) == Some(value));
        self.samples.get(key).into_iter().flatten().filter(fits).map(|sample| sample.value).sum()
    }
}
