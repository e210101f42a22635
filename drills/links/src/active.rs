//! A fault in force: its dice, its counter, and the word that it is over.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use serde::Serialize;
use tokio::{sync::Semaphore, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::fault::{Effect, Fault};

/// How often faults of each kind were applied on a link, in the order of [`Effect::KINDS`].
pub type Tally = [AtomicU64; Effect::KINDS.len()];

#[derive(Debug)]
pub struct Active {
    pub id: u64,
    pub link: String,
    pub fault: Fault,
    seed: u64,
    dice: Mutex<StdRng>,
    applied: AtomicU64,
    tally: Arc<Tally>,
    over: CancellationToken,
    /// Of a bottleneck, the line before it.
    places: Semaphore,
}

/// A fault as the admin API shows it.
#[derive(Debug, Serialize)]
pub struct View {
    pub id: u64,
    pub link: String,
    #[serde(flatten)]
    pub fault: Fault,
    pub seed: u64,
    /// Requests, or connections on a TCP hop, that have really met it.
    pub applied: u64,
    pub active: bool,
}

impl Active {
    pub fn new(id: u64, link: &str, fault: Fault, seed: u64, tally: Arc<Tally>) -> Self {
        let places = match fault.effect {
            Effect::Bottleneck { at_once, .. } => usize::try_from(at_once).unwrap_or(Semaphore::MAX_PERMITS),
            _ => 0,
        };
        Self {
            id,
            link: link.to_owned(),
            fault,
            seed,
            dice: Mutex::new(StdRng::seed_from_u64(seed)),
            applied: AtomicU64::new(0),
            tally,
            over: CancellationToken::new(),
            places: Semaphore::new(places),
        }
    }

    /// One throw.
    pub fn strikes(&self) -> bool {
        let throw = self.dice.lock().unwrap_or_else(PoisonError::into_inner).random::<f64>();
        throw < self.fault.ratio
    }

    /// How long this time; nothing for what is no latency.
    fn wait(&self) -> Duration {
        let Effect::Latency { latency_ms, jitter_ms, .. } = self.fault.effect else { return Duration::ZERO };
        let range = latency_ms - jitter_ms..=latency_ms + jitter_ms;
        Duration::from_millis(self.dice.lock().unwrap_or_else(PoisonError::into_inner).random_range(range))
    }

    /// It has met something.
    pub fn count(&self) {
        self.applied.fetch_add(1, Ordering::Relaxed);
        self.tally[self.fault.effect.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Its latency, or until it is switched off.
    pub async fn delay(&self) {
        self.delay_by(self.wait()).await;
    }

    /// Whether the time passed with the fault still on.
    pub async fn delay_by(&self, time: Duration) -> bool {
        tokio::select! {
            () = self.over.cancelled() => false,
            () = sleep(time) => true,
        }
    }

    /// Its turn at the bottleneck and the time that it takes there, or until it is switched off.
    pub async fn turn(&self) {
        let Effect::Bottleneck { latency_ms, .. } = self.fault.effect else { return };
        let turn = async {
            // Never closed.
            let _place = self.places.acquire().await;
            sleep(Duration::from_millis(latency_ms)).await;
        };
        tokio::select! {
            () = self.over.cancelled() => {}
            () = turn => {}
        }
    }

    pub async fn over(&self) {
        self.over.cancelled().await;
    }

    pub fn over_token(&self) -> CancellationToken {
        self.over.clone()
    }

    /// Lets everybody go who waits in it.
    pub fn end(&self) {
        self.over.cancel();
    }

    pub fn view(&self) -> View {
        View {
            id: self.id,
            link: self.link.clone(),
            fault: self.fault.clone(),
            seed: self.seed,
            applied: self.applied.load(Ordering::Relaxed),
            active: !self.over.is_cancelled(),
        }
    }
}
