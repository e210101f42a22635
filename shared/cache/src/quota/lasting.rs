//! What a replica keeps while its limits change: the connection, its name, what it knows of the others, its counts.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use redis::aio::ConnectionManager;
use tokio::runtime::Handle;

pub(super) struct Lasting {
    pub redis: ConnectionManager,
    /// Where round trips run.
    pub runtime: Handle,
    pub id: String,
    /// Last known; while Redis is away it stays.
    pub replicas: AtomicU32,
    /// So a script that has to be loaded again is told from one that is loaded for the first time.
    pub answered_before: AtomicBool,
    pub leased: AtomicU64,
    pub locally: AtomicU64,
    pub refused: AtomicU64,
    pub round_trips: AtomicU64,
    pub failures: AtomicU64,
    pub script_loads: AtomicU64,
}

impl Lasting {
    pub(super) fn new(redis: ConnectionManager, id: &str, expected_replicas: u32) -> Self {
        let zero = AtomicU64::default;
        Self {
            redis,
            runtime: Handle::current(),
            id: id.to_owned(),
            replicas: AtomicU32::new(expected_replicas),
            answered_before: AtomicBool::new(false),
            leased: zero(),
            locally: zero(),
            refused: zero(),
            round_trips: zero(),
            failures: zero(),
            script_loads: zero(),
        }
    }

    /// A guess, until Redis has told better.
    pub(super) fn expect_replicas(&self, replicas: u32) {
        if !self.answered_before.load(Relaxed) {
            self.replicas.store(replicas, Relaxed);
        }
    }
}
