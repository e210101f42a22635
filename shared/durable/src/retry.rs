//! Delayed retry: a message that cannot be done with now comes back later, through the next tier of its queue.
//!
//! Problem: trying again in place holds up everything behind, and a message that is put back must neither be lost
//! between the two nor be taken for one that took effect before.
//!
//! Rule: the next hop is an outbox row in the transaction of the message's own inbox row, so that there is exactly one
//! of them at any time. It is a new event with an id of its own, since the inbox knows the old one. Each tier has one
//! delay, so that whatever is first in a partition is also due first.
//!
//! Not for the order of a key: whatever comes meanwhile overtakes it.
//!
//! When copying: the consumer has to honour `notbefore`, and each tier needs a handler that knows its number.

use std::time::Duration;

use chrono::{DateTime, Utc};
use contracts::{
    Event, EventId,
    topic::{Queue, RETRY_TIERS},
};
use sqlx::PgConnection;

use crate::outbox;

/// The next hop of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    pub id: EventId,
    pub tier: usize,
    pub due: DateTime<Utc>,
}

/// Puts `event`, which came from tier `tier` of `queue`, into the next one. `delays` are those before the retry tiers,
/// the first one first. `None`: this was the last tier, and nothing was enqueued.
pub async fn retry_later(
    conn: &mut PgConnection,
    queue: &Queue,
    tier: usize,
    event: &Event,
    delays: &[Duration; RETRY_TIERS],
    now: DateTime<Utc>,
) -> sqlx::Result<Option<Hop>> {
    let (Some(topic), Some(delay)) = (queue.get(tier + 1), delays.get(tier)) else { return Ok(None) };
    let hop = Hop { id: EventId::generate(), tier: tier + 1, due: now + *delay };
    let event = Event { id: hop.id, time: now, notbefore: Some(hop.due), ..event.clone() };
    outbox::enqueue(conn, *topic, &event).await?;
    Ok(Some(hop))
}
