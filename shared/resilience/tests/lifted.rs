//! Each pattern as a service outside this repository would use it, in a few lines. The pages in `docs/patterns` quote
//! from here, so that what they show compiles and does what they say.

use std::{collections::BTreeMap, time::Duration};

use resilience::{
    Breaker, BreakerConfig, Bulkhead, BulkheadConfig, Deadline,
    breaker::Window,
    composite::{Call, Composite, CompositeConfig, Observation},
    degrade::{Feature, Switch},
    rate_limit::{Clock, Limiter, LimiterConfig, PerKey, PerKeyConfig, Quota, Tier, TierConfig},
    retry::{Attempt, ErrorClass, Purse, Retry, RetryConfig},
};

const MS: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_deadline_shrinks_on_its_way_in() {
    // What the caller's header says, and what this route takes at most.
    let deadline = Deadline::for_request(Some(800 * MS), 3_000 * MS);
    // Nothing is begun that nobody will wait for.
    deadline.require(10 * MS).unwrap();
    // For the next hop: its own cap, or what is left less what the answer needs to travel back.
    let budget = deadline.child(2_000 * MS, 20 * MS).unwrap();
    assert_eq!(budget, 780 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_limiter_is_chosen_by_its_rule() {
    let rule = r#"{ "kind": "token_bucket", "per_second": 300.0, "burst": 2 }"#;
    let config: LimiterConfig = serde_json::from_str(rule).unwrap();
    let limiter = Limiter::with_clock(config, Clock::tokio()).unwrap();
    assert!(limiter.check().is_ok());
    assert!(limiter.check().is_ok());
    let limited = limiter.check().unwrap_err();
    // What an answer of 429 has to say.
    assert!(limited.retry_after <= 4 * MS && limited.limit == 2);
}

#[tokio::test(start_paused = true)]
async fn each_user_has_a_bucket_in_bounded_memory() {
    let config = PerKeyConfig {
        default: Quota::new(10.0, 20),
        tiers: BTreeMap::from([("vip".into(), TierConfig { per_second: 100.0, burst: 200, max_keys: None })]),
        overrides: BTreeMap::from([("scraper".to_owned(), Quota::new(1.0, 1))]),
        max_keys: 100_000,
        overflow: Quota::new(100.0, 100),
    };
    let users = PerKey::with_clock(config, Clock::tokio()).unwrap();
    assert!(users.check(&"ada".to_owned(), users.tier("vip")).is_ok());
    assert!(users.check(&"scraper".to_owned(), Tier::DEFAULT).is_ok());
    assert!(users.check(&"scraper".to_owned(), Tier::DEFAULT).is_err());
    // From a job, every few seconds: buckets that are full again are forgotten.
    users.evict_idle();
}

async fn ask_the_callee() -> Result<&'static str, &'static str> {
    Err("it timed out")
}

#[tokio::test(start_paused = true)]
async fn a_breaker_opens_and_says_when_to_return() {
    let config = BreakerConfig { window: Window::Calls(20), minimum_calls: 5, ..BreakerConfig::default() };
    let breaker = Breaker::new(config, 7).unwrap().with_listener(|transition| println!("{transition:?}"));
    for _ in 0..5 {
        let permit = breaker.acquire().unwrap();
        // A permit that is dropped without a verdict, as when the caller leaves, says nothing about the callee.
        match ask_the_callee().await {
            Ok(_) => permit.success(),
            Err(_) => permit.failure(),
        }
    }
    let rejected = breaker.acquire().unwrap_err();
    assert!(rejected.retry_after > Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_bulkhead_caps_what_one_callee_holds() {
    let config = BulkheadConfig { cap: 1, wait: 50 * MS, max_waiting: 10 };
    let bulkhead = Bulkhead::new(config).unwrap();
    let deadline = Deadline::after(1_000 * MS);
    // Given back when it is dropped: by an answer, a timeout, a cancelled task, a panic.
    let permit = bulkhead.acquire(deadline).await.unwrap();
    let full = bulkhead.acquire(deadline).await.unwrap_err();
    assert_eq!((full.in_flight, full.cap), (1, 1));
    drop(permit);
    assert!(bulkhead.acquire(deadline).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_retry_has_to_be_allowed_by_everything_at_once() {
    // One for each callee.
    let retry = Retry::new(RetryConfig::default(), 7);
    // One for each request that comes in, for all hops together.
    let purse = Purse::of_request(Some("3"), 3);
    retry.request();
    let failed = Attempt {
        class: ErrorClass::Transient,
        idempotent: true,
        retries: 0,
        breaker_open: false,
        remaining: 500 * MS,
        useful: 20 * MS,
    };
    let wait = retry.schedule(&failed, &purse).unwrap();
    assert!(wait <= 100 * MS && purse.left() == 2);
    let charge = Attempt { idempotent: false, ..failed };
    assert!(retry.schedule(&charge, &purse).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_composite_rule_joins_several_signals() {
    let rule = r#"{
        "per": "api_provider",
        "join": "all",
        "conditions": [
            { "metric": "calls", "at_least": 10, "window_ms": 10000 },
            { "metric": "failure_ratio", "at_least": 0.5, "window_ms": 10000 }
        ],
        "action": "degrade:recommendation",
        "recover_after_ms": 30000
    }"#;
    let rule: CompositeConfig = serde_json::from_str(rule).unwrap();
    let rules = Composite::new(BTreeMap::from([("poor-suggestions".to_owned(), rule)]));
    let call = Call { consumer: "users", api: "GET /v1/products/{sku}", provider: "recommendation" };
    for _ in 0..10 {
        rules.record(&call, &Observation { failed: true, latency: 150 * MS, bytes: 0 });
    }
    let eased = rules.check(&call).unwrap();
    assert_eq!(eased[0].feature, "recommendation");
}

#[tokio::test(start_paused = true)]
async fn a_lesser_answer_says_that_it_is_one() {
    const SUGGESTIONS: Feature = Feature { name: "recommendation", levels: &["live", "cache", "off"] };
    let switch = Switch::new(SUGGESTIONS);
    let served = switch
        .begin()
        .or("live", || async { ask_the_callee().await })
        .await
        .or("cache", || async { Ok("what it said a minute ago") })
        .await
        .finish()
        .unwrap();
    assert_eq!((served.level, served.degraded), ("cache", Some("recommendation")));
}
