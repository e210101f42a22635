//! How many dead letters are open. Kafka is read only when there is a reason to: somebody gave up another message, one
//! was sent again, or it has been long.

use std::{sync::Arc, time::Duration};

use events::{KafkaConfig, dlq};
use tokio::{
    sync::Notify,
    time::{Instant, MissedTickBehavior, interval_at},
};
use tokio_util::sync::CancellationToken;

use crate::workflow::watched::Watched;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// By then the instances have said how many they gave up.
const BEGIN_AFTER: Duration = Duration::from_secs(2);
/// Others send letters again too.
const COUNT_EVERY: Duration = Duration::from_secs(60);
/// After Kafka did not answer.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// `changed` is told when the console itself has sent one again.
pub async fn run(kafka: KafkaConfig, watched: Arc<Watched>, changed: Arc<Notify>, stop: CancellationToken) {
    let mut tick = interval_at(Instant::now() + BEGIN_AFTER, LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut known, mut due) = (None, Instant::now());
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = changed.notified() => known = None,
            _ = tick.tick() => {}
        }
        let given_up = Some(watched.given_up());
        if known == given_up && Instant::now() < due {
            continue;
        }
        let counted = tokio::select! {
            () = stop.cancelled() => return,
            listed = dlq::list(&kafka, None) => listed,
        };
        let open = match counted {
            Ok(letters) => {
                (known, due) = (given_up, Instant::now() + COUNT_EVERY);
                u64::try_from(letters.iter().filter(|letter| !letter.replayed).count()).ok()
            }
            Err(error) => {
                tracing::debug!(%error, "dead letters cannot be counted");
                (known, due) = (given_up, Instant::now() + TRY_AGAIN_AFTER);
                None
            }
        };
        watched.note_dead_letters(open);
    }
}
