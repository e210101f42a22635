//! A second breaker, written from the description and from nothing else: it keeps every verdict in a list and works all
//! figures out anew each time. Over random histories both must decide the same.

use proptest::prelude::*;
use resilience::{
    breaker::{Breaker, BreakerConfig, Permit, State, Window},
    ramp::{RampConfig, RampStep},
};
use tokio::time::advance;

use super::MS;

#[derive(Debug, Clone)]
enum Op {
    Acquire,
    Peek,
    /// Of the calls that run, the one at this index (modulo their number).
    Settle(usize, Verdict),
    Advance(u64),
    ForceOpen,
    ForceClosed,
    Release,
    Reconfigure(usize),
    Snapshot,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Verdict {
    Success,
    Failure,
    Neutral,
    Lost,
}

/// Times in milliseconds since the start.
struct Model {
    config: BreakerConfig,
    now: u64,
    state: State,
    generation: u64,
    log: Vec<Entry>,
    run_of_failures: u32,
    open_until: u64,
    openings: u32,
    probes: Vec<Probe>,
    step: usize,
    step_number: u64,
    step_began: u64,
    step_arrivals: u64,
    step_verdicts: Vec<bool>,
}

#[derive(Clone, Copy)]
struct Entry {
    at: u64,
    failed: bool,
    slow: bool,
}

struct Probe {
    expires: u64,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Running,
    GivenBack,
    Settled { failed: bool, slow: bool },
}

/// What the model remembers of an admitted call.
struct Call {
    generation: u64,
    began: u64,
    probe: Option<usize>,
    step: Option<u64>,
}

impl Model {
    fn new(config: BreakerConfig) -> Self {
        Self {
            config,
            now: 0,
            state: State::Closed,
            generation: 0,
            log: Vec::new(),
            run_of_failures: 0,
            open_until: 0,
            openings: 0,
            probes: Vec::new(),
            step: 0,
            step_number: 0,
            step_began: 0,
            step_arrivals: 0,
            step_verdicts: Vec::new(),
        }
    }

    fn figures(&self) -> (u32, u32, u32) {
        let in_window: Vec<_> = match self.config.window {
            Window::Calls(calls) => self.log.iter().rev().take(calls as usize).collect(),
            Window::SpanMs(span) => {
                let bucket = |at: u64| at * 10 / u64::from(span);
                self.log.iter().filter(|entry| bucket(entry.at) + 10 > bucket(self.now)).collect()
            }
        };
        let count = |of: fn(&Entry) -> bool| in_window.iter().filter(|entry| of(entry)).count() as u32;
        (in_window.len() as u32, count(|entry| entry.failed), count(|entry| entry.slow))
    }

    fn trips(&self) -> bool {
        let (calls, failed, slow) = self.figures();
        let run = self.config.consecutive_failures > 0 && self.run_of_failures >= self.config.consecutive_failures;
        let enough = calls >= self.config.minimum_calls;
        let share = |part: u32| f64::from(part) / f64::from(calls);
        run || enough && (share(failed) >= self.config.failure_ratio || share(slow) >= self.config.slow_ratio)
    }

    fn open(&mut self) {
        self.state = State::Open;
        self.generation += 1;
        self.openings += 1;
        let open = self.config.open.as_millis() as u64;
        let most = self.config.open_max.as_millis() as u64;
        self.open_until = self.now + (open * 2u64.pow(self.openings.min(20) - 1)).min(most);
    }

    fn half_open(&mut self) {
        self.state = State::HalfOpen;
        self.generation += 1;
        self.probes.clear();
    }

    fn enter_step(&mut self, step: usize) {
        self.step = step;
        self.step_number += 1;
        self.step_began = self.now;
        self.step_arrivals = 0;
        self.step_verdicts.clear();
    }

    fn tick(&mut self) {
        if self.state != State::Ramping {
            return;
        }
        let duration = self.config.ramp.steps[self.step].duration.as_millis() as u64;
        if self.now >= self.step_began + duration {
            if self.step + 1 == self.config.ramp.steps.len() {
                self.state = State::Closed;
                self.openings = 0;
            } else {
                self.enter_step(self.step + 1);
            }
        }
    }

    fn free_probe(&self) -> bool {
        let settled = self.probes.iter().filter(|probe| matches!(probe.fate, Fate::Settled { .. })).count();
        let running = |probe: &&Probe| probe.fate == Fate::Running && probe.expires > self.now;
        let taken = settled + self.probes.iter().filter(running).count();
        taken < (self.config.probes as usize).max(settled + 1)
    }

    fn would_admit(&self) -> bool {
        match self.state {
            State::Closed | State::ForcedClosed | State::Ramping => true,
            State::Open => self.now >= self.open_until,
            State::ForcedOpen => false,
            State::HalfOpen => self.free_probe(),
        }
    }

    fn acquire(&mut self) -> Option<Call> {
        if self.state == State::Open && self.now >= self.open_until {
            self.half_open();
        }
        self.tick();
        let mut call = Call { generation: self.generation, began: self.now, probe: None, step: None };
        match self.state {
            State::Closed | State::ForcedClosed => Some(call),
            State::Open | State::ForcedOpen => None,
            State::HalfOpen => self.free_probe().then(|| {
                let expires = self.now + self.config.probe_lease.as_millis() as u64;
                self.probes.push(Probe { expires, fate: Fate::Running });
                call.probe = Some(self.probes.len() - 1);
                call
            }),
            State::Ramping => {
                // Of the first n arrivals, the n-th included, ⌈n × percent⌉ have gone.
                let percent = u64::from(self.config.ramp.steps[self.step].percent);
                let gone = |arrivals: u64| (arrivals * percent + 100 - percent) / 100;
                let before = if self.step_arrivals == 0 { 0 } else { gone(self.step_arrivals) };
                self.step_arrivals += 1;
                call.step = Some(self.step_number);
                (gone(self.step_arrivals) > before).then_some(call)
            }
        }
    }

    fn settle(&mut self, call: &Call, verdict: Verdict) {
        if call.generation != self.generation || verdict == Verdict::Lost {
            return;
        }
        let slow = self.now - call.began >= self.config.slow_threshold.as_millis() as u64;
        let failed = verdict == Verdict::Failure;
        match self.state {
            State::HalfOpen => self.settle_probe(call, verdict, failed, slow),
            _ if verdict == Verdict::Neutral => {}
            State::Open | State::ForcedOpen => unreachable!("nothing begins in these"),
            State::Closed | State::Ramping | State::ForcedClosed => {
                self.log.push(Entry { at: self.now, failed, slow });
                self.run_of_failures = if failed { self.run_of_failures + 1 } else { 0 };
                if self.state != State::ForcedClosed && self.trips() {
                    self.open();
                } else if self.state == State::Ramping && call.step == Some(self.step_number) {
                    self.settle_step(failed || slow);
                }
            }
        }
    }

    fn settle_probe(&mut self, call: &Call, verdict: Verdict, failed: bool, slow: bool) {
        let probe = &mut self.probes[call.probe.unwrap()];
        if verdict == Verdict::Neutral {
            probe.fate = Fate::GivenBack;
            return;
        }
        if probe.expires <= self.now {
            return;
        }
        probe.fate = Fate::Settled { failed, slow };
        let settled = |of: fn(bool, bool) -> bool| {
            let counts = |probe: &&Probe| matches!(probe.fate, Fate::Settled { failed, slow } if of(failed, slow));
            self.probes.iter().filter(counts).count() as f64
        };
        let probes = f64::from(self.config.probes);
        if settled(|failed, _| failed) / probes >= self.config.failure_ratio
            || settled(|_, slow| slow) / probes >= self.config.slow_ratio
        {
            self.open();
        } else if settled(|_, _| true) >= probes {
            self.generation += 1;
            self.log.clear();
            self.run_of_failures = 0;
            if self.config.ramp.steps.is_empty() {
                self.state = State::Closed;
                self.openings = 0;
            } else {
                self.state = State::Ramping;
                self.enter_step(0);
            }
        }
    }

    fn settle_step(&mut self, bad: bool) {
        self.step_verdicts.push(bad);
        let share = self.step_verdicts.iter().filter(|bad| **bad).count() as f64 / self.step_verdicts.len() as f64;
        let ramp = &self.config.ramp;
        if self.step_verdicts.len() >= ramp.minimum_calls as usize && share >= ramp.trouble_ratio {
            if self.step == 0 { self.open() } else { self.enter_step(self.step - 1) }
        }
    }

    fn force_open(&mut self) {
        if self.state != State::ForcedOpen {
            self.state = State::ForcedOpen;
            self.generation += 1;
        }
    }

    fn force_closed(&mut self) {
        match self.state {
            State::ForcedClosed => return,
            // What runs goes on counting, and nothing is forgotten.
            State::Closed | State::Ramping => {}
            State::Open | State::HalfOpen | State::ForcedOpen => {
                self.generation += 1;
                self.log.clear();
                self.run_of_failures = 0;
            }
        }
        self.state = State::ForcedClosed;
        self.openings = 0;
    }

    fn release(&mut self) {
        match self.state {
            State::ForcedOpen => self.half_open(),
            State::ForcedClosed => self.state = State::Closed,
            _ => {}
        }
    }

    fn reconfigure(&mut self, config: BreakerConfig) {
        match (self.config.window, config.window) {
            (old, new) if old == new => {}
            (Window::Calls(old), Window::Calls(_)) => {
                // What the smaller window had forgotten stays forgotten.
                let forgotten = self.log.len().saturating_sub(old as usize);
                self.log.drain(..forgotten);
            }
            _ => self.log.clear(),
        }
        self.config = config;
    }
}

fn config(which: usize) -> BreakerConfig {
    let step = |percent| RampStep { percent, duration: 60 * MS };
    let ramp = RampConfig { steps: vec![step(30), step(70)], minimum_calls: 3, trouble_ratio: 0.5 };
    let base = BreakerConfig {
        window: Window::Calls(8),
        minimum_calls: 4,
        failure_ratio: 0.5,
        slow_threshold: 20 * MS,
        slow_ratio: 0.75,
        consecutive_failures: 0,
        open: 100 * MS,
        open_factor: 2.0,
        open_max: 400 * MS,
        open_jitter: 0.0,
        probes: 3,
        probe_lease: 50 * MS,
        forced: None,
        ramp,
    };
    match which {
        0 => base,
        1 => BreakerConfig { window: Window::Calls(20), failure_ratio: 0.25, ..base },
        2 => BreakerConfig { window: Window::SpanMs(100), probes: 2, slow_threshold: 5 * MS, ..base },
        3 => BreakerConfig { window: Window::Calls(5), consecutive_failures: 3, probes: 1, ..base },
        _ => BreakerConfig { window: Window::SpanMs(100), consecutive_failures: 4, slow_ratio: 1.0, ..base },
    }
}

fn op() -> impl Strategy<Value = Op> {
    let verdict = prop_oneof![
        6 => Just(Verdict::Success),
        4 => Just(Verdict::Failure),
        1 => Just(Verdict::Neutral),
        1 => Just(Verdict::Lost),
    ];
    prop_oneof![
        40 => Just(Op::Acquire),
        4 => Just(Op::Peek),
        36 => (any::<usize>(), verdict).prop_map(|(index, verdict)| Op::Settle(index, verdict)),
        10 => (0..15u64).prop_map(Op::Advance),
        4 => (20..120u64).prop_map(Op::Advance),
        1 => Just(Op::ForceOpen),
        1 => Just(Op::ForceClosed),
        2 => Just(Op::Release),
        2 => (0..5usize).prop_map(Op::Reconfigure),
        4 => Just(Op::Snapshot),
    ]
}

async fn replay(first: usize, ops: &[Op], seen: &mut [u32; 6]) -> Result<(), TestCaseError> {
    let breaker = Breaker::new(config(first), 7).unwrap();
    let mut model = Model::new(config(first));
    let mut running: Vec<(Permit<'_>, Call)> = Vec::new();
    for (n, op) in ops.iter().enumerate() {
        match op {
            Op::Acquire => match (breaker.acquire(), model.acquire()) {
                (Ok(permit), Some(call)) => running.push((permit, call)),
                (Err(rejected), None) => {
                    prop_assert_eq!(rejected.state, model.state);
                    prop_assert!(!rejected.retry_after.is_zero());
                    if model.state == State::Open {
                        prop_assert_eq!(rejected.retry_after.as_millis() as u64, model.open_until - model.now);
                    }
                }
                (real, expected) => {
                    return Err(TestCaseError::fail(format!(
                        "{n}: {real:?}, the model {} in {:?}",
                        if expected.is_some() { "admits" } else { "refuses" },
                        model.state
                    )));
                }
            },
            Op::Peek => prop_assert_eq!(breaker.peek().is_ok(), model.would_admit(), "{}: {:?}", n, model.state),
            Op::Settle(index, verdict) => {
                if running.is_empty() {
                    continue;
                }
                let (permit, call) = running.swap_remove(index % running.len());
                model.settle(&call, *verdict);
                match verdict {
                    Verdict::Success => permit.success(),
                    Verdict::Failure => permit.failure(),
                    Verdict::Neutral => drop(permit),
                    Verdict::Lost => std::mem::forget(permit),
                }
            }
            Op::Advance(ms) => {
                model.now += ms;
                advance(MS * u32::try_from(*ms).unwrap()).await;
            }
            Op::ForceOpen => {
                model.force_open();
                breaker.force_open();
            }
            Op::ForceClosed => {
                model.force_closed();
                breaker.force_closed();
            }
            Op::Release => {
                model.release();
                breaker.release();
            }
            Op::Reconfigure(which) => {
                model.reconfigure(config(*which));
                breaker.reconfigure(config(*which)).unwrap();
            }
            Op::Snapshot => {
                model.tick();
                let snapshot = breaker.snapshot();
                if matches!(model.state, State::Closed | State::Ramping | State::ForcedClosed) {
                    prop_assert_eq!((snapshot.calls, snapshot.failures, snapshot.slow), model.figures(), "{}", n);
                    prop_assert_eq!(snapshot.consecutive_failures, model.run_of_failures);
                }
            }
        }
        prop_assert_eq!(breaker.state(), model.state, "after {} {:?}", n, op);
        seen[model.state as usize] += 1;
    }
    Ok(())
}

#[test]
fn it_decides_as_the_reference_model_over_random_histories() {
    let seen = std::cell::Cell::new([0; 6]);
    // A fixed seed: the histories are the same in every run.
    let rng = proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
    let config = ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(config, rng);
    let histories = (0..5usize, prop::collection::vec(op(), 1..400));
    let outcome = runner.run(&histories, |(first, ops)| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let mut counts = seen.get();
        let outcome = runtime.block_on(replay(first, &ops, &mut counts));
        seen.set(counts);
        outcome
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    // The histories reach every state, and often.
    assert!(seen.get().iter().all(|times| *times > 1_000), "{:?}", seen.get());
}
