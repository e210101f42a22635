//! Looks after orders that have ended, until everybody has heard of it. Apart from the recoverer, so that siblings which
//! do not answer here hold up no order that stands still.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::recover::{found, not_now, side_by_side};
use crate::{store::walks, workflow::Workflow};

/// Few: every order passes here once, and those that are being placed come first.
const CONCURRENCY: usize = 2;

pub async fn run(workflow: Arc<Workflow>, stop: CancellationToken) {
    let mut changes = workflow.rules.subscribe();
    loop {
        let recover = workflow.rules.current().recover.clone();
        let batch = i64::from(recover.batch.get());
        let claiming = walks::claim_ended(workflow.database.pool(), recover.ack_after, recover.ack_retry_max, batch);
        let ended = found(claiming, "have ended").await;
        // A full batch means that there are more: what comes in has to go out as fast.
        let pause = if ended.len() < recover.batch.get() as usize { recover.interval } else { Duration::ZERO };
        side_by_side(CONCURRENCY, ended, async |ended| {
            if let Err(error) = workflow.walk(ended).await {
                not_now(ended.id, &error);
            }
        })
        .await;
        tokio::select! {
            () = stop.cancelled() => return,
            Ok(()) = changes.changed() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}
