//! Of what the system says of itself: places taken, breakers, what was served with less or not at all, what waits.

use std::{collections::BTreeMap, slice};

use super::{
    Course, Curve, Filling, State, Stretch,
    samples::{gauges, looks_at, named, rates, rises},
};
use crate::{
    log::{Look, REPLICA, Sample},
    watched,
};

/// Core callees are shown even if nothing ever happened to their breakers.
const ALWAYS: [&str; 2] = ["order → payment", "payment → provider"];

pub(super) fn fillings(looks: &[Look]) -> Vec<Filling> {
    let pairs = [(watched::IN_FLIGHT, watched::IN_FLIGHT_CAP), (watched::BULKHEAD, watched::BULKHEAD_CAP)];
    let mut fillings = Vec::new();
    for (in_flight, cap) in pairs {
        let mut caps = gauges(looks, cap);
        for ((service, name), points) in gauges(looks, in_flight) {
            let cap = caps.remove(&(service.clone(), name.clone())).unwrap_or_default();
            let name = if name == service { "requests".to_owned() } else { name };
            let curve = |points| Curve { name: name.clone(), points };
            fillings.push(Filling { in_flight: curve(points), cap: curve(cap), service });
        }
    }
    fillings
}

pub(super) fn courses(looks: &[Look], seconds: f64) -> Vec<Course> {
    let ends = looks.iter().skip(1).map(|look| look.at.as_secs_f64()).chain([seconds]);
    let mut courses: BTreeMap<String, Vec<Stretch>> = BTreeMap::new();
    for (look, to) in looks.iter().zip(ends) {
        let ramps = looks_at(slice::from_ref(look), watched::RAMP).collect::<Vec<_>>();
        for (from, service, samples) in looks_at(slice::from_ref(look), watched::BREAKER) {
            for sample in samples {
                let same = |other: &&Sample| other.labels == sample.labels;
                let ramp = ramps.iter().filter(|(_, s, _)| *s == service).find_map(|(_, _, all)| all.iter().find(same));
                let state = state(sample.value);
                let percent = ramp.map(|ramp| ramp.value).filter(|_| state == State::Ramping);
                let stretches = courses.entry(with_replica(named(&service, sample), sample)).or_default();
                match stretches.last_mut() {
                    Some(last) if (last.state, last.percent, last.to) == (state, percent, from) => last.to = to,
                    _ => stretches.push(Stretch { from, to, state, percent }),
                }
            }
        }
    }
    let moved = |name: &str, all: &[Stretch]| {
        ALWAYS.contains(&name) || all.iter().any(|stretch| stretch.state != State::Closed)
    };
    let courses = courses.into_iter().filter(|(name, stretches)| moved(name, stretches));
    courses.map(|(name, stretches)| Course { name, stretches }).collect()
}

/// Each replica has breakers of its own.
fn with_replica(name: String, sample: &Sample) -> String {
    match sample.labels.get(REPLICA).map(String::as_str) {
        None | Some("0") => name,
        Some(replica) => format!("{name} (replica {replica})"),
    }
}

fn state(value: f64) -> State {
    match value as u8 {
        1 => State::Open,
        2 => State::HalfOpen,
        3 => State::Ramping,
        _ => State::Closed,
    }
}

pub(super) fn shares(looks: &[Look], asked: &[(f64, f64)]) -> Vec<Curve> {
    let share = |(name, rises): (String, Vec<(f64, f64, f64)>)| {
        let mut hits = vec![0.0; asked.len()];
        for (at, rise, over) in rises {
            // It rose before the look.
            if let Some(hit) = hits.get_mut((at - over / 2.0) as usize) {
                *hit += rise;
            }
        }
        let share = |((at, asked), hits): (&(f64, f64), f64)| (*asked > 0.0).then(|| (*at, (hits / asked).min(1.0)));
        Curve { name, points: asked.iter().zip(hits).filter_map(share).collect() }
    };
    rises(looks, watched::DEGRADED).into_iter().map(share).filter(Curve::is_not_flat).collect()
}

pub(super) fn refusals(looks: &[Look]) -> Vec<Curve> {
    let kinds = [
        (watched::REFUSED, ""),
        (watched::BULKHEAD_REFUSED, ": bulkhead full"),
        (watched::BREAKER_REFUSED, ": breaker open"),
        (watched::RETRIED, ": retries"),
    ];
    let of = |(metric, word): (&str, &str)| {
        let word = word.to_owned();
        let curves = rates(looks, metric).map(move |curve| Curve { name: format!("{}{word}", curve.name), ..curve });
        curves.collect::<Vec<_>>()
    };
    kinds.into_iter().flat_map(of).filter(Curve::is_not_flat).collect()
}

pub(super) fn backlogs(looks: &[Look]) -> Vec<Curve> {
    let kinds =
        [(watched::PENDING, "payments pending"), (watched::DEFERRED, "payments deferred"), (watched::OUTBOX, "outbox")];
    let of = |(metric, word): (&str, &str)| {
        let word = word.to_owned();
        gauges(looks, metric)
            .into_iter()
            .map(move |((service, _), points)| Curve { name: format!("{service}: {word}"), points })
    };
    kinds.into_iter().flat_map(of).filter(Curve::is_not_flat).collect()
}
