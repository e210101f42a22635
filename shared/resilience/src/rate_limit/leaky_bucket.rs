//! # Leaky bucket: an even pace, and a bounded queue in front of it
//!
//! **Problem.** The callee wants its requests evenly spaced, and a burst that is merely refused comes back as retries.
//!
//! **Rule.** Each caller is given the next free slot of a schedule, one every `1 / per_second`, and sleeps until it. No
//! slot is given that lies further off than `max_wait_ms` or than the caller's deadline: that caller is refused at
//! once, without a slot, and told when the queue will be short enough. Slots are first come, first served, and a
//! caller that leaves gives its slot back unless another stands behind it.
//!
//! **Not for** user-facing routes where waiting is worse than a refusal (token bucket).
//!
//! **When you copy this**, take `gcra`, `clock`, `quota` and `verdict` along. governor's own `until_ready` is not used:
//! it lets every waiter race for each slot, and knows no bound.
//!
//! **Proved by** the drill `provider-down-fallback-and-defer`, in which status polling is paced.

use std::{
    num::NonZeroU32,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    Admitted, Invalid, LimiterSnapshot, Quota, RateLimited, Refused,
    clock::Clock,
    gcra::{Bucket, Policy},
    quota::Shape,
};
use crate::Deadline;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeakyBucketConfig {
    /// The pace, operations a second.
    pub per_second: f64,
    /// The longest that a caller waits for its slot, milliseconds; with the pace it bounds the queue. 0 = nobody waits.
    #[serde(rename = "max_wait_ms", with = "crate::millis", default)]
    pub max_wait: Duration,
}

impl LeakyBucketConfig {
    pub fn validate(&self) -> Result<(), Invalid> {
        self.shape().map(|_| ())
    }

    /// The places of the queue are the burst of governor's quota: one being served, the others waiting.
    fn shape(&self) -> Result<Shape, Invalid> {
        let pace = Quota::new(self.per_second, 1).shape()?;
        let waiting = self.max_wait.as_nanos() / u128::from(pace.cell);
        let places = u32::try_from(waiting + 1).unwrap_or(u32::MAX);
        Quota::new(self.per_second, places).shape().map_err(|_| {
            Invalid::new("max_wait_ms", format!("{:?} makes a queue without a useful bound", self.max_wait))
        })
    }
}

pub struct LeakyBucket {
    clock: Clock,
    /// Its word is the first moment at which no slot has been given yet.
    schedule: Bucket,
    /// Held while a slot is given, so that one that would be too late is never taken. No await under it.
    policy: Mutex<Policy>,
}

impl LeakyBucket {
    pub fn new(config: LeakyBucketConfig) -> Result<Self, Invalid> {
        Self::with_clock(config, Clock::counter())
    }

    pub fn with_clock(config: LeakyBucketConfig, clock: Clock) -> Result<Self, Invalid> {
        let policy = Mutex::new(Policy::of_schedule(config.shape()?, clock.clone()));
        Ok(Self { clock, schedule: Bucket::full(), policy })
    }

    /// Waits for a slot, no longer than `max_wait` and never past the deadline.
    pub async fn acquire(&self, deadline: Deadline) -> Result<Admitted, RateLimited> {
        let slot = self.give(deadline.remaining(), NonZeroU32::MIN, |policy| policy.check(&self.schedule))?;
        if !slot.wait.is_zero() {
            tokio::time::sleep(slot.wait).await;
        }
        Ok(slot.used())
    }

    /// Admits one operation if the schedule is free now.
    pub fn check(&self) -> Result<Admitted, RateLimited> {
        self.give(Duration::ZERO, NonZeroU32::MIN, |policy| policy.check(&self.schedule)).map(Slot::used)
    }

    /// Likewise for an operation that takes `weight` slots in a row.
    pub fn check_n(&self, weight: NonZeroU32) -> Result<Admitted, Refused> {
        self.give(Duration::ZERO, weight, |policy| policy.check_n(&self.schedule, weight)).map(Slot::used)
    }

    /// Another pace, while in use. Slots that were given stand; the next one follows the last of them.
    pub fn reconfigure(&self, config: LeakyBucketConfig) -> Result<(), Invalid> {
        *self.policy() = Policy::of_schedule(config.shape()?, self.clock.clone());
        Ok(())
    }

    /// `remaining` counts the free places of the queue.
    #[must_use]
    pub fn snapshot(&self) -> LimiterSnapshot {
        let shape = self.policy().shape;
        LimiterSnapshot {
            kind: "leaky_bucket",
            limit: shape.burst.get(),
            window: shape.window(),
            remaining: free_places(&shape, self.backlog()),
        }
    }

    /// `take` runs only where the slot would come within `patience`.
    fn give<E: From<RateLimited>>(
        &self,
        patience: Duration,
        weight: NonZeroU32,
        take: impl FnOnce(&Policy) -> Result<Admitted, E>,
    ) -> Result<Slot<'_>, E> {
        let policy = self.policy();
        let shape = &policy.shape;
        let backlog = self.backlog();
        let patience = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        if backlog > patience && weight <= shape.burst {
            let retry_after = Duration::from_nanos(backlog - patience);
            return Err(RateLimited {
                retry_after,
                limit: shape.burst.get(),
                window: shape.window(),
                remaining: free_places(shape, backlog),
                reset: retry_after,
            }
            .into());
        }
        let before = self.schedule.filling_since();
        let admitted = take(&policy)?;
        let after = self.schedule.filling_since();
        let wait = Duration::from_nanos(before.saturating_sub(self.clock.read()));
        Ok(Slot { schedule: &self.schedule, before, after, wait, admitted, used: false })
    }

    /// How far off the next free slot lies, nanoseconds.
    fn backlog(&self) -> u64 {
        self.schedule.filling_since().saturating_sub(self.clock.read())
    }

    fn policy(&self) -> MutexGuard<'_, Policy> {
        self.policy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for LeakyBucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LeakyBucket").field(&self.snapshot()).finish()
    }
}

fn free_places(shape: &Shape, backlog: u64) -> u32 {
    let taken = u32::try_from(backlog.div_ceil(shape.cell)).unwrap_or(u32::MAX);
    shape.burst.get().saturating_sub(taken)
}

/// A slot that was given. Dropped before it is used, it goes back, unless another was given behind it.
struct Slot<'a> {
    schedule: &'a Bucket,
    before: u64,
    after: u64,
    wait: Duration,
    admitted: Admitted,
    used: bool,
}

impl Slot<'_> {
    fn used(mut self) -> Admitted {
        self.used = true;
        self.admitted
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if !self.used {
            self.schedule.undo(self.after, self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::{Instant, advance};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// 100 a second, and no more than 50 ms of waiting: one that is served and five in the queue.
    fn bucket() -> Arc<LeakyBucket> {
        Arc::new(
            LeakyBucket::with_clock(LeakyBucketConfig { per_second: 100.0, max_wait: 50 * MS }, Clock::tokio())
                .unwrap(),
        )
    }

    fn in_a_minute() -> Deadline {
        Deadline::after(60_000 * MS)
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_leaves_at_an_even_pace_in_the_order_of_its_coming_and_the_rest_is_refused_at_once() {
        let (bucket, start) = (bucket(), Instant::now());
        let mut crowd = tokio::task::JoinSet::new();
        for number in 0..10 {
            let bucket = Arc::clone(&bucket);
            crowd.spawn(async move { (number, bucket.acquire(in_a_minute()).await.is_ok(), start.elapsed()) });
        }
        let mut left = crowd.join_all().await;
        left.sort_by_key(|&(number, ..)| number);
        let expected: Vec<_> = (0..10)
            .map(|number| if number < 6 { (number, true, number * 10 * MS) } else { (number, false, Duration::ZERO) })
            .collect();
        assert_eq!(left, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_past_the_deadline_and_who_cannot_be_served_takes_no_slot() {
        let bucket = bucket();
        for _ in 0..3 {
            let bucket = Arc::clone(&bucket);
            tokio::spawn(async move { bucket.acquire(in_a_minute()).await });
        }
        tokio::task::yield_now().await;
        let start = Instant::now();
        let limited = bucket.acquire(Deadline::after(25 * MS)).await.unwrap_err();
        assert_eq!((limited.retry_after, start.elapsed()), (5 * MS, Duration::ZERO), "its slot lies 30 ms off");
        advance(limited.retry_after).await;
        assert!(bucket.acquire(Deadline::after(25 * MS)).await.is_ok());
        assert_eq!(start.elapsed(), 30 * MS, "the slot that was refused before");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_leaves_gives_its_slot_back() {
        let bucket = bucket();
        bucket.check().unwrap();
        let waiting = tokio::spawn({
            let bucket = Arc::clone(&bucket);
            async move { bucket.acquire(in_a_minute()).await }
        });
        tokio::task::yield_now().await;
        assert_eq!(bucket.snapshot().remaining, 4);
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        assert_eq!(bucket.snapshot().remaining, 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_that_is_given_back_from_the_middle_is_not_given_twice() {
        let (bucket, start) = (bucket(), Instant::now());
        bucket.check().unwrap();
        let mut waiting = Vec::new();
        for _ in 0..2 {
            let bucket = Arc::clone(&bucket);
            waiting.push(tokio::spawn(async move { bucket.acquire(in_a_minute()).await.map(|_| start.elapsed()) }));
            tokio::task::yield_now().await;
        }
        waiting[0].abort();
        let next = bucket.acquire(in_a_minute()).await.map(|_| start.elapsed());
        assert_eq!((waiting.remove(1).await.unwrap(), next), (Ok(20 * MS), Ok(30 * MS)));
    }

    #[tokio::test(start_paused = true)]
    async fn another_pace_follows_the_slots_that_were_given() {
        let (bucket, start) = (bucket(), Instant::now());
        bucket.check().unwrap();
        let waiting = tokio::spawn({
            let bucket = Arc::clone(&bucket);
            async move { bucket.acquire(in_a_minute()).await }
        });
        tokio::task::yield_now().await;
        bucket.reconfigure(LeakyBucketConfig { per_second: 10.0, max_wait: 500 * MS }).unwrap();
        bucket.acquire(in_a_minute()).await.unwrap();
        assert_eq!(start.elapsed(), 20 * MS, "behind the one that waits");
        bucket.acquire(in_a_minute()).await.unwrap();
        assert_eq!(start.elapsed(), 120 * MS, "at the new pace");
        assert!(waiting.await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_does_not_wait_and_says_how_long_the_schedule_is_taken() {
        let bucket = bucket();
        bucket.check().unwrap();
        assert_eq!(bucket.check().unwrap_err().retry_after, 10 * MS);
        advance(10 * MS).await;
        assert!(bucket.check_n(NonZeroU32::new(6).unwrap()).is_ok());
        assert_eq!(bucket.check().unwrap_err().retry_after, 60 * MS);
    }
}
