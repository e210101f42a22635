//! What the patterns import as `sync`, from the model checker.

pub(crate) use std::sync::PoisonError;

pub(crate) use shuttle::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use shuttle::future::batch_semaphore::{AcquireError, BatchSemaphore, Fairness, TryAcquireError};

/// The part of tokio's semaphore that the bulkhead uses.
#[derive(Debug)]
pub(crate) struct Semaphore(BatchSemaphore);

/// Not given back: the bulkhead keeps its own account and forgets every one of these.
#[must_use]
pub(crate) struct Unaccounted;

impl Semaphore {
    pub(crate) fn new(permits: usize) -> Self {
        Self(BatchSemaphore::new(permits, Fairness::StrictlyFair))
    }

    pub(crate) fn try_acquire(&self) -> Result<Unaccounted, TryAcquireError> {
        self.0.try_acquire(1).map(|()| Unaccounted)
    }

    pub(crate) async fn acquire(&self) -> Result<Unaccounted, AcquireError> {
        self.0.acquire(1).await.map(|()| Unaccounted)
    }

    pub(crate) fn add_permits(&self, permits: usize) {
        self.0.release(permits);
    }

    pub(crate) fn forget_permits(&self, permits: usize) -> usize {
        (0..permits).take_while(|_| self.0.try_acquire(1).is_ok()).count()
    }

    pub(crate) fn available_permits(&self) -> usize {
        self.0.available_permits()
    }
}

impl Unaccounted {
    pub(crate) fn forget(self) {}
}
