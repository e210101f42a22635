//! How many charges are worked on at the same time, which is what a provider's capacity is: so many, each for as long as
//! one takes. Whoever finds all tills taken stands in line, and a charge in line is made when its turn comes, also for a
//! caller that has left: this is how a queue of dead work holds a system down.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{behaviour::BehaviourInForce, method::Method};

#[derive(Debug, Default)]
pub struct Tills(Mutex<(u32, Option<Arc<Semaphore>>)>);

impl Tills {
    /// Waits for a turn and then for as long as the work takes, by the behaviour of when it is begun. What comes back is
    /// held until the charge is booked.
    pub async fn work(
        &self,
        behaviour: &BehaviourInForce,
        method: Method,
        jitter: f64,
    ) -> Option<OwnedSemaphorePermit> {
        let till = self.turn(behaviour.current().at_once).await;
        tokio::time::sleep(behaviour.delay(method, jitter)).await;
        till
    }

    /// A till; `None` where there is one for everybody. After a change of `at_once`, who stands in line is served by the
    /// old number, and whoever comes by the new one.
    async fn turn(&self, at_once: u32) -> Option<OwnedSemaphorePermit> {
        let tills = {
            // Every write is one assignment, so a poisoned lock still guards a whole value.
            let mut tills = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if tills.0 != at_once {
                *tills = (at_once, (at_once > 0).then(|| Arc::new(Semaphore::new(at_once as usize))));
            }
            tills.1.clone()?
        };
        // Never closed.
        tills.acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use contracts::provider::Behaviour;
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_that_finds_no_till_is_done_in_its_turn() {
        let (tills, start) = (Arc::new(Tills::default()), Instant::now());
        let done = (0..6).map(|_| {
            let tills = tills.clone();
            tokio::spawn(async move {
                let _till = tills.turn(2).await;
                sleep(Duration::from_millis(100)).await;
                start.elapsed().as_millis()
            })
        });
        let mut after = Vec::new();
        for task in done.collect::<Vec<_>>() {
            after.push(task.await.unwrap());
        }
        assert_eq!(after, [100, 100, 200, 200, 300, 300]);
        assert!(tills.turn(0).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn what_stood_in_line_while_it_was_slow_goes_fast_when_it_is_well_again() {
        let slow = Behaviour { latency_ms: 4_000, at_once: 1, ..Behaviour::default() };
        let behaviour = Arc::new(BehaviourInForce::new(slow.clone(), 1));
        let (tills, start) = (Arc::new(Tills::default()), Instant::now());
        let work = (0..3).map(|_| {
            let (tills, behaviour) = (tills.clone(), behaviour.clone());
            tokio::spawn(async move {
                let _till = tills.work(&behaviour, Method::Approve, 0.0).await;
                start.elapsed().as_millis()
            })
        });
        let work: Vec<_> = work.collect();
        sleep(Duration::from_millis(1_000)).await;
        behaviour.set(Behaviour { latency_ms: 500, ..slow });
        let mut after = Vec::new();
        for task in work {
            after.push(task.await.unwrap());
        }
        assert_eq!(after, [4_000, 4_500, 5_000], "the first was begun before");
    }
}
