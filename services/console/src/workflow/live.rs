//! The latest snapshot, as it is answered and as it is told.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use actix_web::web::Bytes;
use chrono::Utc;

use super::listeners::{Listeners, Subscription};
use crate::domain::{
    live::{Beside, Snapshot},
    session::SessionHash,
};

/// How long a browser waits before it comes again.
const RETRY: &str = "retry: 2000\n";

/// One a process; whoever looks and whoever listens gets the same.
pub struct Live {
    latest: Mutex<Arc<Published>>,
    number: AtomicU64,
    listeners: Listeners,
}

/// A snapshot in both its forms, made once for all.
#[derive(Debug)]
pub struct Published {
    pub json: Bytes,
    event: Bytes,
}

impl Default for Live {
    /// Nothing has been seen.
    fn default() -> Self {
        let nothing = Published::of(&Snapshot::of(Utc::now(), &[], &Beside::default()), 0);
        Self { latest: Mutex::new(Arc::new(nothing)), number: AtomicU64::new(0), listeners: Listeners::default() }
    }
}

impl Published {
    fn of(snapshot: &Snapshot, number: u64) -> Self {
        // Numbers and strings: it always serializes, and on one line.
        let json = serde_json::to_vec(snapshot).unwrap_or_default();
        let mut event = format!("event: snapshot\nid: {number}\n{RETRY}data: ").into_bytes();
        event.extend_from_slice(&json);
        event.extend_from_slice(b"\n\n");
        Self { json: json.into(), event: event.into() }
    }
}

impl Live {
    pub fn publish(&self, snapshot: &Snapshot) {
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        let published = Arc::new(Published::of(snapshot, number));
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = published.clone();
        self.listeners.tell(&published.event);
    }

    pub fn latest(&self) -> Arc<Published> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From the latest snapshot on; `None` where as many listen as may.
    pub fn listen(&self, session: Option<SessionHash>) -> Option<Subscription> {
        self.listeners.join(session, self.latest().event.clone())
    }

    pub fn leave(&self, session: &SessionHash) {
        self.listeners.leave(session);
    }

    pub fn close(&self) {
        self.listeners.close();
    }

    #[must_use]
    pub fn listeners(&self) -> usize {
        self.listeners.count()
    }
}
