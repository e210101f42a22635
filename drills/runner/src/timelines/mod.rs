//! What was observed, as curves over the time of the load: what the report draws. Pure.
//!
//! A request counts in the second in which it was due, as everywhere else; what the system says of itself counts at the
//! time at which it was looked at.

mod answers;
mod samples;
mod system;

use std::time::Duration;

use load::{Kind, Outcome};
use serde::Serialize;

use crate::log::{Log, Timeline};

/// All from the start of the load, in seconds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Timelines {
    /// How far they go.
    pub seconds: f64,
    pub warm_up: f64,
    /// From the first to the last of what is unusual: faults, or a spike of the load.
    pub unusual: (f64, f64),
    /// Requests that were due, a second.
    pub arrivals: Curve,
    /// What became of them, a second, by [`Class`].
    pub outcomes: Vec<Curve>,
    /// Of orders that were placed: p50, p95 and p99, in milliseconds.
    pub orders: Vec<Curve>,
    /// Of all else.
    pub others: Vec<Curve>,
    pub in_flight: Vec<Filling>,
    pub breakers: Vec<Course>,
    /// By feature: what was served with less, as a share of what was asked.
    pub degraded: Vec<Curve>,
    /// Refusals by who refused, and retries, a second.
    pub refused: Vec<Curve>,
    /// What waits: payments and messages.
    pub backlogs: Vec<Curve>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// What is in flight, and how much may be.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Filling {
    /// Whose it is.
    pub service: String,
    pub in_flight: Curve,
    pub cap: Curve,
}

/// A breaker's way through its states.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Course {
    pub name: String,
    pub stretches: Vec<Stretch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stretch {
    pub from: f64,
    pub to: f64,
    pub state: State,
    /// Of the calls, how many in a hundred were let through.
    pub percent: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Closed,
    Open,
    HalfOpen,
    Ramping,
}

/// How a request ended, as coarsely as a picture can show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Succeeded,
    Pending,
    /// 409, 402 and the like: a well-meant no.
    Told,
    Refused,
    Failed,
    Unanswered,
}

impl Class {
    pub const ALL: [Self; 6] =
        [Self::Succeeded, Self::Pending, Self::Told, Self::Refused, Self::Failed, Self::Unanswered];

    #[must_use]
    pub const fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Status(202) => Self::Pending,
            Outcome::Status(200..=299) => Self::Succeeded,
            Outcome::Status(429 | 503) => Self::Refused,
            Outcome::Status(400..=499) => Self::Told,
            Outcome::Status(_) => Self::Failed,
            Outcome::TimedOut | Outcome::NotSent | Outcome::Broken => Self::Unanswered,
        }
    }

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "2xx",
            Self::Pending => "202, payment pending",
            Self::Told => "other 4xx",
            Self::Refused => "refused (429, 503)",
            Self::Failed => "other 5xx",
            Self::Unanswered => "no answer",
        }
    }
}

impl Timelines {
    #[must_use]
    pub fn of(log: &Log, timeline: &Timeline) -> Self {
        let last = log.looks.last().map_or(Duration::ZERO, |look| look.at);
        let seconds = timeline.end.max(last).as_secs_f64().ceil().max(1.0);
        let asked = answers::by_second(log, seconds, |_| true);
        Self {
            seconds,
            warm_up: timeline.warm_up.as_secs_f64(),
            unusual: (timeline.broken.as_secs_f64(), timeline.restored.as_secs_f64()),
            outcomes: Class::ALL
                .map(|class| Curve {
                    name: class.as_str().to_owned(),
                    points: answers::by_second(log, seconds, |outcome| Class::of(outcome) == class),
                })
                .into(),
            orders: answers::percentiles(log, seconds, |kind| kind == Kind::PlaceOrder),
            others: answers::percentiles(log, seconds, |kind| kind != Kind::PlaceOrder),
            in_flight: system::fillings(&log.looks),
            breakers: system::courses(&log.looks, seconds),
            degraded: system::shares(&log.looks, &asked),
            refused: system::refusals(&log.looks),
            backlogs: system::backlogs(&log.looks),
            arrivals: Curve { name: "due".to_owned(), points: asked },
        }
    }
}

impl Curve {
    /// Whether there is anything to see.
    fn is_not_flat(&self) -> bool {
        self.points.iter().any(|(_, value)| *value != 0.0)
    }

    #[must_use]
    pub fn highest(&self) -> f64 {
        self.points.iter().map(|(_, value)| *value).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        log::{Look, REPLICA, Sample, Seen},
        watched,
    };

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    const TIMELINE: Timeline = Timeline { warm_up: s(1), broken: s(2), restored: s(4), end: s(6) };

    fn seen(ms: u64, kind: Kind, outcome: Outcome, latency: u64) -> Seen {
        let (due, latency) = (Duration::from_millis(ms), Duration::from_millis(latency));
        Seen { due, kind, outcome, latency, hot: false, tries: 1 }
    }

    /// A look with (metric, label, its value, replica, value), all of order.
    fn look(at: u64, samples: &[(&str, &str, &str, u16, f64)]) -> Look {
        let mut look = Look { at: s(at), samples: BTreeMap::new() };
        for (metric, label, of, replica, value) in samples {
            let labels = [(*label, (*of).to_owned()), (REPLICA, replica.to_string())];
            let labels = labels.into_iter().filter(|(name, _)| !name.is_empty());
            let labels = labels.map(|(name, value)| (name.to_owned(), value)).collect();
            let key = ("order".to_owned(), (*metric).to_owned());
            look.samples.entry(key).or_default().push(Sample { labels, value: *value });
        }
        look
    }

    fn of(looks: Vec<Look>) -> Timelines {
        Timelines::of(&Log { looks, ..Log::default() }, &TIMELINE)
    }

    #[test]
    fn every_answer_counts_once_in_the_second_in_which_it_was_due() {
        let endings = [
            Outcome::Status(201),
            Outcome::Status(202),
            Outcome::Status(409),
            Outcome::Status(429),
            Outcome::Status(503),
            Outcome::Status(504),
            Outcome::TimedOut,
            Outcome::Broken,
        ];
        let answers = endings.map(|outcome| seen(2_300, Kind::PlaceOrder, outcome, 9)).to_vec();
        let lines = Timelines::of(&Log { answers, ..Log::default() }, &TIMELINE);
        assert_eq!((lines.seconds, lines.arrivals.points[2]), (6.0, (2.5, 8.0)));
        let counts: Vec<f64> = lines.outcomes.iter().map(|curve| curve.points[2].1).collect();
        assert_eq!(counts, [1.0, 1.0, 1.0, 2.0, 1.0, 2.0]);
        assert!(lines.outcomes.iter().all(|curve| curve.points[3].1 == 0.0));
    }

    #[test]
    fn orders_have_percentiles_of_their_own_and_a_second_without_answers_has_none() {
        let orders = (1..=100).map(|ms| seen(500, Kind::PlaceOrder, Outcome::Status(201), ms));
        let pages = [seen(3_500, Kind::ProductPage, Outcome::Status(200), 7)];
        let answers = orders.chain(pages).collect();
        let lines = Timelines::of(&Log { answers, ..Log::default() }, &TIMELINE);
        let points = |curves: &[Curve]| curves.iter().map(|curve| curve.points.clone()).collect::<Vec<_>>();
        assert_eq!(points(&lines.orders), [[(0.5, 50.0)], [(0.5, 95.0)], [(0.5, 99.0)]]);
        assert_eq!(points(&lines.others), [[(3.5, 7.0)], [(3.5, 7.0)], [(3.5, 7.0)]]);
    }

    #[test]
    fn what_is_in_flight_and_may_be_is_summed_over_the_replicas() {
        let both = |at, in_flight| {
            let of = |metric, replica, value| (metric, "downstream", "payment", replica, value);
            look(
                at,
                &[
                    of(watched::BULKHEAD, 0, in_flight),
                    of(watched::BULKHEAD, 1, 2.0),
                    of(watched::BULKHEAD_CAP, 0, 40.0),
                    of(watched::BULKHEAD_CAP, 1, 40.0),
                ],
            )
        };
        let lines = of(vec![both(0, 1.0), both(1, 38.0)]);
        let filling = &lines.in_flight[0];
        assert_eq!((filling.service.as_str(), filling.in_flight.name.as_str()), ("order", "order → payment"));
        assert_eq!(filling.in_flight.points, [(0.0, 3.0), (1.0, 40.0)]);
        assert_eq!(filling.cap.points, [(0.0, 80.0), (1.0, 80.0)]);
    }

    #[test]
    fn a_breaker_is_shown_with_its_states_and_how_much_of_the_ramp_it_has_climbed() {
        let at = |at, state, percent| {
            let breaker = (watched::BREAKER, "downstream", "payment", 0, state);
            look(at, &[breaker, (watched::RAMP, "downstream", "payment", 0, percent)])
        };
        let lines = of(vec![at(0, 0.0, 100.0), at(1, 0.0, 100.0), at(2, 1.0, 0.0), at(3, 2.0, 0.0), at(4, 3.0, 10.0)]);
        let states = lines.breakers[0].stretches.iter().map(|s| (s.from, s.to, s.state, s.percent)).collect::<Vec<_>>();
        assert_eq!(
            states,
            [
                (0.0, 2.0, State::Closed, None),
                (2.0, 3.0, State::Open, None),
                (3.0, 4.0, State::HalfOpen, None),
                (4.0, 6.0, State::Ramping, Some(10.0)),
            ]
        );
    }

    #[test]
    fn a_breaker_that_nothing_happened_to_is_left_out_unless_it_is_of_the_core_path() {
        let closed = |callee, value| (watched::BREAKER, "downstream", callee, 0, value);
        let lines = of(vec![look(0, &[closed("coupon", 0.0), closed("payment", 0.0), closed("inventory", 2.0)])]);
        let names: Vec<&str> = lines.breakers.iter().map(|course| course.name.as_str()).collect();
        assert_eq!(names, ["order → inventory", "order → payment"]);
    }

    #[test]
    fn a_counter_that_begins_rises_from_nothing_and_one_that_begins_anew_does_not_fall() {
        let refused = |value| [(watched::REFUSED, "mechanism", "rate_limit.user", 0, value)];
        let looks = vec![look(0, &[]), look(1, &refused(6.0)), look(3, &refused(10.0)), look(4, &refused(1.0))];
        let lines = of(looks);
        assert_eq!(lines.refused[0].name, "order: rate_limit.user");
        assert_eq!(lines.refused[0].points, [(1.0, 6.0), (3.0, 2.0), (4.0, 0.0)], "{:?}", lines.refused);
    }

    #[test]
    fn the_share_of_what_was_served_with_less_is_one_of_what_was_asked() {
        let hits = |at, value| look(at, &[(watched::DEGRADED, "feature", "coupon", 0, value)]);
        let answers = (0..40).map(|n| seen(n * 100, Kind::PlaceOrder, Outcome::Status(201), 9)).collect();
        let log =
            Log { answers, looks: vec![hits(0, 3.0), hits(1, 3.0), hits(2, 8.0), hits(3, 99.0)], ..Log::default() };
        let lines = Timelines::of(&log, &TIMELINE);
        assert_eq!(lines.degraded[0].name, "coupon");
        assert_eq!(lines.degraded[0].points, [(0.5, 0.0), (1.5, 0.5), (2.5, 1.0), (3.5, 0.0)]);
    }

    #[test]
    fn what_never_happened_has_no_curve() {
        let nothing = [
            (watched::DEGRADED, "feature", "coupon", 0, 0.0),
            (watched::OUTBOX, "", "", 0, 0.0),
            (watched::REFUSED, "mechanism", "quota", 0, 0.0),
        ];
        let lines = of(vec![look(0, &nothing), look(1, &nothing)]);
        assert!(lines.degraded.is_empty() && lines.backlogs.is_empty() && lines.refused.is_empty());
    }
}
