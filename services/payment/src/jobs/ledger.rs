//! When each channel's ledger is read: by one replica at a time, since it is the whole ledger.

use std::time::Duration;

use contracts::payment::Channel;
use durable::lease;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::workflow::Payments;

const LEASE: &str = "payment.ledger";
/// A read and what follows from it; a replica that stopped within it is replaced after that.
const HELD: Duration = Duration::from_secs(30);
/// In development nobody wants to wait a minute for what a drill has broken.
const IN_DEVELOPMENT: Duration = Duration::from_secs(10);

pub async fn keep_compared(payments: Payments, dev: bool, stop: CancellationToken) {
    let holder = Uuid::now_v7();
    loop {
        let ruled = payments.rules().reconcile.ledger_interval;
        let interval = if dev { ruled.min(IN_DEVELOPMENT) } else { ruled };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
        // Comparing twice at once does no harm, so the lease is not renewed within a round.
        match lease::acquire(payments.database().pool(), LEASE, holder, HELD.max(interval * 2)).await {
            Ok(Some(_)) => {}
            Ok(None) => continue,
            Err(error) => {
                tracing::warn!(%error, "nobody knows who reads the ledgers");
                continue;
            }
        }
        for channel in Channel::ALL {
            match payments.compare_ledger(channel).await {
                Ok(found) => {
                    let outcome = if found.is_some() { "compared" } else { "unanswered" };
                    metrics::counter!("payment_ledger_reads_total", "outcome" => outcome).increment(1);
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, channel = channel.as_str(), "a ledger could not be compared");
                }
            }
        }
    }
}
