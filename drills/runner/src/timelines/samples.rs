//! From looks at metrics to gauges and rates.

use std::collections::BTreeMap;

use super::Curve;
use crate::{
    log::{Look, Sample},
    watched,
};

/// The services that are looked at, with the samples of a metric of theirs, look by look.
pub(super) fn looks_at<'a>(looks: &'a [Look], metric: &'a str) -> impl Iterator<Item = (f64, String, &'a Vec<Sample>)> {
    looks.iter().flat_map(move |look| {
        let found = watched::SERVICES.iter().filter_map(move |service| {
            let samples = look.samples.get(&(service.to_string(), metric.to_owned()))?;
            Some((look.at.as_secs_f64(), service.to_string(), samples))
        });
        found.collect::<Vec<_>>()
    })
}

/// `order → payment`, `order: rate_limit.user`, `recommendation`, `order`.
pub(super) fn named(service: &str, sample: &Sample) -> String {
    let label = |name: &str| sample.labels.get(name);
    match (label("downstream"), label("mechanism"), label("feature")) {
        (Some(callee), Some(mechanism), _) => format!("{service} → {callee}: {mechanism}"),
        (Some(callee), None, _) => format!("{service} → {callee}"),
        (None, Some(mechanism), _) => format!("{service}: {mechanism}"),
        (None, None, Some(feature)) => feature.clone(),
        (None, None, None) => service.to_owned(),
    }
}

/// A gauge, over all replicas that were seen; by service and name.
pub(super) fn gauges(looks: &[Look], metric: &str) -> BTreeMap<(String, String), Vec<(f64, f64)>> {
    let mut curves: BTreeMap<(String, String), Vec<(f64, f64)>> = BTreeMap::new();
    for (at, service, samples) in looks_at(looks, metric) {
        for sample in samples {
            let points = curves.entry((service.clone(), named(&service, sample))).or_default();
            match points.last_mut() {
                Some(last) if last.0 == at => last.1 += sample.value,
                _ => points.push((at, sample.value)),
            }
        }
    }
    curves
}

/// A service, and the labels of one of its counters.
type Series<'a> = (String, &'a BTreeMap<String, String>);

/// What counters rose by since they were seen last, and over which time; by name. A counter that is seen for the first
/// time began at 0, unless that was the first look of all; one that fell belongs to a process that was started again.
pub(super) fn rises(looks: &[Look], metric: &str) -> BTreeMap<String, Vec<(f64, f64, f64)>> {
    let first = looks.first().map_or(0.0, |look| look.at.as_secs_f64());
    let mut before: BTreeMap<Series<'_>, (f64, f64)> = BTreeMap::new();
    let mut rises: BTreeMap<String, Vec<(f64, f64, f64)>> = BTreeMap::new();
    let look_before = |at: f64| looks.iter().map(|look| look.at.as_secs_f64()).take_while(|t| *t < at).last();
    for (at, service, samples) in looks_at(looks, metric) {
        for sample in samples {
            let name = named(&service, sample);
            let last = before.insert((service.clone(), &sample.labels), (at, sample.value));
            let (since, value) = match last {
                Some(last) => last,
                None if at == first => continue,
                None => (look_before(at).unwrap_or(first), 0.0),
            };
            rises.entry(name).or_default().push((at, (sample.value - value).max(0.0), at - since));
        }
    }
    rises
}

/// A second, over all replicas.
pub(super) fn rates(looks: &[Look], metric: &str) -> impl Iterator<Item = Curve> {
    rises(looks, metric).into_iter().map(|(name, rises)| {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (at, rise, over) in rises.into_iter().filter(|(_, _, over)| *over > 0.0) {
            match points.last_mut() {
                Some(last) if last.0 == at => last.1 += rise / over,
                _ => points.push((at, rise / over)),
            }
        }
        Curve { name, points }
    })
}
