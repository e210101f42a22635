//! Waiting for what another process or task will do, without guessing how long it takes.

use std::time::Duration;

use tokio::time::Instant;

/// Longer than anything here takes on a busy machine, such as several joins of a consumer group; reached only by a test
/// that fails.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// Asks `condition` until it gives a value.
///
/// # Panics
/// After a minute, with `what`.
pub async fn eventually<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(Instant::now() < give_up, "waited {PATIENCE:?} in vain for: {what}");
        tokio::time::sleep(POLL).await;
    }
}
