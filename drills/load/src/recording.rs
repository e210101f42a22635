//! What happened in a run, second by second.
//!
//! A request belongs to the second of its *intended* start, whenever its answer came: so the outcomes of a second add
//! up to its arrivals, and a window over a fault holds exactly the requests of users who came during the fault. When
//! answers really arrived is counted beside it.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use hdrhistogram::Histogram;

use crate::{
    generator::Limits,
    mix::Kind,
    request::{Answer, Outcome},
};

/// One second of a run.
#[derive(Debug, Clone, Default)]
pub struct Second {
    /// Requests that were due.
    pub arrivals: u64,
    /// Of them, those that were never sent, because the generator had as many in flight as it may.
    pub saturated: u64,
    /// Answers that arrived in this second, to whatever request.
    pub answered: u64,
    /// Of them, those after which the client asked again.
    pub retried: u64,
    /// The most requests in flight when one was sent.
    pub in_flight: u64,
    /// Latencies in microseconds.
    pub cells: BTreeMap<(Kind, Outcome), Latencies>,
}

/// Microseconds from the intended start, to within one per cent.
pub type Latencies = Histogram<u32>;

/// A whole run.
#[derive(Debug, Clone)]
pub struct Recording {
    pub limits: Limits,
    pub seconds: Vec<Second>,
    /// How late requests left, in microseconds.
    pub lag: Latencies,
    /// From the start to the last answer.
    pub elapsed: Duration,
    /// Whether the run was ended before its plan.
    pub stopped: bool,
}

/// Why the generator, and not the system, may be what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    #[error("generator saturated: {unsent} requests were not sent, because {cap} were in flight already")]
    Saturated { unsent: u64, cap: usize },
    #[error("generator late: one request in a hundred left {} ms after its time or later", .p99.as_millis())]
    Late { p99: Duration },
}

/// Longer waits are counted as this one.
const LONGEST: Duration = Duration::from_secs(600);

impl Recording {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, seconds: Vec::new(), lag: latencies(), elapsed: Duration::ZERO, stopped: false }
    }

    pub(crate) fn arrival(&mut self, at: Duration) {
        self.second(at).arrivals += 1;
    }

    pub(crate) fn unsent(&mut self, at: Duration) {
        self.second(at).saturated += 1;
    }

    pub(crate) fn sent(&mut self, at: Duration, lag: Duration, in_flight: usize) {
        record(&mut self.lag, lag);
        let second = self.second(at);
        second.in_flight = second.in_flight.max(in_flight as u64);
    }

    pub(crate) fn answer(&mut self, answer: &Answer) {
        let now = self.second(answer.answered);
        now.answered += 1;
        if !answer.last {
            // Its request is not over: it counts once, with how it ends.
            now.retried += 1;
            return;
        }
        let cell = (answer.request.kind, answer.outcome);
        let cells = &mut self.second(answer.intended).cells;
        record(cells.entry(cell).or_insert_with(latencies), answer.latency());
    }

    #[must_use]
    pub fn arrivals(&self) -> u64 {
        self.seconds.iter().map(|second| second.arrivals).sum()
    }

    #[must_use]
    pub fn saturated(&self) -> u64 {
        self.seconds.iter().map(|second| second.saturated).sum()
    }

    /// What clients asked again, on top of the arrivals.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.seconds.iter().map(|second| second.retried).sum()
    }

    /// Whether the figures speak of the system at all.
    #[must_use]
    pub fn doubt(&self) -> Option<Doubt> {
        let (unsent, p99) = (self.saturated(), Duration::from_micros(self.lag.value_at_quantile(0.99)));
        if unsent > 0 {
            Some(Doubt::Saturated { unsent, cap: self.limits.max_in_flight })
        } else if p99 > self.limits.max_lag {
            Some(Doubt::Late { p99 })
        } else {
            None
        }
    }

    /// The latencies of what began in these seconds of the run and is wanted; their number is [`Histogram::len`].
    #[must_use]
    pub fn tally(&self, window: Range<usize>, wanted: impl Fn(Kind, Outcome) -> bool) -> Latencies {
        let mut sum = latencies();
        let window = window.start.min(self.seconds.len())..window.end.min(self.seconds.len());
        for second in self.seconds.get(window).unwrap_or_default() {
            for ((kind, outcome), cell) in &second.cells {
                if wanted(*kind, *outcome) {
                    // Cannot fail: the sum widens itself.
                    let _ = sum.add(cell);
                }
            }
        }
        sum
    }

    fn second(&mut self, at: Duration) -> &mut Second {
        let index = at.as_secs() as usize;
        if self.seconds.len() <= index {
            self.seconds.resize_with(index + 1, Second::default);
        }
        &mut self.seconds[index]
    }
}

/// Two significant figures: a hundredth of the value. It widens itself as values come.
fn latencies() -> Latencies {
    Histogram::new(2).expect("two significant figures are within the histogram's range")
}

fn record(histogram: &mut Latencies, value: Duration) {
    let micros = u64::try_from(value.min(LONGEST).as_micros()).unwrap_or(u64::MAX);
    // Cannot fail: the histogram widens itself up to the longest wait.
    let _ = histogram.record(micros);
}
