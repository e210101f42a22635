//! Those who are told of every snapshot as it comes.
//!
//! There are so many at most, and each has room for a few events. One that does not take them in time is let go rather
//! than kept up with: it comes again by itself, and begins with what is so then. Nobody waits for a listener.

use std::{
    convert::Infallible,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use actix_web::web::Bytes;
use futures_util::stream::{self, Stream};
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::{Instant, timeout_at},
};

use crate::domain::session::SessionHash;

/// More than there are operators, each with some windows.
pub const MOST: usize = 64;
/// Events that one may be behind.
const ROOM: usize = 4;
/// Whoever sits between must see that the connection lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// After this it has to show its session again.
const LASTS: Duration = Duration::from_secs(300);

/// All of them.
#[derive(Default)]
pub struct Listeners(Mutex<Open>);

#[derive(Default)]
struct Open {
    listeners: Vec<Listener>,
    /// The process stops.
    closed: bool,
}

struct Listener {
    events: mpsc::Sender<Bytes>,
    /// `None` of one that came with a token.
    session: Option<SessionHash>,
}

/// The other end: what a listener reads.
pub struct Subscription {
    events: mpsc::Receiver<Bytes>,
    until: Instant,
}

impl Listeners {
    /// One more, told of `first` at once; `None` where there are as many as may be.
    pub fn join(&self, session: Option<SessionHash>, first: Bytes) -> Option<Subscription> {
        let mut open = self.open();
        open.listeners.retain(|listener| !listener.events.is_closed());
        if open.closed || open.listeners.len() >= MOST {
            return None;
        }
        let (events, receiver) = mpsc::channel(ROOM);
        // There is room for it.
        let _ = events.try_send(first);
        open.listeners.push(Listener { events, session });
        Some(Subscription { events: receiver, until: Instant::now() + LASTS })
    }

    /// Tells everybody, and lets go whoever is gone or has no room left.
    pub fn tell(&self, event: &Bytes) {
        self.open().listeners.retain(|listener| match listener.events.try_send(event.clone()) {
            Ok(()) => true,
            Err(TrySendError::Closed(_)) => false,
            Err(TrySendError::Full(_)) => {
                metrics::counter!("console_listeners_dropped_total").increment(1);
                false
            }
        });
    }

    /// A session is over, and with it all that it listens to.
    pub fn leave(&self, session: &SessionHash) {
        self.open().listeners.retain(|listener| listener.session.as_ref() != Some(session));
    }

    /// Ends all of them, and lets nobody in any more.
    pub fn close(&self) {
        let mut open = self.open();
        open.closed = true;
        open.listeners.clear();
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.open().listeners.len()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription {
    /// The events as they come, with a comment where none does for long.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        stream::unfold(self, |mut this| async move {
            let quiet = Instant::now() + KEEP_ALIVE;
            match timeout_at(quiet.min(this.until), this.events.recv()).await {
                Ok(event) => event.map(|event| (Ok(event), this)),
                Err(_) if Instant::now() >= this.until => None,
                Err(_) => Some((Ok(Bytes::from_static(b": still here\n\n")), this)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::StreamExt;

    use super::*;
    use crate::domain::session::SessionId;

    fn event(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    async fn all(subscription: Subscription) -> Vec<String> {
        let read = subscription.into_stream().map(|event| String::from_utf8(event.unwrap().to_vec()).unwrap());
        read.collect().await
    }

    #[tokio::test(start_paused = true)]
    async fn everybody_hears_everything_from_when_they_came() {
        let listeners = Listeners::default();
        let early = listeners.join(None, event("1")).unwrap();
        listeners.tell(&event("2"));
        let late = listeners.join(None, event("2")).unwrap();
        listeners.tell(&event("3"));
        listeners.close();
        assert_eq!(
            (all(early).await, all(late).await),
            (vec!["1".into(), "2".into(), "3".into()], vec!["2".into(), "3".into()])
        );
        assert!(listeners.join(None, event("4")).is_none(), "nobody comes in while the process stops");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_reads_too_slowly_is_let_go_and_keeps_nobody_up() {
        let listeners = Listeners::default();
        let slow = listeners.join(None, event("0")).unwrap();
        for _ in 0..1_000 {
            listeners.tell(&event("x"));
        }
        assert_eq!(listeners.count(), 0);
        assert_eq!(all(slow).await.len(), ROOM, "no more than this was ever kept for it");
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_are_let_in_and_whoever_goes_makes_room() {
        let listeners = Listeners::default();
        let mut inside: Vec<_> = (0..MOST).map(|_| listeners.join(None, event("1")).unwrap()).collect();
        assert!(listeners.join(None, event("1")).is_none());
        inside.pop();
        assert!(listeners.join(None, event("1")).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_session_listens_to_ends_with_it() {
        let listeners = Listeners::default();
        let (ours, theirs) = (SessionId::generate().hash(), SessionId::generate().hash());
        let over = listeners.join(Some(ours), event("1")).unwrap();
        let stays = listeners.join(Some(theirs), event("1")).unwrap();
        listeners.leave(&ours);
        assert_eq!(all(over).await, ["1"]);
        assert_eq!(listeners.count(), 1);
        drop(stays);
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_says_that_it_lives_and_ends_in_time_to_be_asked_for_anew() {
        let listeners = Listeners::default();
        let subscription = listeners.join(None, event("1")).unwrap();
        let began = Instant::now();
        let mut stream = pin!(subscription.into_stream());
        let mut said = Vec::new();
        while let Some(Ok(event)) = stream.next().await {
            said.push(event);
        }
        assert_eq!(said[1], event(": still here\n\n"));
        assert_eq!(began.elapsed(), LASTS);
        assert!(said.len() > 10);
    }
}
