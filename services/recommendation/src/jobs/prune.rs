//! Forgets purchases that say nothing any more.

use durable::{Database, pruning::keep_short};
use tokio_util::sync::CancellationToken;

use crate::store;

pub async fn prune(database: Database, stop: CancellationToken) {
    let round = |limit| {
        let pool = database.pool().clone();
        async move { store::prune::prune(&pool, limit).await }
    };
    keep_short("purchases", round, stop).await;
}
