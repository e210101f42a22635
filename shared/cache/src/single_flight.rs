//! # Single flight: callers of one key that overlap share one run
//!
//! **Problem.** When a popular value is missing, everybody who wants it fetches it at the same moment, and what stands
//! behind is asked a hundred times for one answer.
//!
//! **Rule.** The first caller of a key does the work, in its own task and at its own pace; those who come while it
//! runs wait for its outcome and get a clone of it. When the first is cancelled or panics, one of the waiting begins
//! anew. The entry is gone when the work has ended: this is no cache. Keys in flight are bounded; a caller beyond the
//! bound works for itself.
//!
//! **Not for** work with an effect of its own for each caller, and not for work without a bound on its time: the
//! waiting wait as long as the one that works, unless they bring a timeout.
//!
//! **When you copy this**, choose `max_flights` so that its keys fit into memory easily; it is no limit on concurrency.
//!
//! **Proved by** the drill `redis-down`.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

/// Keys with work under way.
pub struct SingleFlight<V> {
    flights: Mutex<Landings<V>>,
    max_flights: usize,
}

/// An outcome, and whether it is that of another caller's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flown<V> {
    pub value: V,
    pub joined: bool,
}

impl<V: Clone> SingleFlight<V> {
    #[must_use]
    pub fn new(max_flights: usize) -> Self {
        Self { flights: Mutex::default(), max_flights }
    }

    /// Runs `work`, or waits for whoever runs it for the same key.
    pub async fn run<F, Fut>(&self, key: &str, work: F) -> Flown<V>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = V>,
    {
        loop {
            match self.board(key) {
                Boarding::Leader(flight) => {
                    let value = work().await;
                    if let Some(flight) = flight {
                        flight.land(value.clone());
                    }
                    return Flown { value, joined: false };
                }
                Boarding::Follower(mut landing) => {
                    if let Ok(landed) = landing.wait_for(Option::is_some).await
                        && let Some(value) = landed.clone()
                    {
                        return Flown { value, joined: true };
                    }
                    // The leader is gone without an outcome; whoever comes first takes over.
                }
            }
        }
    }

    #[must_use]
    pub fn in_flight(&self) -> usize {
        lock(&self.flights).len()
    }

    fn board(&self, key: &str) -> Boarding<'_, V> {
        let mut flights = lock(&self.flights);
        if let Some(landing) = flights.get(key) {
            return Boarding::Follower(landing.clone());
        }
        if flights.len() >= self.max_flights {
            return Boarding::Leader(None);
        }
        let (announce, landing) = watch::channel(None);
        flights.insert(key.to_owned(), landing);
        Boarding::Leader(Some(Flight { flights: &self.flights, key: key.to_owned(), announce }))
    }
}

/// `None` until the work has ended.
type Landings<V> = HashMap<String, watch::Receiver<Option<V>>>;

enum Boarding<'a, V> {
    /// Without a flight there are too many, and this caller is on its own.
    Leader(Option<Flight<'a, V>>),
    Follower(watch::Receiver<Option<V>>),
}

/// The leader's hold on its key, given up on every path: first the entry goes, then the channel closes, so that a
/// follower that wakes up finds the key free.
struct Flight<'a, V> {
    flights: &'a Mutex<Landings<V>>,
    key: String,
    announce: watch::Sender<Option<V>>,
}

impl<V> Flight<'_, V> {
    fn land(self, value: V) {
        self.announce.send_replace(Some(value));
    }
}

impl<V> Drop for Flight<'_, V> {
    fn drop(&mut self) {
        lock(self.flights).remove(&self.key);
    }
}

/// Nothing that can panic runs under this lock.
fn lock<V>(flights: &Mutex<Landings<V>>) -> MutexGuard<'_, Landings<V>> {
    flights.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering::SeqCst},
        },
        time::Duration,
    };

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn callers_that_overlap_share_one_run_and_the_entry_is_gone_afterwards() {
        let (flights, runs) = (Arc::new(SingleFlight::new(8)), Arc::new(AtomicU32::new(0)));
        let callers: Vec<_> = (0..100)
            .map(|_| {
                let (flights, runs) = (flights.clone(), runs.clone());
                tokio::spawn(async move {
                    flights
                        .run("k", || async {
                            sleep(Duration::from_millis(10)).await;
                            runs.fetch_add(1, SeqCst)
                        })
                        .await
                })
            })
            .collect();
        let mut joined = 0;
        for caller in callers {
            let flown = caller.await.unwrap();
            assert_eq!(flown.value, 0);
            joined += u32::from(flown.joined);
        }
        assert_eq!((runs.load(SeqCst), joined, flights.in_flight()), (1, 99, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_leader_leaves_its_followers_a_new_one() {
        let flights = Arc::new(SingleFlight::new(8));
        let led = flights.clone();
        let leader = tokio::spawn(async move { led.run("k", std::future::pending::<u32>).await });
        tokio::task::yield_now().await;
        let followers: Vec<_> = (0..3)
            .map(|_| {
                let flights = flights.clone();
                tokio::spawn(async move { flights.run("k", || async { 7 }).await })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(followers.iter().all(|follower| !follower.is_finished()));
        leader.abort();
        for follower in followers {
            assert_eq!(follower.await.unwrap().value, 7);
        }
        assert_eq!(flights.in_flight(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_panics_leaves_its_followers_a_new_one() {
        let flights = Arc::new(SingleFlight::new(8));
        let led = flights.clone();
        let leader = tokio::spawn(async move {
            led.run("k", || async {
                sleep(Duration::from_millis(10)).await;
                panic!("on purpose")
            })
            .await
        });
        tokio::task::yield_now().await;
        assert_eq!(flights.run("k", || async { 7 }).await.value, 7);
        assert!(leader.await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_the_bound_a_caller_works_for_itself() {
        let flights = Arc::new(SingleFlight::new(1));
        let led = flights.clone();
        let leader = tokio::spawn(async move { led.run("a", std::future::pending::<u32>).await });
        tokio::task::yield_now().await;
        assert_eq!(flights.run("b", || async { 7 }).await, Flown { value: 7, joined: false });
        assert_eq!(flights.in_flight(), 1);
        leader.abort();
    }
}
