//! Asking Redis within one's patience, or not at all: a server that does not answer would otherwise cost every call its
//! patience.
//!
//! Much less than the breaker of `resilience`, since a wrong guess costs little here: the next caller loads what Redis
//! might have known, or waits a few milliseconds for nothing.

use std::{
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::RedisError;
use tokio::time::{Instant, timeout};

use crate::counts::{Counts, Event};

/// Open, or closed until a point in time.
pub(crate) struct Gate {
    name: Box<str>,
    pause_after: u32,
    pause: Duration,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Default)]
struct State {
    failures: u32,
    closed_until: Option<Instant>,
}

impl Gate {
    /// Closes for `pause` after `pause_after` failures in a row.
    pub(crate) fn new(name: impl Into<Box<str>>, pause_after: u32, pause: Duration) -> Self {
        Self { name: name.into(), pause_after, pause, state: Mutex::default() }
    }

    /// One with other limits that is as open as this one, so that a change of them costs nobody another wait.
    pub(crate) fn successor(&self, pause_after: u32, pause: Duration) -> Self {
        let mut state = *self.state();
        state.closed_until = state.closed_until.map(|until| until.min(Instant::now() + pause));
        Self { name: self.name.clone(), pause_after, pause, state: Mutex::new(state) }
    }

    /// One command, if Redis is to be asked at all; `None` when it is not, or did not answer in time.
    pub(crate) async fn ask<V: Default>(
        &self,
        counts: &Counts,
        patience: Duration,
        command: impl Future<Output = Result<V, RedisError>>,
    ) -> Option<V> {
        if patience.is_zero() || !self.admit() {
            return None;
        }
        match timeout(patience, command).await {
            Ok(Ok(value)) => {
                self.succeeded();
                Some(value)
            }
            // The server itself says no, say to a key that holds something else than a text: it is well, and the value
            // counts as missing.
            Ok(Err(error)) if error.code().is_some() => {
                counts.add(Event::Error);
                self.succeeded();
                Some(V::default())
            }
            Ok(Err(_)) | Err(_) => {
                counts.add(Event::Error);
                self.failed();
                None
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed_until.is_some()
    }

    /// Whoever is admitted reports [`Self::succeeded`] or [`Self::failed`].
    pub(crate) fn admit(&self) -> bool {
        let mut state = self.state();
        match state.closed_until {
            None => true,
            Some(until) if Instant::now() < until => false,
            // This caller tries alone. If it is cancelled, another one does after a further pause.
            Some(_) => {
                state.closed_until = Some(Instant::now() + self.pause);
                true
            }
        }
    }

    pub(crate) fn succeeded(&self) {
        let mut state = self.state();
        state.failures = 0;
        if state.closed_until.take().is_some() {
            tracing::info!(name = %self.name, "Redis answers again");
        }
    }

    pub(crate) fn failed(&self) {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        if state.failures < self.pause_after {
            return;
        }
        if state.closed_until.replace(Instant::now() + self.pause).is_none() {
            tracing::warn!(name = %self.name, "Redis does not answer and is left alone");
        }
    }

    /// Nothing that can panic runs under this lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn after_three_failures_redis_is_left_alone_and_then_one_caller_tries() {
        let gate = Gate::new("test", 3, PAUSE);
        gate.failed();
        gate.failed();
        assert!(gate.admit(), "two failures are not enough");
        gate.failed();
        assert!(!gate.admit() && gate.is_closed());
        tokio::time::advance(PAUSE).await;
        assert!(gate.admit(), "the one that tries");
        assert!(!gate.admit(), "the others go on without");
        gate.succeeded();
        assert!(gate.admit() && !gate.is_closed());
        gate.failed();
        assert!(gate.admit(), "a success forgets the failures before it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_try_that_fails_or_is_cancelled_is_repeated_after_a_further_pause() {
        let gate = Gate::new("test", 1, PAUSE);
        gate.failed();
        tokio::time::advance(PAUSE).await;
        assert!(gate.admit(), "a try that will be cancelled");
        assert!(!gate.admit());
        tokio::time::advance(PAUSE).await;
        assert!(gate.admit());
        gate.failed();
        assert!(!gate.admit());
        tokio::time::advance(PAUSE).await;
        assert!(gate.admit());
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_refused_does_not_even_begin_and_a_silent_server_costs_the_patience() {
        let (gate, counts) = (Gate::new("test", 1, PAUSE), Counts::new("test"));
        let patience = Duration::from_millis(50);
        let started = Instant::now();
        assert_eq!(gate.ask(&counts, patience, std::future::pending::<Result<(), _>>()).await, None);
        assert_eq!(started.elapsed(), patience);
        let begun = async { panic!("the command was begun") };
        assert_eq!(gate.ask::<()>(&counts, patience, begun).await, None);
        assert_eq!(counts.snapshot(gate.is_closed(), 0).errors, 1);
    }
}
