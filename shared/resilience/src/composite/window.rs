//! Counting in two stages: into the bucket of the present ten seconds, and, once that is over, into a ring of full
//! ones. No call is kept; a key takes the same memory at ten calls a second and at ten thousand.

use std::{collections::VecDeque, time::Duration};

use super::{
    Observation,
    config::{BUCKET, Condition, LONGEST_WINDOW, Metric},
};

/// Four steps an octave from one millisecond to 65 s: a percentile is told at most a fifth too high.
const STEPS: usize = 64;

/// Counts of a stretch of time.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    calls: u64,
    failures: u64,
    latency_us: u64,
    bytes: u64,
    /// Only where a percentile is asked for.
    latencies: Option<Box<[u32; STEPS]>>,
}

/// What one key has done.
#[derive(Debug)]
pub(super) struct Window {
    /// The present bucket, counted in buckets since the start.
    tick: u32,
    present: Totals,
    full: VecDeque<(u32, Totals)>,
    /// For each condition, the sum of the full buckets in its window.
    settled: Vec<Totals>,
}

impl Window {
    pub(super) fn new(tick: u32, conditions: &[Condition]) -> Self {
        let empty = Totals::new(conditions);
        Self { tick, settled: vec![empty.clone(); conditions.len()], present: empty, full: VecDeque::new() }
    }

    pub(super) const fn tick(&self) -> u32 {
        self.tick
    }

    pub(super) fn add(&mut self, tick: u32, observation: &Observation, conditions: &[Condition]) {
        self.turn(tick, conditions);
        self.present.add(observation);
    }

    /// The condition's metric now. The present bucket is part of the window, and is only partly over: a window of a
    /// minute covers between 50 and 60 seconds.
    pub(super) fn measure(&self, index: usize, condition: &Condition) -> f64 {
        let (settled, present) = (&self.settled[index], &self.present);
        let calls = (settled.calls + present.calls) as f64;
        let ratio = |sum: u64| if calls > 0.0 { sum as f64 / calls } else { 0.0 };
        match condition.metric {
            Metric::Calls => calls,
            Metric::Failures => (settled.failures + present.failures) as f64,
            Metric::FailureRatio => ratio(settled.failures + present.failures),
            Metric::MeanLatencyMs => ratio(settled.latency_us.saturating_add(present.latency_us)) / 1_000.0,
            Metric::P99LatencyMs => p99_ms(settled, present),
            Metric::Bytes => settled.bytes.saturating_add(present.bytes) as f64,
        }
    }

    /// Moves on to `tick`. An earlier one, from a clock read before another's, changes nothing.
    fn turn(&mut self, tick: u32, conditions: &[Condition]) {
        if tick <= self.tick {
            return;
        }
        let over = std::mem::replace(&mut self.present, Totals::new(conditions));
        if over.calls > 0 {
            self.full.push_back((self.tick, over));
        }
        self.tick = tick;
        let longest = buckets(LONGEST_WINDOW);
        while self.full.front().is_some_and(|(at, _)| at + longest <= tick) {
            self.full.pop_front();
        }
        for (settled, condition) in self.settled.iter_mut().zip(conditions) {
            *settled = Totals::new(conditions);
            let within = buckets(condition.window);
            self.full.iter().filter(|(at, _)| at + within > tick).for_each(|(_, totals)| settled.merge(totals));
        }
    }
}

fn buckets(window: Duration) -> u32 {
    // Validated to be at most LONGEST_WINDOW.
    (window.as_secs() / BUCKET.as_secs()) as u32
}

impl Totals {
    fn new(conditions: &[Condition]) -> Self {
        let percentile = conditions.iter().any(|condition| condition.metric == Metric::P99LatencyMs);
        Self { latencies: percentile.then(|| Box::new([0; STEPS])), ..Self::default() }
    }

    fn add(&mut self, observation: &Observation) {
        self.calls += 1;
        self.failures += u64::from(observation.failed);
        let micros = u64::try_from(observation.latency.as_micros()).unwrap_or(u64::MAX);
        self.latency_us = self.latency_us.saturating_add(micros);
        self.bytes = self.bytes.saturating_add(observation.bytes);
        if let Some(latencies) = &mut self.latencies {
            let step = &mut latencies[step_of(observation.latency)];
            *step = step.saturating_add(1);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.failures += other.failures;
        self.latency_us = self.latency_us.saturating_add(other.latency_us);
        self.bytes = self.bytes.saturating_add(other.bytes);
        if let (Some(mine), Some(theirs)) = (&mut self.latencies, &other.latencies) {
            mine.iter_mut().zip(theirs.iter()).for_each(|(sum, n)| *sum = sum.saturating_add(*n));
        }
    }
}

/// The step that holds a latency: step n ends at 2^(n/4) ms.
fn step_of(latency: Duration) -> usize {
    let ms = latency.as_secs_f64() * 1_000.0;
    // Casts saturate: below a millisecond is the first step, and the last has no end.
    ((ms.log2() * 4.0).ceil().max(0.0) as usize).min(STEPS - 1)
}

fn p99_ms(settled: &Totals, present: &Totals) -> f64 {
    let (Some(a), Some(b)) = (&settled.latencies, &present.latencies) else { return 0.0 };
    let calls: u64 = a.iter().chain(b.iter()).map(|n| u64::from(*n)).sum();
    if calls == 0 {
        return 0.0;
    }
    let rank = (calls * 99).div_ceil(100);
    let mut below = 0;
    for step in 0..STEPS {
        below += u64::from(a[step]) + u64::from(b[step]);
        if below >= rank {
            return (step as f64 / 4.0).exp2();
        }
    }
    (STEPS as f64 / 4.0).exp2()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn condition(metric: Metric, seconds: u64) -> Condition {
        Condition { metric, at_least: 1.0, window: Duration::from_secs(seconds) }
    }

    fn call(ms: u64, failed: bool) -> Observation {
        Observation { failed, latency: Duration::from_millis(ms), bytes: 10 }
    }

    #[test]
    fn a_percentile_is_told_at_most_a_fifth_too_high() {
        let conditions = [condition(Metric::P99LatencyMs, 10)];
        for ms in [1, 3, 10, 47, 150, 999, 1_000, 2_500, 30_000] {
            let mut window = Window::new(0, &conditions);
            window.add(0, &call(ms, false), &conditions);
            let told = window.measure(0, &conditions[0]);
            assert!((ms as f64..ms as f64 * 1.2).contains(&told), "{ms} ms: {told}");
        }
    }

    #[test]
    fn one_slow_call_in_a_hundred_is_not_the_p99_and_two_are() {
        let conditions = [condition(Metric::P99LatencyMs, 10)];
        let mut window = Window::new(0, &conditions);
        (0..99).for_each(|_| window.add(0, &call(1, false), &conditions));
        window.add(0, &call(4_000, false), &conditions);
        assert!(window.measure(0, &conditions[0]) < 2.0);
        window.add(0, &call(4_000, false), &conditions);
        window.add(0, &call(4_000, false), &conditions);
        assert!(window.measure(0, &conditions[0]) > 3_999.0);
    }

    proptest! {
        #[test]
        fn the_windows_say_what_a_list_of_all_calls_would(
            steps in proptest::collection::vec((0_u32..4, 0_u64..3_000, any::<bool>()), 1..300),
        ) {
            let kinds = [Metric::Calls, Metric::Failures, Metric::FailureRatio, Metric::MeanLatencyMs, Metric::Bytes];
            let conditions: Vec<_> =
                [10, 60, 300].iter().flat_map(|seconds| kinds.map(|kind| condition(kind, *seconds))).collect();
            let mut window = Window::new(0, &conditions);
            let (mut tick, mut all) = (0, Vec::new());
            for (pause, ms, failed) in steps {
                tick += pause;
                window.add(tick, &call(ms, failed), &conditions);
                all.push((tick, ms, failed));
                for (index, condition) in conditions.iter().enumerate() {
                    let within: Vec<_> = all.iter().filter(|(at, ..)| at + buckets(condition.window) > tick).collect();
                    let calls = within.len() as f64;
                    let failures = within.iter().filter(|(.., failed)| *failed).count() as f64;
                    let expected = match condition.metric {
                        Metric::Calls => calls,
                        Metric::Failures => failures,
                        Metric::FailureRatio => failures / calls,
                        Metric::MeanLatencyMs => within.iter().map(|(_, ms, _)| *ms as f64).sum::<f64>() / calls,
                        Metric::Bytes => calls * 10.0,
                        Metric::P99LatencyMs => unreachable!("not asked for"),
                    };
                    prop_assert!((window.measure(index, condition) - expected).abs() < 1e-6);
                }
                prop_assert!(window.full.len() <= 30);
            }
        }
    }
}
