//! Waiting for what another process or task will do, without guessing how long it takes.

use std::{future::Future, time::Duration};

use tokio::time::Instant;

/// Longer than anything here takes on a busy machine; reached only by a test that fails.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Asks `condition` until it gives a value.
///
/// # Panics
/// After half a minute, with `what`.
pub async fn eventually<T, Fut>(what: &str, mut condition: impl FnMut() -> Fut) -> T
where
    Fut: Future<Output = Option<T>>,
{
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(Instant::now() < give_up, "waited {PATIENCE:?} in vain for: {what}");
        tokio::time::sleep(POLL).await;
    }
}
