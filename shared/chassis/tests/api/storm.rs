//! A retry storm: three hops, each willing to retry three times, in front of one that fails. With budgets and without
//! in one run, so that the two numbers stand beside each other.

use std::time::Duration;

use chassis::Downstream;
use contracts::headers;
use resilience::{
    BreakerConfig, BulkheadConfig,
    breaker::Window,
    retry::{Purse, RetryConfig},
};
use testkit::{Reply, Stub};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use super::outbound::{MS, callee, context, ok, put_repeatable};

/// 200 a second.
const PACE: Duration = Duration::from_millis(5);
const WILLING: u32 = 3;

#[derive(Clone, Copy, PartialEq)]
enum Budgets {
    /// A fifth of each callee's calls, and one purse for the chain.
    On,
    /// Each hop retries as it sees fit.
    Off,
}

/// So that the budgets alone are at work: neither breaker nor bulkhead nor time gets in the way.
fn rule(budgets: Budgets) -> rules::Downstream {
    let retry = RetryConfig { max_retries: WILLING, base: MS, max: MS, ..RetryConfig::default() };
    let retry = match budgets {
        Budgets::On => retry,
        Budgets::Off => RetryConfig { budget_ratio: 1.0, budget_floor_per_second: 1_000_000, ..retry },
    };
    rules::Downstream {
        timeout: 30_000 * MS,
        attempt_timeout: 30_000 * MS,
        bulkhead: BulkheadConfig { cap: 1_000, wait: 1_000 * MS, max_waiting: 1_000 },
        breaker: BreakerConfig { window: Window::Calls(100_000), minimum_calls: 100_000, ..BreakerConfig::default() },
        retry,
        passes_purse: budgets == Budgets::On,
        ..rules::Downstream::default()
    }
}

/// Calls `onward` for whatever it is asked.
async fn hop(onward: Downstream, budgets: Budgets) -> Stub {
    Stub::asking(move |seen| {
        let sent = seen.header(headers::RETRY_BUDGET).map_or(WILLING, |text| text.parse().unwrap());
        let purse = Purse::new(if budgets == Budgets::On { sent } else { WILLING });
        let context = chassis::RequestContext { purse, ..context(30_000) };
        let onward = onward.clone();
        async move {
            let ok = put_repeatable(&onward, &context).await.is_ok();
            let left = context.purse.handed_back(ok).to_string();
            let answer = if ok { self::ok() } else { Reply::Raw(503, String::new()) };
            Reply::With(vec![(headers::RETRY_LEFT, left)], Box::new(answer))
        }
    })
    .await
}

/// What the outermost and the innermost hop saw of so many requests.
async fn storm(budgets: Budgets, requests: usize) -> (usize, usize) {
    let innermost = Stub::start(|_| Reply::Raw(500, String::new())).await;
    let last_call = rules::Downstream { passes_purse: false, ..rule(budgets) };
    let second = hop(callee(&innermost.url(), &last_call), budgets).await;
    let outermost = hop(callee(&second.url(), &rule(budgets)), budgets).await;

    let once = RetryConfig { max_retries: 0, ..rule(budgets).retry };
    let client = callee(&outermost.url(), &rules::Downstream { retry: once, ..rule(budgets) });
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut calls = JoinSet::new();
    for _ in 0..requests {
        pace.tick().await;
        let client = client.clone();
        calls.spawn(async move { put_repeatable(&client, &context(30_000)).await.unwrap_err() });
    }
    calls.join_all().await;
    (outermost.seen().len(), innermost.seen().len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_retry_storm_stays_a_fifth_above_the_load_and_without_budgets_it_is_a_multiple() {
    let (outer, inner) = storm(Budgets::On, 400).await;
    println!("with budgets: {inner} calls at the innermost of {outer} at the outermost");
    assert_eq!(outer, 400);
    assert!(inner * 10 <= outer * 12, "{inner} of {outer}");
    assert!(inner > outer, "nothing was retried: {inner} of {outer}");

    let (outer, inner) = storm(Budgets::Off, 100).await;
    println!("without: {inner} calls at the innermost of {outer} at the outermost");
    assert_eq!(outer, 100);
    assert!(inner >= outer * 9, "{inner} of {outer}");
}
