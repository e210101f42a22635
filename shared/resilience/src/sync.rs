//! The primitives that the breaker and the bulkhead are built on, under one name.
//!
//! The concurrency tests compile the same source a second time with a model checker's primitives in this place, so
//! that what is explored is the code that ships. When you copy a pattern, import these from std and tokio instead.

pub(crate) use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

pub(crate) use tokio::sync::Semaphore;
