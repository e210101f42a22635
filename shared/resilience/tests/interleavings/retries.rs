//! Retry budgets and purses: no retry is made out of nothing, and none is lost, whatever happens at once.

use shuttle::{check_random, thread};
use tokio::time::Instant;

use crate::retry::{Purse, RetryBudget, RetryConfig};

const SCHEDULES: usize = 1_000;

#[test]
fn of_those_who_want_the_last_retries_exactly_as_many_get_one_as_there_are() {
    check_random(
        || {
            let config = RetryConfig { budget_ratio: 0.5, budget_floor_per_second: 0, ..RetryConfig::default() };
            let now = Instant::now();
            let budget = std::sync::Arc::new(RetryBudget::new(now));
            (0..4).for_each(|_| budget.deposit(now));
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let budget = budget.clone();
                    thread::spawn(move || u32::from(budget.withdraw(&config, now)))
                })
                .collect();
            let taken: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert_eq!((taken, budget.available(&config, now)), (2, 0));
        },
        SCHEDULES,
    );
}

#[test]
fn no_request_is_lost_to_the_count_also_where_a_second_begins() {
    check_random(
        || {
            let born = Instant::now();
            let budget = std::sync::Arc::new(RetryBudget::new(born));
            let config = RetryConfig { budget_ratio: 1.0, budget_floor_per_second: 0, ..RetryConfig::default() };
            // Ten seconds later the same slot is used for another second, by several threads at once.
            budget.deposit(born);
            let now = born + std::time::Duration::from_secs(10);
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let budget = budget.clone();
                    thread::spawn(move || budget.deposit(now))
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(budget.snapshot(&config, now).requests, 3);
        },
        SCHEDULES,
    );
}

#[test]
fn a_purse_is_neither_multiplied_nor_emptied_by_calls_side_by_side() {
    check_random(
        || {
            let purse = Purse::new(3);
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let purse = purse.clone();
                    thread::spawn(move || {
                        let loan = purse.lend();
                        let amount = loan.amount();
                        thread::yield_now();
                        loan.returned(amount);
                        u32::from(purse.spend())
                    })
                })
                .collect();
            let spent: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert_eq!(spent + purse.left(), 3);
        },
        SCHEDULES,
    );
}
