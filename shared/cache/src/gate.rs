//! Whether Redis is asked at all: a server that does not answer would otherwise cost every call its patience.
//!
//! Much less than the breaker of `resilience`, since a wrong guess costs little here: the next caller loads what Redis
//! might have known, or waits a few milliseconds for nothing.

use std::time::Duration;

use tokio::time::Instant;

/// Open, or closed until a point in time.
#[derive(Default)]
pub(crate) struct Gate {
    failures: u32,
    closed_until: Option<Instant>,
}

impl Gate {
    pub(crate) fn admit(&mut self, pause: Duration) -> bool {
        match self.closed_until {
            None => true,
            Some(until) if Instant::now() < until => false,
            // This caller tries alone. If it is cancelled, another one does after a further pause.
            Some(_) => {
                self.closed_until = Some(Instant::now() + pause);
                true
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed_until.is_some()
    }

    /// True when Redis is back.
    pub(crate) fn succeeded(&mut self) -> bool {
        self.failures = 0;
        self.closed_until.take().is_some()
    }

    /// True when Redis is given up on.
    pub(crate) fn failed(&mut self, pause_after: u32, pause: Duration) -> bool {
        self.failures = self.failures.saturating_add(1);
        let give_up = self.failures >= pause_after;
        let was_open = self.closed_until.is_none();
        if give_up {
            self.closed_until = Some(Instant::now() + pause);
        }
        give_up && was_open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn after_three_failures_redis_is_left_alone_and_then_one_caller_tries() {
        let mut gate = Gate::default();
        assert!(!gate.failed(3, PAUSE) && !gate.failed(3, PAUSE));
        assert!(gate.admit(PAUSE), "two failures are not enough");
        assert!(gate.failed(3, PAUSE));
        assert!(!gate.admit(PAUSE));
        tokio::time::advance(PAUSE).await;
        assert!(gate.admit(PAUSE), "the one that tries");
        assert!(!gate.admit(PAUSE), "the others go on without");
        assert!(gate.succeeded());
        assert!(gate.admit(PAUSE));
        assert!(!gate.failed(3, PAUSE), "a success forgets the failures before it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_try_that_was_cancelled_is_repeated_after_a_further_pause() {
        let mut gate = Gate::default();
        gate.failed(1, PAUSE);
        tokio::time::advance(PAUSE).await;
        assert!(gate.admit(PAUSE));
        assert!(!gate.admit(PAUSE));
        tokio::time::advance(PAUSE).await;
        assert!(gate.admit(PAUSE));
    }
}
