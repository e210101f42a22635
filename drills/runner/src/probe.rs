//! A figure from what was observed, and whether it lies within its bounds. Pure.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;

use crate::{
    log::{Charged, Log, Seen, Timeline},
    scenario::{Check, ProbeKind, Window},
};

/// A check with its outcome. A figure that there is not (no answer of the kind, no look at the metric) is no success.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checked {
    pub what: String,
    pub value: Option<f64>,
    /// What the bounds come to, `before` worked in.
    pub bound: String,
    pub holds: bool,
}

/// The check over its own window, or `window` where it names none.
#[must_use]
pub fn check(check: &Check, log: &Log, timeline: &Timeline, window: Window) -> Checked {
    let window = check.window.unwrap_or(window);
    over(check, log, timeline.window(window), value(check, log, timeline.window(Window::Before)), window_name(window))
}

/// The check over any span of time.
#[must_use]
pub fn over(check: &Check, log: &Log, span: (Duration, Duration), before: Option<f64>, name: &str) -> Checked {
    let value = value(check, log, span);
    let times = |times: Option<f64>| times.map(|times| before.map_or(f64::NAN, |before| before * times));
    let floors = [check.min, times(check.min_times_before)];
    let ceilings = [check.max, times(check.max_times_before)];
    // Not a number is within no bound.
    let holds = value.is_some_and(|value| {
        floors.iter().flatten().all(|floor| value >= *floor) && ceilings.iter().flatten().all(|top| value <= *top)
    });
    let floors = floors.iter().flatten().map(|floor| format!("≥ {}", Figure(*floor)));
    let ceilings = ceilings.iter().flatten().map(|top| format!("≤ {}", Figure(*top)));
    let bound = floors.chain(ceilings).collect::<Vec<_>>().join(", ");
    Checked { what: format!("{check} {name}"), value, bound, holds }
}

/// The earliest moment from `restored` on from which all checks hold until the end; at least [`CALM`] of it.
#[must_use]
pub fn recovered(checks: &[Check], log: &Log, timeline: &Timeline) -> Option<Duration> {
    let before: Vec<Option<f64>> =
        checks.iter().map(|check| value(check, log, timeline.window(Window::Before))).collect();
    let step = Duration::from_millis(500);
    let mut from = timeline.restored;
    while from + CALM <= timeline.end {
        let holds = |(check, before): (&Check, &Option<f64>)| over(check, log, (from, timeline.end), *before, "").holds;
        if checks.iter().zip(&before).all(holds) {
            return Some(from - timeline.restored);
        }
        from += step;
    }
    None
}

/// Less of a steady state says nothing.
pub const CALM: Duration = Duration::from_secs(3);

/// `None` where nothing was observed that could be counted.
#[must_use]
pub fn value(check: &Check, log: &Log, (from, to): (Duration, Duration)) -> Option<f64> {
    let seconds = to.saturating_sub(from).as_secs_f64();
    let wanted_kind = |seen: &&Seen| check.request.as_ref().is_none_or(|kind| seen.kind.as_str() == kind);
    let within = |seen: &&Seen| seen.due >= from && seen.due < to;
    let as_hot = |seen: &&Seen| check.hot.is_none_or(|hot| seen.hot == hot);
    let asked = || log.answers.iter().filter(within).filter(wanted_kind).filter(as_hot);
    let among = |seen: &&Seen| check.outcomes.is_empty() || check.outcomes.iter().any(|o| seen.outcome.is(o));
    let share = |part: usize| {
        let all = asked().count();
        (all > 0).then(|| part as f64 / all as f64)
    };
    let succeeded = || asked().filter(|seen| seen.outcome.is_success()).count();
    match check.probe {
        ProbeKind::SuccessRatio => share(succeeded()),
        ProbeKind::Goodput if check.outcomes.is_empty() => (seconds > 0.0).then(|| succeeded() as f64 / seconds),
        ProbeKind::Goodput => (seconds > 0.0).then(|| asked().filter(among).count() as f64 / seconds),
        ProbeKind::Answers => Some(asked().filter(among).count() as f64),
        ProbeKind::Share => share(asked().filter(among).count()),
        ProbeKind::Latency => percentile(check, asked().filter(among).map(|seen| seen.latency)),
        ProbeKind::ChargeDelay => {
            let within = |charged: &&Charged| charged.due >= from && charged.due < to;
            percentile(check, log.charges.iter().filter(within).map(|charged| charged.delay))
        }
        ProbeKind::Tries => {
            let tries: u64 = asked().map(|seen| u64::from(seen.tries)).sum();
            let all = asked().count();
            (all > 0).then(|| tries as f64 / all as f64)
        }
        ProbeKind::Metric => {
            // A counter that is not there yet stands at 0; one that fell belongs to a process that was started again.
            let rose = |key: &(String, String), labels| {
                let level = |at| log.level(key, labels, at);
                Some((level(to)? - level(from).unwrap_or(0.0)).max(0.0))
            };
            let rise = rose(&metric(check)?, &check.labels)?;
            match &check.per {
                None => Some(rise),
                Some(per) => {
                    let of = rose(&(per.service.clone(), per.metric.clone()), &per.labels)?;
                    (of > 0.0).then(|| rise / of)
                }
            }
        }
        ProbeKind::Gauge => {
            let key = metric(check)?;
            let looks = log.looks.iter().filter(|look| look.at >= from && look.at <= to);
            looks.map(|look| look.sum(&key, &check.labels)).reduce(f64::max)
        }
        ProbeKind::FaultApplied => Some(log.applied.get(check.link.as_ref()?).copied().unwrap_or(0) as f64),
        ProbeKind::Crashes => Some(f64::from(log.crashes)),
    }
}

/// The rank that the check asks for, in milliseconds.
fn percentile(check: &Check, all: impl Iterator<Item = Duration>) -> Option<f64> {
    let mut all: Vec<Duration> = all.collect();
    all.sort_unstable();
    let rank = (check.percentile? / 100.0 * all.len() as f64).ceil() as usize;
    all.get(rank.max(1) - 1).map(|value| value.as_secs_f64() * 1_000.0)
}

/// Where a check's metric is kept in the log.
#[must_use]
pub fn metric(check: &Check) -> Option<(String, String)> {
    Some((check.service.clone()?, check.metric.clone()?))
}

/// All metrics that a check needs.
pub fn metrics(check: &Check) -> impl Iterator<Item = (String, String)> {
    let per = check.per.as_ref().map(|per| (per.service.clone(), per.metric.clone()));
    metric(check).into_iter().chain(per)
}

const fn window_name(window: Window) -> &'static str {
    match window {
        Window::Before => "before",
        Window::During => "during",
        Window::After => "after",
        Window::Whole => "in all",
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hot = match self.hot {
            Some(true) => " of the hot ones",
            Some(false) => " of all others",
            None => "",
        };
        let of = self.request.as_ref().map(|kind| format!(" of {kind}")).unwrap_or_default() + hot;
        let outcomes = self.outcomes.join(" ");
        match self.probe {
            ProbeKind::SuccessRatio => write!(f, "share of 2xx{of}"),
            ProbeKind::Goodput => {
                let good = if outcomes.is_empty() { "2xx" } else { &outcomes };
                write!(f, "{good} a second{of}")
            }
            ProbeKind::Answers => write!(f, "answers {outcomes}{of}"),
            ProbeKind::Share => write!(f, "share of {outcomes}{of}"),
            ProbeKind::Latency => {
                let among = if outcomes.is_empty() { outcomes } else { format!(" {outcomes}") };
                write!(f, "p{} ms{of}{among}", self.percentile.unwrap_or_default())
            }
            ProbeKind::Metric | ProbeKind::Gauge => {
                let (service, metric) = metric(self).unwrap_or_default();
                write!(f, "{service} {metric}{}", in_braces(&self.labels))?;
                match &self.per {
                    Some(per) => write!(f, " per {} {}{}", per.service, per.metric, in_braces(&per.labels)),
                    None => Ok(()),
                }
            }
            ProbeKind::Tries => write!(f, "tries a request{of}"),
            ProbeKind::ChargeDelay => write!(f, "p{} ms until charged", self.percentile.unwrap_or_default()),
            ProbeKind::Crashes => f.write_str("crash points met"),
            ProbeKind::FaultApplied => write!(f, "met the fault on {}", self.link.as_deref().unwrap_or_default()),
        }
    }
}

fn in_braces(labels: &BTreeMap<String, String>) -> String {
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) }
}

/// Four significant figures are enough for anybody.
pub struct Figure(pub f64);

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(value) = *self;
        if value.fract() == 0.0 && value.abs() < 1e9 {
            write!(f, "{value}")
        } else if value.abs() >= 100.0 {
            write!(f, "{value:.0}")
        } else {
            write!(f, "{value:.3}")
        }
    }
}

#[cfg(test)]
mod tests {
    use load::{Kind, Outcome};

    use super::*;
    use crate::{
        log::{Look, Sample},
        scenario::Counter,
    };

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    const TIMELINE: Timeline = Timeline { warm_up: s(2), broken: s(10), restored: s(20), end: s(30) };

    /// One order a tenth of a second; those due in `bad` fail.
    fn log(bad: std::ops::Range<u64>) -> Log {
        let answers = (0..300).map(|n| {
            let due = Duration::from_millis(n * 100);
            let failed = bad.contains(&due.as_secs());
            let outcome = Outcome::Status(if failed { 503 } else { 201 });
            let latency = Duration::from_millis(if failed { 400 } else { 20 });
            let (hot, tries) = (n % 2 == 0, if failed { 3 } else { 1 });
            Seen { due, kind: Kind::PlaceOrder, outcome, latency, hot, tries }
        });
        Log { answers: answers.collect(), ..Log::default() }
    }

    fn of(probe: ProbeKind) -> Check {
        Check { probe, ..Check::default() }
    }

    #[test]
    fn a_window_holds_those_who_came_in_it() {
        let log = log(10..20);
        let ratio = |window| value(&of(ProbeKind::SuccessRatio), &log, TIMELINE.window(window));
        assert_eq!(ratio(Window::Before), Some(1.0));
        assert_eq!(ratio(Window::During), Some(0.0));
        assert_eq!(ratio(Window::After), Some(1.0));
        assert_eq!(value(&of(ProbeKind::Goodput), &log, TIMELINE.window(Window::Before)), Some(10.0));
        let pending = Check { outcomes: vec!["202".into()], ..of(ProbeKind::Goodput) };
        assert_eq!(value(&pending, &log, TIMELINE.window(Window::Before)), Some(0.0));
        let refused = Check { outcomes: vec!["5xx".into()], ..of(ProbeKind::Answers) };
        assert_eq!(value(&refused, &log, TIMELINE.window(Window::Whole)), Some(100.0));
    }

    #[test]
    fn latency_is_the_rank_asked_for_and_can_be_bound_by_what_it_was_before() {
        let log = log(10..20);
        let p99 = Check { percentile: Some(99.0), max_times_before: Some(1.2), ..of(ProbeKind::Latency) };
        let during = check(&p99, &log, &TIMELINE, Window::During);
        assert_eq!((during.value, during.bound.as_str(), during.holds), (Some(400.0), "≤ 24", false));
        assert!(check(&p99, &log, &TIMELINE, Window::After).holds);
    }

    #[test]
    fn what_was_not_observed_holds_no_bound() {
        let reads = Check { request: Some("read_order".into()), min: Some(0.0), ..of(ProbeKind::SuccessRatio) };
        let checked = check(&reads, &log(0..0), &TIMELINE, Window::Whole);
        assert_eq!((checked.value, checked.holds), (None, false));
    }

    #[test]
    fn a_counter_counts_what_it_rose_by_and_a_gauge_its_highest() {
        let key = ("order".to_owned(), "m".to_owned());
        let label = |to: &str| BTreeMap::from([("to".to_owned(), to.to_owned())]);
        let look = |at, a, b| {
            let sample = |to, value| Sample { labels: label(to), value };
            Look { at, samples: BTreeMap::from([(key.clone(), vec![sample("a", a), sample("b", b)])]) }
        };
        let looks = vec![look(s(1), 5.0, 1.0), look(s(10), 7.0, 1.0), look(s(15), 30.0, 2.0), look(s(20), 9.0, 9.0)];
        let log = Log { looks, ..Log::default() };
        let a =
            |probe| Check { service: Some("order".into()), metric: Some("m".into()), labels: label("a"), ..of(probe) };
        assert_eq!(value(&a(ProbeKind::Metric), &log, (s(10), s(20))), Some(2.0));
        let both = Check { labels: label("a|b"), ..a(ProbeKind::Metric) };
        assert_eq!(value(&both, &log, (s(10), s(20))), Some(10.0));
        assert_eq!(value(&a(ProbeKind::Gauge), &log, (s(10), s(20))), Some(30.0));
        assert_eq!(value(&Check { labels: BTreeMap::new(), ..a(ProbeKind::Gauge) }, &log, (s(12), s(16))), Some(32.0));
    }

    #[test]
    fn recovery_is_the_first_moment_from_which_on_all_is_well() {
        let steady = [Check { min: Some(0.99), ..of(ProbeKind::SuccessRatio) }];
        assert_eq!(recovered(&steady, &log(10..20), &TIMELINE), Some(s(0)));
        assert_eq!(recovered(&steady, &log(10..24), &TIMELINE), Some(s(4)));
        assert_eq!(recovered(&steady, &log(10..29), &TIMELINE), None);
    }

    #[test]
    fn a_counter_can_be_taken_per_another_one() {
        let key = |metric: &str| ("order".to_owned(), metric.to_owned());
        let look = |at, tries, orders| {
            let one = |value| vec![Sample { labels: BTreeMap::new(), value }];
            Look { at, samples: BTreeMap::from([(key("tries"), one(tries)), (key("orders"), one(orders))]) }
        };
        let log = Log { looks: vec![look(s(1), 5.0, 4.0), look(s(9), 29.0, 24.0)], ..Log::default() };
        let per = Counter { service: "order".into(), metric: "orders".into(), labels: BTreeMap::new() };
        let check = Check {
            service: Some("order".into()),
            metric: Some("tries".into()),
            per: Some(per),
            ..of(ProbeKind::Metric)
        };
        assert_eq!(value(&check, &log, (s(2), s(10))), Some(1.2));
        assert_eq!(value(&check, &log, (s(10), s(12))), None, "there was nothing to be taken per");
        assert_eq!(metrics(&check).count(), 2);
    }

    #[test]
    fn the_hot_ones_and_the_others_are_told_apart() {
        let log = log(10..20);
        let count = |hot| {
            let check = Check { hot, outcomes: vec!["201".into()], ..of(ProbeKind::Answers) };
            value(&check, &log, TIMELINE.window(Window::Whole)).unwrap()
        };
        assert_eq!((count(Some(true)), count(Some(false)), count(None)), (90.0, 90.0, 180.0));
    }

    #[test]
    fn tries_are_those_of_each_request_and_a_charge_belongs_to_when_its_order_was_due() {
        let mut log = log(10..20);
        assert_eq!(value(&of(ProbeKind::Tries), &log, TIMELINE.window(Window::During)), Some(3.0));
        let charged = |due, delay| Charged { due: s(due), delay: Duration::from_millis(delay) };
        log.charges = vec![charged(12, 40), charged(15, 90), charged(25, 700)];
        let delay = Check { percentile: Some(100.0), ..of(ProbeKind::ChargeDelay) };
        assert_eq!(value(&delay, &log, TIMELINE.window(Window::During)), Some(90.0));
        assert_eq!(value(&delay, &log, TIMELINE.window(Window::Before)), None);
    }
}
