//! One bucket in one word, and governor's decision applied to it.
//!
//! A bucket is the moment since which it has been filling. governor's own state is the theoretical arrival time,
//! `filling since + cell × burst`, which means something else as soon as the burst changes. The moment at which the
//! bucket was last empty does not: it never lies in the future, so no change of quota can lock anybody out, and an
//! emptied bucket is an empty one under every quota. What a bucket holds at the moment of a change it keeps, in
//! operations ([`Bucket::convert`]); from then on it fills at the new rate, up to the new burst.
//!
//! governor's limiter is a policy here and owns no state: its "key" is the bucket itself, wherever that lies.

use std::{
    hash::{Hash, Hasher},
    num::NonZeroU32,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use governor::{
    NotUntil, RateLimiter,
    middleware::{StateInformationMiddleware, StateSnapshot},
    nanos::Nanos,
    state::StateStore,
};

use super::{
    Admitted, Exceeds, RateLimited, Refused,
    clock::{Clock, Tick},
    quota::Shape,
};

/// The lower bits of a word, nanoseconds: nine years. The upper ones are its owner's tag.
const TIME_BITS: u32 = 58;
const TIME: u64 = (1 << TIME_BITS) - 1;

pub(super) struct Bucket(AtomicU64);

impl Bucket {
    /// The clock's origin lies further back than any bucket takes to fill.
    pub const fn full() -> Self {
        Self(AtomicU64::new(0))
    }

    pub fn filling_since(&self) -> u64 {
        self.0.load(Ordering::Acquire) & TIME
    }

    pub fn tag(&self) -> u8 {
        (self.0.load(Ordering::Acquire) >> TIME_BITS) as u8
    }

    pub fn is_full(&self, shape: &Shape, now: u64) -> bool {
        self.filling_since() + shape.fill <= now
    }

    /// Whole operations in it.
    pub fn held(&self, shape: &Shape, now: u64) -> u32 {
        let filled = now.saturating_sub(self.filling_since()).min(shape.fill);
        u32::try_from(filled / shape.cell).unwrap_or(u32::MAX)
    }

    /// Rewrites it for another quota, so that it holds as much as it did, up to the new burst. `&mut`: a check that ran
    /// between the rewriting and the change of policy would be counted in the wrong measure.
    pub fn convert(&mut self, from: &Shape, to: &Shape, now: u64) {
        let word = self.0.get_mut();
        let held = now.saturating_sub(*word & TIME).min(from.fill);
        let held = u128::from(held) * u128::from(to.cell) / u128::from(from.cell);
        let held = u64::try_from(held).unwrap_or(u64::MAX).min(to.fill);
        *word = (*word & !TIME) | now.saturating_sub(held);
    }

    /// Moves it back to `to`, if nothing has moved it from `from`.
    pub fn undo(&self, from: u64, to: u64) {
        let _ = self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
    }
}

// What governor asks of a key, for stores that look keys up. Nothing is looked up here: none of it is called.
impl Clone for Bucket {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::Acquire)))
    }
}

impl PartialEq for Bucket {
    fn eq(&self, other: &Self) -> bool {
        self.0.load(Ordering::Acquire) == other.0.load(Ordering::Acquire)
    }
}

impl Eq for Bucket {}

impl Hash for Bucket {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.load(Ordering::Acquire).hash(state);
    }
}

/// A quota in force.
pub(super) struct Policy {
    pub shape: Shape,
    limiter: RateLimiter<Bucket, InPlace, Clock, StateInformationMiddleware>,
}

impl Policy {
    /// `tag` is left in the words of the buckets that it admits from. 0 to 63.
    pub fn new(shape: Shape, tag: u8, clock: Clock) -> Self {
        let state = InPlace { fill: shape.fill, tag: u64::from(tag) << TIME_BITS };
        Self { shape, limiter: RateLimiter::new(shape.governor(), state, clock) }
    }

    /// For a schedule, whose word is the arrival time itself: it must outlive changes of the queue's length.
    pub fn of_schedule(shape: Shape, clock: Clock) -> Self {
        let state = InPlace { fill: 0, tag: 0 };
        Self { shape, limiter: RateLimiter::new(shape.governor(), state, clock) }
    }

    #[inline]
    pub fn check(&self, bucket: &Bucket) -> Result<Admitted, RateLimited> {
        match self.limiter.check_key(bucket) {
            Ok(snapshot) => Ok(self.admitted(&snapshot)),
            Err(not_until) => Err(self.limited(NonZeroU32::MIN, &not_until)),
        }
    }

    pub fn check_n(&self, bucket: &Bucket, weight: NonZeroU32) -> Result<Admitted, Refused> {
        let exceeds = Exceeds { weight, limit: self.shape.burst.get() };
        // Before governor sees it: its own multiplication could overflow first.
        if weight > self.shape.burst {
            return Err(exceeds.into());
        }
        match self.limiter.check_key_n(bucket, weight) {
            Ok(Ok(snapshot)) => Ok(self.admitted(&snapshot)),
            Ok(Err(not_until)) => Err(self.limited(weight, &not_until).into()),
            Err(_) => Err(exceeds.into()),
        }
    }

    fn admitted(&self, snapshot: &StateSnapshot) -> Admitted {
        let limit = self.shape.burst.get();
        let remaining = snapshot.remaining_burst_capacity();
        let missing = u64::from(limit.saturating_sub(remaining));
        Admitted {
            limit,
            window: self.shape.window(),
            remaining,
            reset: Duration::from_nanos(missing * self.shape.cell),
        }
    }

    #[cold]
    fn limited(&self, weight: NonZeroU32, not_until: &NotUntil<Tick>) -> RateLimited {
        let wait = not_until.earliest_possible().0.saturating_sub(self.limiter.clock().read());
        let cost = u64::from(weight.get()) * self.shape.cell;
        let held = u32::try_from(cost.saturating_sub(wait) / self.shape.cell).unwrap_or(u32::MAX);
        let retry_after = Duration::from_nanos(wait);
        RateLimited {
            retry_after,
            limit: self.shape.burst.get(),
            window: self.shape.window(),
            // By the second reading of the clock the weight may have been earned; it was refused all the same.
            remaining: held.min(weight.get() - 1),
            reset: retry_after,
        }
    }
}

struct InPlace {
    fill: u64,
    tag: u64,
}

impl StateStore for InPlace {
    type Key = Bucket;

    /// Check and count in one compare-and-swap; a refusal writes nothing.
    fn measure_and_replace<T, F, E>(&self, bucket: &Bucket, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        replace(&bucket.0, self.tag, self.fill, decide)
    }
}

/// What is done to a word, so that the tests can run the same steps on one whose interleavings are explored.
trait Word {
    fn read(&self) -> u64;
    fn swap(&self, seen: u64, next: u64) -> Result<u64, u64>;
}

impl Word for AtomicU64 {
    #[inline]
    fn read(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    #[inline]
    fn swap(&self, seen: u64, next: u64) -> Result<u64, u64> {
        self.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire)
    }
}

#[inline]
fn replace<T, E>(
    word: &impl Word,
    tag: u64,
    fill: u64,
    decide: impl Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
) -> Result<T, E> {
    let mut seen = word.read();
    loop {
        let (outcome, arrival) = decide(Some(Nanos::new((seen & TIME) + fill)))?;
        let next = tag | (arrival.as_u64().saturating_sub(fill) & TIME);
        match word.swap(seen, next) {
            Ok(_) => return Ok(outcome),
            Err(other) => seen = other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shuttle::{sync::atomic::AtomicU64 as ExploredWord, thread};

    use super::*;

    impl Word for ExploredWord {
        fn read(&self) -> u64 {
            self.load(Ordering::Acquire)
        }

        fn swap(&self, seen: u64, next: u64) -> Result<u64, u64> {
            self.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire)
        }
    }

    /// governor's decision at a moment at which nothing is earned.
    fn decide(arrival: Option<Nanos>) -> Result<((), Nanos), ()> {
        const NOW: u64 = 1_000;
        const CELL: u64 = 10;
        const BURST: u64 = 3;
        let arrival = arrival.map_or(NOW, Nanos::as_u64);
        if NOW < arrival.saturating_sub(CELL * (BURST - 1)) {
            Err(())
        } else {
            Ok(((), Nanos::new(arrival.max(NOW) + CELL)))
        }
    }

    #[test]
    fn in_every_interleaving_exactly_the_burst_is_admitted() {
        shuttle::check_pct(
            || {
                let word = Arc::new(ExploredWord::new(0));
                let check = |word: &ExploredWord| u32::from(replace(word, 0, 30, decide).is_ok());
                let threads: Vec<_> = (0..3)
                    .map(|_| {
                        let word = Arc::clone(&word);
                        thread::spawn(move || check(&word) + check(&word))
                    })
                    .collect();
                let admitted: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
                assert_eq!(admitted, 3);
            },
            5_000,
            3,
        );
    }
}
