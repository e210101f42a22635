//! One step of the way up, as it was measured. Pure.

use std::{collections::BTreeMap, time::Duration};

use load::{Outcome, Recording};
use serde::Serialize;

use crate::timelines::Class;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Orders a second that came.
    pub offered: f64,
    /// Of them, a second, those that were sold: a 2xx other than 202, whose payment nobody knows yet.
    pub goodput: f64,
    /// Of what was sold; none where nothing was.
    pub latency: Option<Latency>,
    /// How many ended how.
    pub outcomes: BTreeMap<String, u64>,
    pub generator: Generator,
}

/// In milliseconds, from the moment at which a request should have left.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

/// How the generator itself did.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Generator {
    pub lag_p99_ms: f64,
    pub in_flight_peak: u64,
    /// Why this step may say nothing about the system.
    pub doubt: Option<String>,
}

impl Step {
    /// What began after `warm_up` and before the end of the step. The generator is judged by all of it.
    #[must_use]
    pub fn of(recording: &Recording, warm_up: Duration, lasts: Duration) -> Self {
        let window = warm_up.as_secs() as usize..lasts.as_secs() as usize;
        let seconds = window.len().max(1) as f64;
        let counted = recording.seconds.get(window.start..window.end.min(recording.seconds.len())).unwrap_or_default();
        let mut outcomes = BTreeMap::new();
        for second in counted {
            for ((_, outcome), cell) in &second.cells {
                *outcomes.entry(outcome.to_string()).or_insert(0) += cell.len();
            }
        }
        let sold = recording.tally(window, |_, outcome| is_sold(outcome));
        let at = |quantile| sold.value_at_quantile(quantile) as f64 / 1_000.0;
        Self {
            offered: counted.iter().map(|second| second.arrivals).sum::<u64>() as f64 / seconds,
            goodput: sold.len() as f64 / seconds,
            latency: (!sold.is_empty()).then(|| Latency { p50: at(0.5), p95: at(0.95), p99: at(0.99) }),
            outcomes,
            generator: Generator {
                lag_p99_ms: recording.lag.value_at_quantile(0.99) as f64 / 1_000.0,
                in_flight_peak: recording.seconds.iter().map(|second| second.in_flight).max().unwrap_or(0),
                doubt: recording.doubt().map(|doubt| doubt.to_string()),
            },
        }
    }

    /// Of what came, the share that was sold.
    #[must_use]
    pub fn success(&self) -> f64 {
        if self.offered > 0.0 { self.goodput / self.offered } else { 0.0 }
    }

    /// The share that ended so.
    #[must_use]
    pub fn share(&self, outcome: &str) -> f64 {
        let all: u64 = self.outcomes.values().sum();
        let these = self.outcomes.get(outcome).copied().unwrap_or(0);
        if all > 0 { these as f64 / all as f64 } else { 0.0 }
    }
}

fn is_sold(outcome: Outcome) -> bool {
    Class::of(outcome) == Class::Succeeded
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU32, sync::Arc};

    use chassis::dev_secrets::AUTH_JWT_SECRET;
    use load::{Limits, Mix, Plan, Process, Profile, Reply, Shop, Users};
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// Ten orders a second for six seconds, each answered after 100 ms with what `status` says of its number.
    async fn recorded(limits: Limits, status: fn(u64) -> u16) -> Recording {
        let users = NonZeroU32::new(5).unwrap();
        let people = Users::mint(users, 1, AUTH_JWT_SECRET, Duration::from_secs(60)).unwrap();
        let mut shop = Shop::new(people, vec!["A".to_owned()], "tok_approve", "t").unwrap();
        let profile = Profile::steady(10.0, Duration::from_secs(6)).unwrap();
        let mix: Mix = "orders".parse().unwrap();
        let plan = Plan { profile, process: Process::Uniform, mix, users, seed: 1 };
        let exchange = move |request: Arc<load::Request>| async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(Reply { status: status(request.number), replayed: false, body: "{}".into() })
        };
        load::run(&plan, &mut shop, limits, exchange, |_| {}, &CancellationToken::new()).await
    }

    #[tokio::test(start_paused = true)]
    async fn what_began_while_the_step_warmed_up_counts_for_nothing() {
        let recording = recorded(Limits::default(), |number| if number < 20 { 503 } else { 201 }).await;
        let step = Step::of(&recording, Duration::from_secs(2), Duration::from_secs(6));
        assert_eq!((step.offered, step.goodput, step.success()), (10.0, 10.0, 1.0));
        assert_eq!(step.outcomes, BTreeMap::from([("201".to_owned(), 40)]));
        let latency = step.latency.unwrap();
        assert!((99.0..102.0).contains(&latency.p99), "{latency:?}");
        assert_eq!(step.generator.doubt, None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_whose_payment_is_pending_is_not_sold_and_neither_is_a_refused_one() {
        let recording = recorded(Limits::default(), |number| [201, 202, 503, 429][number as usize % 4]).await;
        let step = Step::of(&recording, Duration::from_secs(2), Duration::from_secs(6));
        assert_eq!((step.offered, step.goodput, step.success()), (10.0, 2.5, 0.25));
        assert_eq!((step.share("429"), step.share("500")), (0.25, 0.0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_generator_that_could_not_send_says_so() {
        let limits = Limits { max_in_flight: 0, ..Limits::default() };
        let step = Step::of(&recorded(limits, |_| 201).await, Duration::from_secs(2), Duration::from_secs(6));
        assert!(step.generator.doubt.unwrap().contains("generator saturated"));
        assert_eq!((step.offered, step.goodput, step.latency), (10.0, 0.0, None));
    }
}
