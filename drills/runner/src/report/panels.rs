//! Which pictures there are of a run, and what is in them. Two runs that are compared share colours and scales, so that
//! what looks higher is higher. Pure.

use std::collections::BTreeMap;

use super::{
    chart::{Axis, Band, Drawing, Form, Frame, Layer, Row, Scale, Shade},
    palette::{CURVES, Role},
};
use crate::{
    scenario::FaultSpec,
    timelines::{Course, Curve, Filling, State, Timelines},
    verdict::Record,
};

/// A picture of each run, in one frame.
#[derive(Debug)]
pub struct Panel {
    pub title: String,
    /// What it shows, and how to read it.
    pub about: String,
    pub keys: Vec<(Role, String)>,
    pub frame: Frame,
    pub drawings: Vec<Drawing>,
}

/// More would be told apart by nobody.
const MOST: usize = CURVES.len();
/// A cap that far above what is in flight would press the curve to the ground.
const FAR_ABOVE: f64 = 6.0;

#[must_use]
pub fn panels(runs: &[&Record]) -> Vec<Panel> {
    let lines: Vec<&Timelines> = runs.iter().map(|run| &run.timelines).collect();
    let frame = |top: f64, scale| Frame {
        label: String::new(),
        length: lines.iter().map(|lines| lines.seconds).fold(1.0, f64::max),
        axis: Axis::Time,
        top,
        scale,
        shades: runs.first().map(|run| shades(&run.faults, run.timelines.unusual)).unwrap_or_default(),
    };
    let curves = |of: fn(&Timelines) -> &Vec<Curve>, scale| {
        let each: Vec<&[Curve]> = lines.iter().map(|lines| of(lines).as_slice()).collect();
        let (keys, drawings) = drawn(&each);
        let top = each.iter().copied().flatten().map(Curve::highest).fold(0.0, f64::max);
        (keys, drawings, frame(roomy(top), scale))
    };
    let panel = |title: &str, about: &str, (keys, drawings, frame): (_, _, Frame)| {
        let frame = Frame { label: format!("{title}: {about}"), ..frame };
        Panel { title: title.to_owned(), about: about.to_owned(), keys, frame, drawings }
    };
    let (keys, drawings) = outcomes(&lines);
    let arrivals = lines.iter().map(|lines| lines.arrivals.highest()).fold(0.0, f64::max);
    let mut panels = vec![
        panel(
            "Arrivals and outcomes",
            "requests a second by what became of them, in the second in which they were due; the line is what was due",
            (keys, drawings, frame(roomy(arrivals), Scale::Linear)),
        ),
        panel("Latency of orders", LATENCY, curves(|lines| &lines.orders, Scale::Decades)),
        panel("Latency of all else", LATENCY, curves(|lines| &lines.others, Scale::Decades)),
    ];
    for service in ["order", "payment"] {
        let (keys, drawings, top, caps) = fillings(&lines, service);
        let about = format!("calls and requests under way; dashed: how many may be. {caps}");
        panels.push(panel(
            &format!("In flight at {service}"),
            about.trim(),
            (keys, drawings, frame(top, Scale::Linear)),
        ));
    }
    let courses: Vec<Drawing> = lines.iter().map(|lines| courses(&lines.breakers)).collect();
    let states = [State::Closed, State::Open, State::HalfOpen, State::Ramping];
    let states = states.map(|state| (colour(state), word(state).to_owned())).into();
    panels.push(panel(
        "Breakers and ramps",
        "the state of every breaker of the core path, and of those to which anything happened",
        (states, courses, frame(1.0, Scale::Linear)),
    ));
    panels.push(panel(
        "Served with less",
        "the share of requests in which a feature was left out, came from a cache, or was put off",
        {
            let (keys, drawings, frame) = curves(|lines| &lines.degraded, Scale::Share);
            (keys, drawings, Frame { top: frame.top.clamp(0.1, 1.0), ..frame })
        },
    ));
    panels.push(panel(
        "Refusals and retries",
        "a second, by who refused: limits, caps, full bulkheads, open breakers",
        curves(|lines| &lines.refused, Scale::Linear),
    ));
    panels.push(panel(
        "Backlogs",
        "payments that wait for their outcome or to be sent, and messages that wait to be published",
        curves(|lines| &lines.backlogs, Scale::Linear),
    ));
    panels
}

const LATENCY: &str = "milliseconds from when a request was due, by the second in which it was; each line on the way up \
                       is ten times the one below";

fn shades(faults: &[FaultSpec], (from, to): (f64, f64)) -> Vec<Shade> {
    if faults.is_empty() && from < to {
        return vec![Shade { from, to }];
    }
    let shade = |fault: &FaultSpec| Shade { from: fault.at.0.as_secs_f64(), to: fault.end().as_secs_f64() };
    let mut shades: Vec<Shade> = faults.iter().map(shade).collect();
    // Those that overlap would be darker where they do.
    shades.sort_by(|a, b| a.from.total_cmp(&b.from));
    shades.into_iter().fold(Vec::new(), |mut merged: Vec<Shade>, shade| {
        match merged.last_mut() {
            Some(last) if shade.from <= last.to => last.to = last.to.max(shade.to),
            _ => merged.push(shade),
        }
        merged
    })
}

fn roomy(top: f64) -> f64 {
    (top * 1.08).max(1.0)
}

/// Curves of the same name have the same colour in every run. Where there are too many, the smallest are left out.
fn drawn(runs: &[&[Curve]]) -> (Vec<(Role, String)>, Vec<Drawing>) {
    let mut sizes: BTreeMap<&str, f64> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for curve in runs.iter().copied().flatten() {
        if !order.contains(&curve.name.as_str()) {
            order.push(&curve.name);
        }
        *sizes.entry(&curve.name).or_default() += curve.points.iter().map(|(_, value)| value).sum::<f64>();
    }
    let mut largest = order.clone();
    largest.sort_by(|a, b| sizes[b].total_cmp(&sizes[a]));
    largest.truncate(MOST);
    order.retain(|name| largest.contains(name));
    let role = |name: &str| order.iter().position(|known| *known == name).map(|at| CURVES[at]);
    let drawing = |curves: &&[Curve]| {
        let layer =
            |curve: &Curve| Some(Layer { role: role(&curve.name)?, form: Form::Line, points: curve.points.clone() });
        Drawing { layers: curves.iter().filter_map(layer).collect(), bands: Vec::new() }
    };
    let keys = order.iter().filter_map(|name| Some((role(name)?, (*name).to_owned()))).collect();
    (keys, runs.iter().map(drawing).collect())
}

fn outcomes(runs: &[&Timelines]) -> (Vec<(Role, String)>, Vec<Drawing>) {
    const ROLES: [Role; 6] = [Role::Green, Role::Blue, Role::Grey, Role::Amber, Role::Red, Role::Purple];
    let names = runs.first().map(|lines| lines.outcomes.iter().map(|curve| curve.name.clone()));
    let mut keys: Vec<(Role, String)> = ROLES.into_iter().zip(names.into_iter().flatten()).collect();
    keys.push((Role::Ink, "due".to_owned()));
    let drawing = |lines: &&Timelines| {
        let bars = ROLES.into_iter().zip(&lines.outcomes);
        let bars = bars.map(|(role, curve)| Layer { role, form: Form::Bar, points: curve.points.clone() });
        let due = Layer { role: Role::Ink, form: Form::Line, points: lines.arrivals.points.clone() };
        Drawing { layers: bars.chain([due]).collect(), bands: Vec::new() }
    };
    (keys, runs.iter().map(drawing).collect())
}

/// Keys, drawings, the top, and the caps in words.
fn fillings(runs: &[&Timelines], service: &str) -> (Vec<(Role, String)>, Vec<Drawing>, f64, String) {
    let of = |lines: &Timelines| -> Vec<Filling> {
        lines.in_flight.iter().filter(|f| f.service == service && f.in_flight.highest() > 0.0).cloned().collect()
    };
    let each: Vec<Vec<Filling>> = runs.iter().map(|lines| of(lines)).collect();
    let curves: Vec<Vec<Curve>> = each.iter().map(|all| all.iter().map(|f| f.in_flight.clone()).collect()).collect();
    let (keys, mut drawings) = drawn(&curves.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let highest = curves.iter().flatten().map(Curve::highest).fold(0.0, f64::max);
    let mut top = highest;
    let mut words = Vec::new();
    for (number, (fillings, drawing)) in each.iter().zip(&mut drawings).enumerate() {
        let mut caps = Vec::new();
        for Filling { cap, in_flight, .. } in fillings {
            let Some((role, _)) = keys.iter().find(|(_, name)| *name == in_flight.name) else { continue };
            caps.push(format!("{} {:.0}", in_flight.name, cap.highest()));
            if cap.highest() <= (highest * FAR_ABOVE).max(20.0) {
                top = top.max(cap.highest());
                drawing.layers.push(Layer { role: *role, form: Form::Dashed, points: cap.points.clone() });
            }
        }
        let side = if runs.len() > 1 { ["left: ", "right: "].get(number).copied().unwrap_or_default() } else { "" };
        words.push(format!("{side}{}", caps.join(", ")));
    }
    let words = if words.iter().all(String::is_empty) { String::new() } else { format!("Caps: {}.", words.join("; ")) };
    (keys, drawings, roomy(top), words)
}

fn courses(courses: &[Course]) -> Drawing {
    let row = |course: &Course| {
        let bands = course.stretches.iter().map(|stretch| Band {
            from: stretch.from,
            to: stretch.to,
            role: colour(stretch.state),
            text: stretch.percent.map(|percent| format!("{percent:.0} %")).unwrap_or_default(),
        });
        Row { name: course.name.clone(), bands: bands.collect() }
    };
    Drawing { layers: Vec::new(), bands: courses.iter().map(row).collect() }
}

const fn colour(state: State) -> Role {
    match state {
        State::Closed => Role::Green,
        State::Open => Role::Red,
        State::HalfOpen => Role::Amber,
        State::Ramping => Role::Blue,
    }
}

const fn word(state: State) -> &'static str {
    match state {
        State::Closed => "closed",
        State::Open => "open",
        State::HalfOpen => "half-open: probes alone",
        State::Ramping => "ramping: a share of the calls",
    }
}

impl Panel {
    /// Whether there is anything to see in any run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let nothing =
            |drawing: &Drawing| drawing.bands.is_empty() && drawing.layers.iter().all(|layer| layer.points.is_empty());
        self.drawings.iter().all(nothing)
    }
}
