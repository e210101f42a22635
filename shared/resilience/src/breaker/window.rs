//! The outcomes that the ratios are taken over: a ring of calls or a ring of time buckets. No clock, no lock.

use super::config;

/// One verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) failed: bool,
    pub(super) slow: bool,
}

/// Sums over the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Figures {
    pub(super) calls: u32,
    pub(super) failures: u32,
    pub(super) slow: u32,
    /// Failures since the last success, whatever the window.
    pub(super) consecutive: u32,
}

#[derive(Debug)]
pub(super) struct Window {
    shape: config::Window,
    ring: Ring,
    figures: Figures,
}

#[derive(Debug)]
enum Ring {
    Calls(Calls),
    Time(Time),
}

/// The newest outcomes; `next` is where the following one goes, over the oldest once the ring is full.
#[derive(Debug)]
struct Calls {
    outcomes: Vec<Outcome>,
    capacity: usize,
    next: usize,
}

#[derive(Debug)]
struct Time {
    buckets: [Figures; BUCKETS],
    width: u64,
    /// Number of the newest bucket, counted from the breaker's start.
    newest: u64,
}

const BUCKETS: usize = 10;

impl Figures {
    pub(super) fn failure_ratio(&self) -> f64 {
        ratio(self.failures, self.calls)
    }

    pub(super) fn slow_ratio(&self) -> f64 {
        ratio(self.slow, self.calls)
    }

    fn add(&mut self, outcome: Outcome) {
        self.calls = self.calls.saturating_add(1);
        self.failures = self.failures.saturating_add(u32::from(outcome.failed));
        self.slow = self.slow.saturating_add(u32::from(outcome.slow));
    }

    fn remove(&mut self, other: Self) {
        self.calls = self.calls.saturating_sub(other.calls);
        self.failures = self.failures.saturating_sub(other.failures);
        self.slow = self.slow.saturating_sub(other.slow);
    }
}

impl Window {
    pub(super) fn new(shape: config::Window) -> Self {
        let ring = match shape {
            config::Window::Calls(calls) => Ring::Calls(Calls::new(calls as usize)),
            config::Window::SpanMs(span) => Ring::Time(Time::new(span)),
        };
        Self { shape, ring, figures: Figures::default() }
    }

    pub(super) const fn figures(&self) -> Figures {
        self.figures
    }

    /// Counts one outcome at `now` (nanoseconds since the breaker's start).
    pub(super) fn record(&mut self, outcome: Outcome, now: u64) {
        self.figures.consecutive = if outcome.failed { self.figures.consecutive.saturating_add(1) } else { 0 };
        match &mut self.ring {
            Ring::Calls(ring) => {
                if let Some(oldest) = ring.push(outcome) {
                    let mut one = Figures::default();
                    one.add(oldest);
                    self.figures.remove(one);
                }
            }
            Ring::Time(ring) => {
                ring.advance(now, &mut self.figures);
                ring.buckets[Time::slot(ring.newest)].add(outcome);
            }
        }
        self.figures.add(outcome);
    }

    /// Lets go of what is too old at `now`.
    pub(super) fn advance(&mut self, now: u64) {
        if let Ring::Time(ring) = &mut self.ring {
            ring.advance(now, &mut self.figures);
        }
    }

    pub(super) fn clear(&mut self) {
        self.figures = Figures::default();
        match &mut self.ring {
            Ring::Calls(ring) => {
                ring.outcomes.clear();
                ring.next = 0;
            }
            Ring::Time(ring) => ring.buckets = Default::default(),
        }
    }

    /// Takes another shape and keeps what fits it: the newest calls of a count window, the buckets of a time window
    /// that lie in the new span. Calls and time do not translate into each other, so that change begins anew; only the
    /// run of failures goes on.
    pub(super) fn reshape(&mut self, shape: config::Window, now: u64) {
        if self.shape == shape {
            return;
        }
        let mut next = Self::new(shape);
        match (&self.ring, &mut next.ring) {
            (Ring::Calls(old), Ring::Calls(_)) => {
                let keep = old.outcomes.len().min(next.capacity());
                for outcome in old.oldest_first().skip(old.outcomes.len() - keep) {
                    next.record(outcome, now);
                }
            }
            (Ring::Time(old), Ring::Time(new)) => new.take_over(old, now, &mut next.figures),
            _ => {}
        }
        next.figures.consecutive = self.figures.consecutive;
        *self = next;
    }

    const fn capacity(&self) -> usize {
        match &self.ring {
            Ring::Calls(ring) => ring.capacity,
            Ring::Time(_) => BUCKETS,
        }
    }
}

impl Calls {
    /// The whole ring at once: recording allocates nothing.
    fn new(capacity: usize) -> Self {
        Self { outcomes: Vec::with_capacity(capacity), capacity, next: 0 }
    }

    /// Returns the outcome that had to go.
    fn push(&mut self, outcome: Outcome) -> Option<Outcome> {
        let oldest = match self.outcomes.get_mut(self.next) {
            Some(slot) => Some(std::mem::replace(slot, outcome)),
            None => {
                self.outcomes.push(outcome);
                None
            }
        };
        self.next = if self.next + 1 == self.capacity { 0 } else { self.next + 1 };
        oldest
    }

    fn oldest_first(&self) -> impl Iterator<Item = Outcome> {
        let full = self.outcomes.len() == self.capacity;
        let first = if full { self.next } else { 0 };
        self.outcomes[first..].iter().chain(&self.outcomes[..first]).copied()
    }
}

impl Time {
    fn new(span_ms: u32) -> Self {
        Self { buckets: Default::default(), width: u64::from(span_ms) * (1_000_000 / BUCKETS as u64), newest: 0 }
    }

    const fn slot(number: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "below BUCKETS")]
        let slot = (number % BUCKETS as u64) as usize;
        slot
    }

    fn advance(&mut self, now: u64, sums: &mut Figures) {
        // Threads read the clock before they take the lock, so a little older than the newest is possible.
        let number = (now / self.width).max(self.newest);
        let passed = number - self.newest;
        for step in 1..=passed.min(BUCKETS as u64) {
            let slot = Self::slot(self.newest + step);
            sums.remove(std::mem::take(&mut self.buckets[slot]));
        }
        self.newest = number;
    }

    fn take_over(&mut self, old: &Self, now: u64, sums: &mut Figures) {
        self.newest = now / self.width;
        for age in 0..(BUCKETS as u64).min(old.newest + 1) {
            let bucket = old.buckets[Self::slot(old.newest - age)];
            // By its end: some stay for up to an old bucket too long, rather than that new ones are lost.
            let number = (((old.newest - age + 1) * old.width - 1) / self.width).min(self.newest);
            if bucket.calls > 0 && number + BUCKETS as u64 > self.newest {
                let into = &mut self.buckets[Self::slot(number)];
                for sum in [into, sums] {
                    sum.calls = sum.calls.saturating_add(bucket.calls);
                    sum.failures = sum.failures.saturating_add(bucket.failures);
                    sum.slow = sum.slow.saturating_add(bucket.slow);
                }
            }
        }
    }
}

fn ratio(part: u32, whole: u32) -> f64 {
    if whole == 0 { 0.0 } else { f64::from(part) / f64::from(whole) }
}
