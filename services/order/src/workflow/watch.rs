//! Waiting for an order to change, for clients that ask with `Prefer: wait=N`.

use std::time::Duration;

use contracts::OrderId;
use resilience::Deadline;
use tokio::sync::broadcast;

use super::Workflow;
use crate::{domain::Order, error::Error};

/// Tells those who wait in this process which orders changed.
#[derive(Clone)]
pub struct Changes {
    announced: broadcast::Sender<OrderId>,
}

/// Announcements that a slow waiter may fall behind by; one that falls further looks at the database.
const BACKLOG: usize = 1_024;
/// Another replica may have made the change, and tells nobody here.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

impl Default for Changes {
    fn default() -> Self {
        Self { announced: broadcast::channel(BACKLOG).0 }
    }
}

impl Changes {
    /// After the commit.
    pub fn announce(&self, order: OrderId) {
        // Nobody waiting is the usual case.
        drop(self.announced.send(order));
    }
}

impl Workflow {
    /// The order, once it differs from `seen` or is final, or as it is when `until` has come. How many may wait at once
    /// is the route's rule, and its caller's to see to.
    pub async fn wait_for_change(&self, seen: Order, until: Deadline, deadline: Deadline) -> Result<Order, Error> {
        let mut announced = self.changes.announced.subscribe();
        let mut order = seen.clone();
        loop {
            order = match self.find(order.id, deadline).await {
                Ok(now) => now,
                // The last look came too late: what was seen before it is still an answer.
                Err(Error::Storage(_)) if until.has_passed() => return Ok(order),
                Err(error) => return Err(error),
            };
            if order != seen || order.status.is_final() || until.has_passed() {
                return Ok(order);
            }
            let told = async {
                // A lagged receiver has missed some, perhaps this one.
                while announced.recv().await.is_ok_and(|changed| changed != order.id) {}
            };
            let pause = until.remaining().min(LOOK_AGAIN);
            // Either way the database is asked next.
            drop(tokio::time::timeout(pause, told).await);
        }
    }
}
