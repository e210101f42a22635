//! What is in force, in memory: services that ask for news are answered from here, also while the database is away.

use std::{sync::Arc, time::Duration};

use durable::Database;
use resilience::Deadline;
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Error,
    domain::{InForce, Meant},
    store::versions,
};

/// Another console may have changed it, and tells nobody here.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The longest look; what was seen before stays until then.
const PATIENCE: Duration = Duration::from_secs(2);

/// Clones share it.
#[derive(Clone)]
pub struct Board {
    database: Database,
    shown: Arc<watch::Sender<Arc<InForce>>>,
    /// One look at a time, so that an older one never comes after a newer one.
    turn: Arc<Mutex<()>>,
}

impl Board {
    /// With what is in force now.
    pub async fn open(database: Database) -> Result<Self, Error> {
        let board = Self { database, shown: Arc::default(), turn: Arc::default() };
        board.look().await?;
        Ok(board)
    }

    #[must_use]
    pub fn in_force(&self) -> Arc<InForce> {
        self.shown.borrow().clone()
    }

    /// To be called after every commit that changes what is in force.
    pub async fn look(&self) -> Result<(), Error> {
        let _turn = self.turn.lock().await;
        let mut tx = self.database.begin(Deadline::after(PATIENCE)).await?;
        let seen = versions::in_force(&mut tx).await?;
        drop(tx);
        self.shown.send_if_modified(|shown| {
            let is_new = **shown != seen;
            if is_new {
                *shown = Arc::new(seen);
            }
            is_new
        });
        Ok(())
    }

    /// Waits until what is meant for the instance is news to it, `until` has come, or `is_over` says so; then says what
    /// is meant.
    pub async fn news(
        &self,
        instance: &str,
        seen: Option<i64>,
        until: Instant,
        is_over: impl Fn() -> bool,
    ) -> Arc<InForce> {
        let mut shown = self.shown.subscribe();
        loop {
            let in_force = shown.borrow_and_update().clone();
            let now = Instant::now();
            if in_force.meant_for(instance).is_news_to(seen) || now >= until || is_over() {
                return in_force;
            }
            // Either way it is looked at next. In steps, since nobody announces a shutdown.
            drop(tokio::time::timeout_at(until.min(now + LOOK_AGAIN / 4), shown.changed()).await);
        }
    }

    /// Looks again and again, until shutdown.
    pub async fn keep_up(self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(LOOK_AGAIN);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failed = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            match self.look().await {
                Ok(()) => failed = false,
                // Once an outage is enough.
                Err(error) if !failed => {
                    failed = true;
                    tracing::warn!(%error, "the versions cannot be read; what was in force stays");
                }
                Err(_) => {}
            }
        }
    }
}

/// What an instance should run on, as a number.
pub(super) fn expected(in_force: &InForce, instance: &str) -> Option<i64> {
    match in_force.meant_for(instance) {
        Meant::Active(held) | Meant::Canary(held) => Some(held.version),
        Meant::Unsaid | Meant::ItsOwn => None,
    }
}
