//! The relay: from the outbox to Kafka, at least once, in order per key.
//!
//! Problem: rows of the outbox must reach the broker although the broker, the database or this process may fail at any
//! moment, and two replicas must not publish side by side, since that would disorder a key.
//!
//! Rule: one leased relay a database. It reads what is unpublished in id order, has one message of a key in flight at
//! a time, and marks a row on the broker's delivery report alone. A failed delivery stops its key and is tried again
//! later; it may have been persisted, so consumers have an inbox. While the broker is away rows wait and the loop goes
//! on. A broker that is another one than last time gets all retained rows again.
//!
//! Not for throughput beyond what one process can poll: partition by key hash then, a lease each.
//!
//! When copying: `lease_ttl` is how long nothing is published after a crash; `delivery_timeout` bounds how long one
//! slow partition holds up a batch.

mod config;
mod held;
mod publisher;

use std::time::Duration;

use durable::{
    lease::{self, Lease},
    outbox::{Backlog, Outbox},
};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::KafkaConfig;
pub use config::RelayConfig;
use held::HeldKeys;
use publisher::Publisher;

/// The lease's name. One database, one relay.
const LEASE: &str = "outbox-relay";

/// How often the backlog is measured.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);
/// How often published rows past their retention are deleted, and how many at most at a time.
const PRUNE_INTERVAL: Duration = Duration::from_secs(10);
const PRUNE_LIMIT: i64 = 10_000;

/// Publishes one database's outbox.
pub struct Relay {
    outbox: Outbox,
    kafka: KafkaConfig,
    /// Asked at each use, so that a rule that changes is in force at once.
    config: Box<dyn Fn() -> RelayConfig + Send + Sync>,
}

/// Why a relay stopped leading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Stopped,
    LeaseLost,
}

impl Relay {
    /// With limits that stay as they are.
    #[must_use]
    pub fn new(outbox: Outbox, kafka: KafkaConfig, config: RelayConfig) -> Self {
        Self::live(outbox, kafka, move || config.clone())
    }

    /// With limits that may be others each time. How Kafka is spoken to follows when the relay next leads.
    #[must_use]
    pub fn live(outbox: Outbox, kafka: KafkaConfig, config: impl Fn() -> RelayConfig + Send + Sync + 'static) -> Self {
        Self { outbox, kafka, config: Box::new(config) }
    }

    /// Works until `stop`, then waits for what is on its way and hands the lease on. Never ends by itself.
    pub async fn run(self, stop: CancellationToken) {
        let holder = Uuid::new_v4();
        show(Backlog::default());
        loop {
            let lease_ttl = (self.config)().lease_ttl;
            match lease::acquire(self.outbox.pool(), LEASE, holder, lease_ttl).await {
                Ok(Some(lease)) => self.lead(lease, &stop).await,
                Ok(None) => tracing::trace!("another relay leads"),
                Err(error) => tracing::warn!(%error, "the relay cannot ask for its lease"),
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(lease_ttl / 4) => {}
            }
        }
    }

    async fn lead(&self, lease: Lease, stop: &CancellationToken) {
        tracing::info!(token = lease.token(), "the relay leads");
        let config = (self.config)();
        let flush_limit = config.flush_limit;
        let mut publisher = Publisher::new(self.kafka.clone(), config);
        let flush_limit_passed = async {
            stop.cancelled().await;
            sleep(flush_limit).await;
        };
        let ended = tokio::select! {
            ended = self.publish(&lease, &mut publisher, stop) => ended,
            () = self.keep(lease.clone()) => Ended::LeaseLost,
            () = flush_limit_passed => Ended::Stopped,
        };
        publisher.close(ended == Ended::Stopped).await;
        // Whoever leads next knows them; a figure that nobody renews would stand here for ever.
        show(Backlog::default());
        match ended {
            Ended::LeaseLost => tracing::warn!(token = lease.token(), "the relay lost its lease"),
            Ended::Stopped => {
                let released = timeout(flush_limit, lease.release(self.outbox.pool())).await;
                if !matches!(released, Ok(Ok(()))) {
                    tracing::warn!("the relay's lease was not handed on and has to expire");
                }
            }
        }
    }

    /// Renews the lease; ends when it is lost, or may be.
    async fn keep(&self, mut lease: Lease) {
        loop {
            sleep(lease.ttl() / 3).await;
            match timeout_at(lease.valid_until(), lease.renew(self.outbox.pool())).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return,
                // Tried again in a third of the time to live, as long as some of it is left.
                Ok(Err(error)) => tracing::warn!(%error, "the relay's lease was not renewed"),
                Err(_) => return,
            }
            if Instant::now() >= lease.valid_until() {
                return;
            }
        }
    }

    async fn publish(&self, lease: &Lease, publisher: &mut Publisher, stop: &CancellationToken) -> Ended {
        let first = (self.config)();
        let mut held = HeldKeys::new(first.retry_after, first.retry_after_max);
        let mut measured: Option<Instant> = None;
        let mut pruned = Instant::now();
        while !stop.is_cancelled() {
            if measured.is_none_or(|at| at.elapsed() >= MEASURE_INTERVAL) {
                self.measure().await;
                measured = Some(Instant::now());
            }
            if pruned.elapsed() >= PRUNE_INTERVAL {
                self.prune().await;
                pruned = Instant::now();
            }
            // A failure is not hurried by new rows.
            let (pause, hurried) = match self.publish_batch(lease, publisher, &mut held).await {
                Ok(Progress::LeaseLost) => return Ended::LeaseLost,
                Ok(Progress::More) => continue,
                Ok(Progress::Idle) => ((self.config)().poll_interval, true),
                Ok(Progress::Failed) => (held.pause(), false),
                Err(error) => {
                    tracing::warn!(%error, "the relay cannot work on the outbox");
                    ((self.config)().retry_after_max, false)
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = sleep(pause) => {}
                () = self.outbox.filled(), if hurried => {}
            }
        }
        Ended::Stopped
    }

    async fn publish_batch(
        &self,
        lease: &Lease,
        publisher: &mut Publisher,
        held: &mut HeldKeys,
    ) -> sqlx::Result<Progress> {
        match publisher.check_broker().await {
            Ok(None) => {}
            Ok(Some(broker)) => match self.outbox.move_to_broker(lease, &broker).await? {
                None => return Ok(Progress::LeaseLost),
                Some(again) => {
                    if again > 0 {
                        tracing::warn!(%broker, events = again, "another broker than before: all retained events are published again");
                        metrics::counter!("outbox_published_again_total").increment(again);
                    }
                    publisher.broker_is_known(broker);
                }
            },
            Err(error) => {
                metrics::counter!("outbox_broker_unreachable_total").increment(1);
                tracing::warn!(%error, bootstrap = self.kafka.bootstrap, "Kafka does not answer, events wait");
                held.all_failed();
                return Ok(Progress::Failed);
            }
        }
        let batch = (self.config)().batch;
        let rows = self.outbox.unpublished(&held.keys(), batch).await?;
        if rows.is_empty() {
            return Ok(Progress::Idle);
        }
        let full = i64::try_from(rows.len()).is_ok_and(|n| n >= batch);
        let delivery =
            publisher.deliver(rows, |ids| async move { self.outbox.mark_published(lease, &ids).await }).await?;
        if delivery.lease_lost {
            return Ok(Progress::LeaseLost);
        }
        if delivery.failed.is_empty() {
            held.all_went(delivery.keys);
            return Ok(if full { Progress::More } else { Progress::Idle });
        }
        publisher.doubt_broker();
        for (key, error) in &delivery.failed {
            tracing::warn!(%key, %error, "an event was not delivered, its key waits");
        }
        metrics::counter!("outbox_delivery_failures_total").increment(delivery.failed.len() as u64);
        if delivery.keys.is_empty() {
            // Nothing went through: the broker's fault rather than the keys'.
            held.all_failed();
            return Ok(Progress::Failed);
        }
        held.all_went(delivery.keys);
        held.hold(delivery.failed.into_iter().map(|(key, _)| key));
        Ok(Progress::More)
    }

    async fn measure(&self) {
        match self.outbox.backlog().await {
            Ok(backlog) => show(backlog),
            Err(error) => tracing::warn!(%error, "the outbox cannot be measured"),
        }
    }

    async fn prune(&self) {
        match self.outbox.prune((self.config)().retention, PRUNE_LIMIT).await {
            Ok(0) => {}
            Ok(rows) => tracing::debug!(rows, "published events past their retention were deleted"),
            Err(error) => tracing::warn!(%error, "the outbox cannot be pruned"),
        }
    }
}

fn show(backlog: Backlog) {
    metrics::gauge!("outbox_backlog").set(backlog.count as f64);
    metrics::gauge!("outbox_oldest_age_seconds").set(backlog.oldest_age.as_secs_f64());
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// There may be more to do at once.
    More,
    Idle,
    Failed,
    LeaseLost,
}
