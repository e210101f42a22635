//! A recording in figures: a table for people, JSON for programs.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use crate::{
    mix::Kind,
    recording::{Latencies, Recording, Second},
    request::Outcome,
};

/// What a run came to.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub seed: u64,
    /// Requests that were due, sent or not.
    pub arrivals: u64,
    /// What clients asked again, on top of them.
    pub retries: u64,
    /// Answers of the 2xx kind.
    pub succeeded: u64,
    pub elapsed_ms: u64,
    /// Whether the run was ended before its plan.
    pub stopped: bool,
    pub generator: Generator,
    /// By kind and outcome.
    pub requests: Vec<Row>,
    pub all: Option<Percentiles>,
    pub seconds: Vec<SecondRow>,
}

/// How the generator itself did. The system is not to blame for any of this.
#[derive(Debug, Clone, Serialize)]
pub struct Generator {
    pub max_in_flight: usize,
    pub in_flight_peak: u64,
    /// Requests that were not sent, because too many were in flight.
    pub saturated: u64,
    /// How late requests left.
    pub lag: Option<Percentiles>,
    /// Why the figures may not speak of the system; a run with one is inconclusive.
    pub doubt: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub kind: Kind,
    pub outcome: Outcome,
    pub count: u64,
    pub latency: Percentiles,
}

/// The requests that were due in one second, and the answers that arrived in it.
#[derive(Debug, Clone, Serialize)]
pub struct SecondRow {
    pub second: usize,
    pub arrivals: u64,
    pub saturated: u64,
    pub answered: u64,
    pub retried: u64,
    pub in_flight: u64,
    pub outcomes: BTreeMap<String, u64>,
    pub latency: Option<Percentiles>,
}

/// In milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Percentiles {
    /// `None` of nothing.
    #[must_use]
    pub fn of(latencies: &Latencies) -> Option<Self> {
        let at = |quantile| latencies.value_at_quantile(quantile) as f64 / 1000.0;
        (!latencies.is_empty()).then(|| Self {
            mean: (latencies.mean()).round() / 1000.0,
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: latencies.max() as f64 / 1000.0,
        })
    }
}

impl Report {
    #[must_use]
    pub fn new(recording: &Recording, seed: u64) -> Self {
        let whole = 0..recording.seconds.len();
        let mut cells: Vec<(Kind, Outcome)> = recording.seconds.iter().flat_map(|s| s.cells.keys().copied()).collect();
        cells.sort_unstable();
        cells.dedup();
        let row = |(kind, outcome)| {
            let latencies = recording.tally(whole.clone(), |k, o| (k, o) == (kind, outcome));
            Percentiles::of(&latencies).map(|latency| Row { kind, outcome, count: latencies.len(), latency })
        };
        Self {
            seed,
            arrivals: recording.arrivals(),
            retries: recording.retries(),
            succeeded: recording.tally(whole.clone(), |_, outcome| outcome.is_success()).len(),
            elapsed_ms: u64::try_from(recording.elapsed.as_millis()).unwrap_or(u64::MAX),
            stopped: recording.stopped,
            generator: Generator {
                max_in_flight: recording.limits.max_in_flight,
                in_flight_peak: recording.seconds.iter().map(|second| second.in_flight).max().unwrap_or(0),
                saturated: recording.saturated(),
                lag: Percentiles::of(&recording.lag),
                doubt: recording.doubt().map(|doubt| doubt.to_string()),
            },
            requests: cells.into_iter().filter_map(row).collect(),
            all: Percentiles::of(&recording.tally(whole, |_, _| true)),
            seconds: (0..).zip(&recording.seconds).map(|(n, second)| second_row(recording, n, second)).collect(),
        }
    }
}

fn second_row(recording: &Recording, number: usize, second: &Second) -> SecondRow {
    let mut outcomes = BTreeMap::new();
    for ((_, outcome), cell) in &second.cells {
        *outcomes.entry(outcome.to_string()).or_insert(0) += cell.len();
    }
    SecondRow {
        second: number,
        arrivals: second.arrivals,
        saturated: second.saturated,
        answered: second.answered,
        retried: second.retried,
        in_flight: second.in_flight,
        outcomes,
        latency: Percentiles::of(&recording.tally(number..number + 1, |_, _| true)),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.elapsed_ms as f64 / 1000.0;
        let early = if self.stopped { ", stopped early" } else { "" };
        writeln!(f, "{} requests were due, {} succeeded, {seconds:.1} s{early}\n", self.arrivals, self.succeeded)?;
        writeln!(f, "{:<14}{:>10}{:>9}{LATENCIES}", "request", "outcome", "count")?;
        for row in &self.requests {
            writeln!(f, "{:<14}{:>10}{:>9}{}", row.kind, row.outcome, row.count, row.latency)?;
        }
        if let Some(all) = &self.all {
            let count: u64 = self.requests.iter().map(|row| row.count).sum();
            writeln!(f, "{:<14}{:>10}{count:>9}{all}", "all", "")?;
        }
        if let Some(lag) = &self.generator.lag {
            writeln!(f, "{:<33}{lag}", "generator's lag")?;
        }
        let generator = &self.generator;
        writeln!(f, "\nmilliseconds, from the moment at which a request was due")?;
        write!(f, "in flight at most {} of {}", generator.in_flight_peak, generator.max_in_flight)?;
        match &generator.doubt {
            Some(doubt) => write!(f, "\ninconclusive: {doubt}"),
            None => Ok(()),
        }
    }
}

const LATENCIES: &str = "      mean       p50       p90       p99     p99.9       max";

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        [self.mean, self.p50, self.p90, self.p99, self.p999, self.max].iter().try_for_each(|ms| write!(f, "{ms:>10.1}"))
    }
}
