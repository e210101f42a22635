//! Makes a snapshot a second of what was seen, and tells it to whoever listens.

use std::{sync::Arc, time::Duration};

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::workflow::{live::Live, watched::Watched};

const EVERY: Duration = Duration::from_secs(1);

pub async fn run(watched: Arc<Watched>, live: Arc<Live>, stop: CancellationToken) {
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = tick.tick() => live.publish(&watched.snapshot()),
        }
    }
    // Streams have no end of their own: whoever stops must not wait for one.
    live.close();
}
