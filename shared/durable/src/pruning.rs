//! Pruning: tables from which old rows go by and by.
//!
//! Problem: what is kept only for a time grows for ever unless something deletes it, and a table that has grown for a
//! day cannot be pruned in one statement without holding up everybody else.
//!
//! Rule: a bounded number of rows at a time, in a short transaction of its own, and at once again while there are more.
//! A round that fails is repeated at its next turn. Replicas may prune at once.
//!
//! Not for rows that something else waits for: those belong to a recoverer.
//!
//! When copying: more rows must fit in a round than come in meanwhile, and the column that `prune` selects by needs an
//! index.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// The pause after a round that left nothing.
const INTERVAL: Duration = Duration::from_secs(60);
/// Rows deleted by one round.
const LIMIT: u64 = 1_000;

/// Calls `prune` with the most rows that it may delete, until `stop`; it says how many it deleted. `what` is for the
/// log.
pub async fn keep_short<Fut>(what: &'static str, prune: impl Fn(i64) -> Fut, stop: CancellationToken)
where
    Fut: Future<Output = sqlx::Result<u64>>,
{
    let mut pause = INTERVAL;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = match prune(LIMIT.cast_signed()).await {
            Ok(LIMIT) => Duration::ZERO,
            Ok(_) => INTERVAL,
            Err(error) => {
                tracing::warn!(%error, what, "old rows were not deleted");
                INTERVAL
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn full_rounds_follow_at_once_and_others_after_the_interval() {
        let (started, stop) = (Instant::now(), CancellationToken::new());
        let (rounds, end) = (Mutex::new(Vec::new()), stop.clone());
        let prune = |limit: i64| {
            assert_eq!(limit.unsigned_abs(), LIMIT);
            let mut rounds = rounds.lock().unwrap();
            rounds.push(started.elapsed().as_secs());
            std::future::ready(match rounds.len() {
                1 | 2 => Ok(LIMIT),
                3 => Ok(LIMIT - 1),
                4 => Err(sqlx::Error::PoolTimedOut),
                _ => {
                    end.cancel();
                    Ok(0)
                }
            })
        };
        keep_short("rows", prune, stop).await;
        assert_eq!(*rounds.lock().unwrap(), [60, 60, 60, 120, 180]);
    }
}
