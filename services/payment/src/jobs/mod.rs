//! What runs beside requests and events. Each job takes up what is due and re-enters through the workflow; a round that
//! fails is repeated at its next turn.

mod backlog;
mod ledger;

use std::{sync::Arc, time::Duration};

use chassis::Lifecycle;
use durable::StorageError;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::workflow::Payments;

pub use backlog::Backlog;

/// Starts all of them. `dev`: ledgers are read more often.
pub fn start(payments: &Payments, lifecycle: &Lifecycle, dev: bool) -> Backlog {
    let sweep_interval = |payments: &Payments| payments.rules().reconcile.sweep_interval;
    let own = payments.clone();
    lifecycle.spawn_background("sweeper", |stop| async move {
        let never = Arc::new(Notify::new());
        keep_doing("the sweep", &never, || sweep_interval(&own), || own.sweep(), &stop).await;
    });
    let own = payments.clone();
    lifecycle.spawn_background("refunds", |stop| async move {
        let wake = own.wakes().refunds.clone();
        keep_doing("sending refunds", &wake, || sweep_interval(&own), || own.send_refunds(), &stop).await;
    });
    let own = payments.clone();
    lifecycle.spawn_background("webhooks", |stop| async move {
        let wake = own.wakes().notices.clone();
        let take = || async { own.take_notice().await.map(usize::from) };
        keep_doing("taking webhooks", &wake, || sweep_interval(&own), take, &stop).await;
    });
    let own = payments.clone();
    lifecycle.spawn_background("deferred charges", |stop| async move {
        let wake = own.wakes().deferred.clone();
        let interval = || own.rules().reconcile.drain_interval;
        keep_doing("sending deferred charges", &wake, interval, || own.drain(), &stop).await;
    });
    let own = payments.clone();
    lifecycle.spawn_background("ledger", |stop| ledger::keep_compared(own, dev, stop));
    let backlog = Backlog::default();
    let (own, measured) = (payments.clone(), backlog.clone());
    let signals = lifecycle.signals().clone();
    lifecycle
        .spawn_background("payment backlog", |stop| async move { measured.keep_measured(&own, signals, stop).await });
    backlog
}

/// Calls `round` until `stop`: at once again while it finds something, else after `interval` or when it is woken.
async fn keep_doing<Fut>(
    what: &'static str,
    wake: &Notify,
    interval: impl Fn() -> Duration,
    round: impl Fn() -> Fut,
    stop: &CancellationToken,
) where
    Fut: Future<Output = Result<usize, StorageError>>,
{
    while !stop.is_cancelled() {
        match round().await {
            Ok(0) => {}
            Ok(_) => continue,
            Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, what, "a round failed"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = wake.notified() => {}
            () = tokio::time::sleep(interval()) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_job_goes_on_while_it_finds_something_and_rests_else() {
        let (started, stop, wake) = (Instant::now(), CancellationToken::new(), Notify::new());
        let rounds = Mutex::new(Vec::new());
        let round = || {
            let mut rounds = rounds.lock().unwrap();
            rounds.push(started.elapsed().as_secs());
            let found = match rounds.len() {
                1 | 2 => Ok(3),
                3 => Err(StorageError::Constraint("any".into())),
                4 => {
                    wake.notify_one();
                    Ok(0)
                }
                5 => Ok(0),
                _ => {
                    stop.cancel();
                    Ok(0)
                }
            };
            std::future::ready(found)
        };
        keep_doing("nothing", &wake, || Duration::from_secs(7), round, &stop).await;
        assert_eq!(*rounds.lock().unwrap(), [0, 0, 0, 7, 7, 14]);
    }
}
