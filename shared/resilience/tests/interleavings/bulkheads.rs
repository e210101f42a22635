//! The bulkhead: permits are neither lost nor doubled, whatever happens at once.

use std::time::Duration;

use shuttle::{check_random, thread};

use crate::bulkhead::{Bulkhead, BulkheadConfig};

const SCHEDULES: usize = 1_000;

fn of(cap: u32) -> BulkheadConfig {
    BulkheadConfig { cap, wait: Duration::ZERO, max_waiting: 0 }
}

/// Takes all that there is.
fn drain(bulkhead: &Bulkhead) -> usize {
    let held: Vec<_> = std::iter::from_fn(|| bulkhead.try_acquire()).collect();
    held.len()
}

fn call(bulkhead: &Bulkhead, times: usize, most: u32) {
    for _ in 0..times {
        if let Some(permit) = bulkhead.try_acquire() {
            assert!(bulkhead.snapshot().in_flight <= most);
            thread::yield_now();
            drop(permit);
        }
    }
}

#[test]
fn no_more_are_in_flight_than_the_cap_and_all_permits_come_back() {
    check_random(
        || {
            let bulkhead = Bulkhead::new(of(2)).unwrap();
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let bulkhead = bulkhead.clone();
                    thread::spawn(move || call(&bulkhead, 2, 2))
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(drain(&bulkhead), 2);
        },
        SCHEDULES,
    );
}

#[test]
fn a_cap_that_changes_under_calls_ends_with_exactly_its_permits() {
    check_random(
        || {
            let bulkhead = Bulkhead::new(of(3)).unwrap();
            let mut threads: Vec<_> = (0..3)
                .map(|_| {
                    let bulkhead = bulkhead.clone();
                    thread::spawn(move || call(&bulkhead, 2, 3))
                })
                .collect();
            for caps in [[1, 3], [2, 1]] {
                let bulkhead = bulkhead.clone();
                threads.push(thread::spawn(move || {
                    caps.into_iter().for_each(|cap| bulkhead.reconfigure(of(cap)).unwrap())
                }));
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            let snapshot = bulkhead.snapshot();
            assert_eq!(snapshot.in_flight, 0);
            assert_eq!(drain(&bulkhead), snapshot.cap as usize);
        },
        SCHEDULES,
    );
}

#[test]
fn a_smaller_cap_holds_once_the_calls_above_it_are_over() {
    check_random(
        || {
            let bulkhead = Bulkhead::new(of(2)).unwrap();
            let held = [bulkhead.try_acquire().unwrap(), bulkhead.try_acquire().unwrap()];
            let shrinking = bulkhead.clone();
            let shrinks = thread::spawn(move || shrinking.reconfigure(of(1)).unwrap());
            held.into_iter().for_each(drop);
            shrinks.join().unwrap();
            assert_eq!(drain(&bulkhead), 1);
        },
        SCHEDULES,
    );
}
