//! Of what clients were answered, second by second.

use load::{Kind, Outcome};

use super::Curve;
use crate::log::Log;

pub(super) fn by_second(log: &Log, seconds: f64, wanted: impl Fn(Outcome) -> bool) -> Vec<(f64, f64)> {
    let mut counts = vec![0.0; seconds as usize];
    for seen in log.answers.iter().filter(|seen| wanted(seen.outcome)) {
        if let Some(count) = counts.get_mut(seen.due.as_secs() as usize) {
            *count += 1.0;
        }
    }
    middles().zip(counts).collect()
}

/// Where the figure of a whole second is drawn.
fn middles() -> impl Iterator<Item = f64> {
    (0_u32..).map(|second| f64::from(second) + 0.5)
}

/// A second without answers has no point.
pub(super) fn percentiles(log: &Log, seconds: f64, wanted: impl Fn(Kind) -> bool) -> Vec<Curve> {
    let mut latencies = vec![Vec::new(); seconds as usize];
    for seen in log.answers.iter().filter(|seen| wanted(seen.kind)) {
        if let Some(all) = latencies.get_mut(seen.due.as_secs() as usize) {
            all.push(seen.latency.as_secs_f64() * 1_000.0);
        }
    }
    latencies.iter_mut().for_each(|all| all.sort_by(f64::total_cmp));
    let curve = |percentile: f64| {
        let of = |all: &Vec<f64>| {
            let rank = (percentile / 100.0 * all.len() as f64).ceil() as usize;
            all.get(rank.max(1) - 1).copied()
        };
        let points = middles().zip(&latencies).filter_map(|(at, all)| Some((at, of(all)?)));
        Curve { name: format!("p{percentile}"), points: points.collect() }
    };
    [50.0, 95.0, 99.0].map(curve).into()
}
