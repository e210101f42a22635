//! The bulkhead on a paused clock. Not at the foot of its file, since that is compiled a second time by the
//! interleaving tests.

#![expect(clippy::unwrap_used, reason = "what the tests share may fail them as they may themselves")]

use std::time::Duration;

use proptest::prelude::*;
use resilience::{
    Deadline,
    bulkhead::{Bulkhead, BulkheadConfig},
};
use tokio::time::{advance, timeout};

const MS: Duration = Duration::from_millis(1);

fn of(cap: u32, wait_ms: u32, max_waiting: u32) -> Bulkhead {
    Bulkhead::new(BulkheadConfig { cap, wait: MS * wait_ms, max_waiting }).unwrap()
}

fn patient() -> Deadline {
    Deadline::after(Duration::from_secs(3_600))
}

/// Lets the spawned tasks run until they wait.
async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_admits_up_to_its_cap_and_says_what_it_is_full_of() {
    let bulkhead = of(2, 50, 10);
    let (_first, _second) = (bulkhead.acquire(patient()).await.unwrap(), bulkhead.acquire(patient()).await.unwrap());
    let began = tokio::time::Instant::now();
    let full = bulkhead.acquire(patient()).await.unwrap_err();
    assert_eq!(began.elapsed(), 50 * MS);
    assert_eq!((full.in_flight, full.cap, full.retry_after), (2, 2, 50 * MS));
    assert_eq!(bulkhead.snapshot().rejected, 1);
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_comes_back_goes_to_the_first_that_waits() {
    let bulkhead = of(1, 50, 10);
    let held = bulkhead.acquire(patient()).await.unwrap();
    let waiting = bulkhead.clone();
    let waiter = tokio::spawn(async move { waiting.acquire(patient()).await });
    settle().await;
    assert_eq!(bulkhead.snapshot().waiting, 1);
    advance(30 * MS).await;
    drop(held);
    assert!(bulkhead.try_acquire().is_none(), "nobody overtakes");
    let permit = waiter.await.unwrap().unwrap();
    let snapshot = bulkhead.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.waiting, snapshot.rejected), (1, 0, 0));
    drop(permit);
    assert_eq!(bulkhead.snapshot().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_past_their_own_deadline() {
    let bulkhead = of(1, 50, 10);
    let _held = bulkhead.try_acquire().unwrap();
    let began = tokio::time::Instant::now();
    assert!(bulkhead.acquire(Deadline::after(7 * MS)).await.is_err());
    assert_eq!(began.elapsed(), 7 * MS);
    assert!(bulkhead.acquire(Deadline::after(Duration::ZERO)).await.is_err());
    assert_eq!(began.elapsed(), 7 * MS);
}

#[tokio::test(start_paused = true)]
async fn without_a_wait_it_refuses_at_once() {
    let bulkhead = of(1, 0, 10);
    let _held = bulkhead.acquire(patient()).await.unwrap();
    let began = tokio::time::Instant::now();
    assert!(!bulkhead.acquire(patient()).await.unwrap_err().retry_after.is_zero());
    assert!(began.elapsed().is_zero());
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_bounded_too() {
    let bulkhead = of(1, 50, 2);
    let _held = bulkhead.try_acquire().unwrap();
    for _ in 0..2 {
        let waiting = bulkhead.clone();
        tokio::spawn(async move { waiting.acquire(patient()).await.map(drop) });
    }
    settle().await;
    let began = tokio::time::Instant::now();
    assert_eq!(bulkhead.acquire(patient()).await.unwrap_err().waiting, 2);
    assert!(began.elapsed().is_zero(), "it does not queue to be refused");
}

#[tokio::test(start_paused = true)]
async fn waiters_that_time_out_eat_no_permits() {
    let bulkhead = of(2, 10, 1_000);
    for _ in 0..50 {
        let held = [bulkhead.try_acquire().unwrap(), bulkhead.try_acquire().unwrap()];
        let waiters: Vec<_> = (0..20)
            .map(|n| {
                let waiting = bulkhead.clone();
                // Some run out of time, some are dropped by their caller at the very moment that a permit comes back.
                tokio::spawn(async move { timeout(MS * (5 + n), waiting.acquire(patient())).await.map(drop) })
            })
            .collect();
        settle().await;
        advance(10 * MS).await;
        drop(held);
        for waiter in waiters {
            let _ = waiter.await.unwrap();
        }
        let snapshot = bulkhead.snapshot();
        assert_eq!((snapshot.in_flight, snapshot.waiting), (0, 0));
    }
    let all: Vec<_> = std::iter::from_fn(|| bulkhead.try_acquire()).collect();
    assert_eq!(all.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_or_is_aborted_gives_its_permit_back() {
    let bulkhead = of(2, 0, 0);
    let panics = bulkhead.clone();
    let panicked = tokio::spawn(async move {
        let _permit = panics.acquire(patient()).await.unwrap();
        panic!("the caller's own fault");
    });
    assert!(panicked.await.unwrap_err().is_panic());
    let hangs = bulkhead.clone();
    let hanging = tokio::spawn(async move {
        let _permit = hangs.acquire(patient()).await.unwrap();
        std::future::pending::<()>().await;
    });
    settle().await;
    assert_eq!(bulkhead.snapshot().in_flight, 1);
    hanging.abort();
    assert!(hanging.await.unwrap_err().is_cancelled());
    assert_eq!(bulkhead.snapshot().in_flight, 0);
    assert!(bulkhead.try_acquire().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_larger_cap_lets_those_who_wait_in() {
    let bulkhead = of(1, 50, 10);
    let _held = bulkhead.try_acquire().unwrap();
    let waiting = bulkhead.clone();
    let waiter = tokio::spawn(async move { waiting.acquire(patient()).await });
    settle().await;
    bulkhead.reconfigure(BulkheadConfig { cap: 2, ..BulkheadConfig::default() }).unwrap();
    let _second = waiter.await.unwrap().unwrap();
    assert_eq!((bulkhead.snapshot().in_flight, bulkhead.snapshot().cap), (2, 2));
    assert!(bulkhead.try_acquire().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_smaller_cap_takes_the_rest_as_calls_end_and_a_larger_one_forgives_it() {
    let sized = |cap| BulkheadConfig { cap, wait: Duration::ZERO, max_waiting: 0 };
    let bulkhead = of(4, 0, 0);
    let mut held: Vec<_> = (0..3).map(|_| bulkhead.try_acquire().unwrap()).collect();
    bulkhead.reconfigure(sized(1)).unwrap();
    assert_eq!(bulkhead.snapshot().in_flight, 3, "nothing that runs is cut off");
    held.pop();
    held.pop();
    assert!(bulkhead.try_acquire().is_none(), "one runs, and one is the cap");
    bulkhead.reconfigure(sized(3)).unwrap();
    held.extend([bulkhead.try_acquire().unwrap(), bulkhead.try_acquire().unwrap()]);
    assert!(bulkhead.try_acquire().is_none());
    bulkhead.reconfigure(sized(1)).unwrap();
    bulkhead.reconfigure(sized(3)).unwrap();
    held.clear();
    let all: Vec<_> = std::iter::from_fn(|| bulkhead.try_acquire()).collect();
    assert_eq!(all.len(), 3);
}

#[test]
fn the_document_is_checked_by_field() {
    let config: BulkheadConfig = serde_json::from_str(r#"{"cap": 40, "wait_ms": 50}"#).unwrap();
    assert_eq!(config, BulkheadConfig::default());
    assert!(serde_json::from_str::<BulkheadConfig>(r#"{"size": 1}"#).is_err());
    let bad = [
        ("cap", BulkheadConfig { cap: 0, ..config.clone() }),
        ("cap", BulkheadConfig { cap: u32::MAX, ..config.clone() }),
        ("max_waiting", BulkheadConfig { max_waiting: u32::MAX, ..config.clone() }),
        ("wait_ms", BulkheadConfig { wait: Duration::from_secs(61), ..config.clone() }),
    ];
    for (field, bad) in bad {
        assert_eq!(bad.validate().unwrap_err().field, field);
        assert!(of(1, 0, 0).reconfigure(bad).is_err());
    }
}

#[test]
fn a_permit_taken_and_returned_allocates_nothing() {
    let bulkhead = of(2, 0, 0);
    let measured = allocation_counter::measure(|| {
        for _ in 0..500 {
            drop(bulkhead.try_acquire().unwrap());
        }
    });
    assert_eq!(measured.count_total, 0);
}

/// What may happen to a bulkhead.
#[derive(Debug, Clone)]
enum Step {
    /// Somebody asks, and waits this long at most.
    Ask(u64),
    /// The oldest call ends.
    End,
    /// The last who asked leaves, in a call or in the queue.
    Leave,
    Pass(u64),
    Resize(u32),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u64..80).prop_map(Step::Ask),
        3 => Just(Step::End),
        1 => Just(Step::Leave),
        2 => (1_u64..60).prop_map(Step::Pass),
        1 => (1_u32..6).prop_map(Step::Resize),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_no_permit_is_lost_and_none_is_given_twice(steps in prop::collection::vec(any_step(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let bulkhead = of(3, 50, 4);
            let (mut asked, mut largest) = (Vec::new(), 3);
            for step in steps {
                match step {
                    Step::Ask(patience) => {
                        let bulkhead = bulkhead.clone();
                        asked.push(tokio::spawn(async move {
                            let _permit = bulkhead.acquire(Deadline::after(MS * patience as u32)).await.ok()?;
                            std::future::pending::<()>().await;
                            Some(())
                        }));
                    }
                    Step::End if !asked.is_empty() => asked.remove(0).abort(),
                    Step::Leave => drop(asked.pop().map(|last| last.abort())),
                    Step::End => {}
                    Step::Pass(ms) => advance(MS * ms as u32).await,
                    Step::Resize(cap) => {
                        bulkhead.reconfigure(BulkheadConfig { cap, wait: 50 * MS, max_waiting: 4 }).unwrap();
                        largest = largest.max(cap);
                    }
                }
                settle().await;
                let now = bulkhead.snapshot();
                // Those who were let in under a larger cap stay.
                prop_assert!(now.in_flight <= largest && now.waiting <= 4, "{now:?}");
                if now.in_flight == 0 {
                    largest = now.cap;
                }
            }
            asked.iter().for_each(tokio::task::JoinHandle::abort);
            settle().await;
            let cap = bulkhead.snapshot().cap;
            let all: Vec<_> = std::iter::from_fn(|| bulkhead.try_acquire()).take(100).collect();
            prop_assert_eq!(all.len(), cap as usize, "exactly the cap is free again");
            Ok(())
        })?;
    }
}
