//! # Deadline: one time budget for a whole chain of calls
//!
//! **Problem.** With a fixed timeout at every hop, an inner service goes on working for a caller that has long
//! given up, and a slow dependency ties up every hop above it.
//!
//! **Rule.** The outermost caller sets a budget. Each hop turns what is left into a point on its own monotonic
//! clock, clamps it to what the route may take, and sends the remainder, less a reserve for the network, further in.
//! Nothing is started that cannot be waited for. Budgets travel as *remaining milliseconds*, since clocks differ.
//!
//! **Not for** work that has to be finished whatever the caller does, such as the record of a charge: take a deadline
//! of its own for that.
//!
//! **When you copy this**, change the header that carries the budget (it is read outside this file) and the reserve.
//!
//! **Proved by** the drill `clock-of-deadlines`: no call starts after its deadline.

use std::time::Duration;

use tokio::time::Instant;

/// A point in time after which nobody waits any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

/// There is not enough time left to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{remaining:?} left, {needed:?} needed")]
pub struct TooLate {
    pub remaining: Duration,
    pub needed: Duration,
}

impl Deadline {
    /// `budget` from now.
    #[must_use]
    pub fn after(budget: Duration) -> Self {
        let now = Instant::now();
        // A budget that the clock cannot express is as good as a year.
        Self(now.checked_add(budget).unwrap_or(now + Duration::from_secs(31_536_000)))
    }

    /// The deadline of a request: what the caller still waits, but never more than `cap`.
    #[must_use]
    pub fn for_request(caller_waits: Option<Duration>, cap: Duration) -> Self {
        Self::after(caller_waits.map_or(cap, |waits| waits.min(cap)))
    }

    /// Time left, zero once it has passed.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.remaining().is_zero()
    }

    /// The instant itself, for `tokio::time::timeout_at`.
    #[must_use]
    pub const fn instant(&self) -> Instant {
        self.0
    }

    /// Refuses when less than `needed` is left, so that work which cannot be useful is not begun.
    pub fn require(&self, needed: Duration) -> Result<(), TooLate> {
        let remaining = self.remaining();
        if remaining < needed || remaining.is_zero() { Err(TooLate { remaining, needed }) } else { Ok(()) }
    }

    /// The budget of a call further in: `min(cap, remaining − reserve)`. The reserve is what the answer needs to
    /// travel back and be made use of here.
    pub fn child(&self, cap: Duration, reserve: Duration) -> Result<Duration, TooLate> {
        let remaining = self.remaining();
        match remaining.checked_sub(reserve) {
            Some(left) if !left.is_zero() => Ok(left.min(cap)),
            _ => Err(TooLate { remaining, needed: reserve }),
        }
    }

    /// The earlier of two deadlines.
    #[must_use]
    pub fn earliest(self, other: Self) -> Self {
        self.min(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    proptest::proptest! {
        #[test]
        fn no_hop_waits_longer_than_the_one_above_it_and_all_of_them_fit_into_the_first_budget(
            budget in 1_u64..10_000,
            hops in proptest::collection::vec((0_u64..3_000, 1_u64..5_000, 0_u64..100), 1..8),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            runtime.block_on(async {
                let ms = Duration::from_millis;
                let mut deadline = Deadline::after(ms(budget));
                for (works, cap, reserve) in hops {
                    tokio::time::advance(ms(works)).await;
                    let left = deadline.remaining();
                    let Ok(given) = deadline.child(ms(cap), ms(reserve)) else {
                        proptest::prop_assert!(left <= ms(reserve), "{left:?} left and refused");
                        return Ok(());
                    };
                    proptest::prop_assert!(given <= ms(cap) && given + ms(reserve) <= left);
                    let inner = Deadline::after(given);
                    proptest::prop_assert!(inner.instant() + ms(reserve) <= deadline.instant());
                    deadline = inner;
                }
                Ok(())
            })?;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_can_shorten_the_budget_and_not_extend_it() {
        assert_eq!(Deadline::for_request(Some(100 * MS), 3_000 * MS).remaining(), 100 * MS);
        assert_eq!(Deadline::for_request(Some(9_000 * MS), 3_000 * MS).remaining(), 3_000 * MS);
        assert_eq!(Deadline::for_request(None, 3_000 * MS).remaining(), 3_000 * MS);
    }

    #[tokio::test(start_paused = true)]
    async fn the_budget_shrinks_with_every_hop() {
        let deadline = Deadline::after(100 * MS);
        tokio::time::advance(30 * MS).await;
        assert_eq!(deadline.child(1_000 * MS, 20 * MS), Ok(50 * MS));
        assert_eq!(deadline.child(10 * MS, 20 * MS), Ok(10 * MS));
        tokio::time::advance(50 * MS).await;
        assert_eq!(deadline.child(1_000 * MS, 20 * MS), Err(TooLate { remaining: 20 * MS, needed: 20 * MS }));
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_useful_is_not_begun() {
        let deadline = Deadline::after(5 * MS);
        assert!(deadline.require(10 * MS).is_err());
        assert!(deadline.require(5 * MS).is_ok());
        tokio::time::advance(6 * MS).await;
        assert!(deadline.has_passed());
        assert!(deadline.require(Duration::ZERO).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn an_absurd_budget_does_not_panic() {
        assert!(Deadline::after(Duration::MAX).remaining() > Duration::from_secs(86_400));
    }
}
