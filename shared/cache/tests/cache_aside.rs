//! The cache against a real Redis: one that works, and ones that are killed, stopped and started again.

#![expect(clippy::unwrap_used, reason = "what the tests share may fail them as they may themselves")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use cache::{Cache, CacheConfig, Cached, Freshness, connect_lazily};
use redis::AsyncCommands;
use testkit::{
    OwnRedis, eventually,
    redis::{key_prefix, shared_url},
};
use tokio::time::Instant;

type Names = Cache<Vec<String>, &'static str>;

const TTL: Duration = Duration::from_secs(30);
/// Far above what a busy machine adds to a call, far below what an untuned client hangs for.
const SOON: Duration = Duration::from_secs(2);

fn patient() -> CacheConfig {
    // A test machine is slow without being broken.
    CacheConfig { patience: Duration::from_secs(2), prefix: key_prefix(), seed: 7, ..CacheConfig::new("names", 1) }
}

fn names(url: &str, config: CacheConfig) -> Names {
    Cache::new(connect_lazily(url).unwrap(), config)
}

async fn get(cache: &Names, loaded: &str) -> Cached<Vec<String>> {
    cache.get_or_load("k", TTL, || async { Ok(vec![loaded.to_owned()]) }).await.unwrap()
}

fn cached(value: &str, freshness: Freshness) -> Cached<Vec<String>> {
    Cached { value: vec![value.to_owned()], freshness }
}

async fn raw() -> redis::aio::MultiplexedConnection {
    redis::Client::open(shared_url()).unwrap().get_multiplexed_async_connection().await.unwrap()
}

#[tokio::test]
async fn a_value_is_loaded_once_and_then_comes_from_the_cache() {
    let config = patient();
    let cache = names(&shared_url(), config.clone());
    assert_eq!(get(&cache, "first").await, cached("first", Freshness::Fresh));
    assert_eq!(get(&cache, "second").await, cached("first", Freshness::FromCache));
    let replica = names(&shared_url(), config);
    assert_eq!(get(&replica, "third").await, cached("first", Freshness::FromCache));
    let counts = cache.snapshot();
    assert_eq!((counts.hits, counts.misses, counts.errors), (1, 1, 0));
}

#[tokio::test]
async fn a_hundred_callers_at_once_load_once() {
    let cache = Arc::new(names(&shared_url(), patient()));
    let loads = Arc::new(AtomicU32::new(0));
    let callers: Vec<_> = (0..100)
        .map(|_| {
            let (cache, loads) = (cache.clone(), loads.clone());
            tokio::spawn(async move {
                let load = || async {
                    loads.fetch_add(1, SeqCst);
                    Ok(vec!["x".to_owned()])
                };
                cache.get_or_load("k", TTL, load).await.unwrap().value
            })
        })
        .collect();
    for caller in callers {
        assert_eq!(caller.await.unwrap(), ["x"]);
    }
    assert_eq!(loads.load(SeqCst), 1);
    assert_eq!(cache.snapshot().in_flight, 0);
}

#[tokio::test]
async fn a_failed_load_is_the_error_of_everybody_who_waited_and_is_not_remembered() {
    let cache = names(&shared_url(), patient());
    let failing = || cache.get_or_load("k", TTL, || async { Err("gone") });
    let (one, other) = tokio::join!(failing(), failing());
    assert_eq!((one, other), (Err("gone"), Err("gone")));
    assert_eq!(get(&cache, "back").await, cached("back", Freshness::Fresh));
}

#[tokio::test]
async fn past_its_lifetime_a_value_is_loaded_anew_and_used_only_when_that_fails() {
    let cache = names(&shared_url(), patient());
    let short = Duration::from_millis(1);
    let first = cache.get_or_load("k", short, || async { Ok(vec!["first".to_owned()]) }).await.unwrap();
    assert_eq!(first.freshness, Freshness::Fresh);
    let stale = eventually("the value is stale", || async {
        let found = cache.get_or_load("k", short, || async { Err("gone") }).await.unwrap();
        (found.freshness == Freshness::Stale).then_some(found)
    })
    .await;
    assert_eq!(stale, cached("first", Freshness::Stale));
    assert!(cache.snapshot().stale >= 1);
    assert_eq!(get(&cache, "second").await, cached("second", Freshness::Fresh));
}

#[tokio::test]
async fn a_value_leaves_redis_when_it_is_too_old_even_to_be_stale() {
    let config = CacheConfig { keep_stale: Duration::from_millis(1), ..patient() };
    let cache = names(&shared_url(), config);
    let short = Duration::from_millis(1);
    cache.get_or_load("k", short, || async { Ok(vec!["first".to_owned()]) }).await.unwrap();
    eventually("the value is gone", || async { cache.get_or_load("k", short, || async { Err("gone") }).await.err() })
        .await;
}

#[tokio::test]
async fn lifetimes_are_shortened_at_random_and_never_prolonged() {
    let config = CacheConfig { jitter: 0.5, keep_stale: Duration::ZERO, ..patient() };
    let cache = names(&shared_url(), config.clone());
    let mut lifetimes = Vec::new();
    for n in 0..20 {
        let key = format!("k{n}");
        cache.get_or_load(&key, TTL, || async { Ok(vec![]) }).await.unwrap();
        let left: i64 = raw().await.pttl(format!("{}names:v1:{key}", config.prefix)).await.unwrap();
        assert!((10_000..=30_000).contains(&left), "{left}");
        lifetimes.push(left);
    }
    let (min, max) = (lifetimes.iter().min().unwrap(), lifetimes.iter().max().unwrap());
    assert!(max - min > 5_000, "{lifetimes:?}");
}

#[tokio::test]
async fn what_cannot_be_read_counts_as_missing_and_is_overwritten() {
    let config = patient();
    let cache = names(&shared_url(), config.clone());
    let key = format!("{}names:v1:k", config.prefix);
    let mut redis = raw().await;
    let other_shape = r#"{"fresh_until_ms":99999999999999,"value":7}"#.to_owned();
    for corrupt in ["{".to_owned(), "\0".to_owned(), other_shape, "x".repeat(config.max_value_bytes + 10)] {
        redis.set::<_, _, ()>(&key, &corrupt).await.unwrap();
        let errors = cache.snapshot().errors;
        assert_eq!(get(&cache, "loaded").await, cached("loaded", Freshness::Fresh));
        assert_eq!(cache.snapshot().errors, errors + 1);
        assert_eq!(get(&cache, "again").await, cached("loaded", Freshness::FromCache));
    }
    redis.del::<_, ()>(&key).await.unwrap();
    redis.rpush::<_, _, ()>(&key, "a list").await.unwrap();
    assert_eq!(get(&cache, "loaded").await, cached("loaded", Freshness::Fresh));
    assert_eq!(get(&cache, "again").await, cached("loaded", Freshness::FromCache));
}

#[tokio::test]
async fn a_value_that_is_too_large_is_given_and_not_stored() {
    let cache = names(&shared_url(), CacheConfig { max_value_bytes: 64, ..patient() });
    let large = "x".repeat(65);
    assert_eq!(get(&cache, &large).await, cached(&large, Freshness::Fresh));
    assert_eq!(get(&cache, "small").await, cached("small", Freshness::Fresh));
    assert_eq!(cache.snapshot().errors, 1);
}

#[tokio::test]
async fn a_value_of_another_schema_is_not_read() {
    let config = patient();
    let old = names(&shared_url(), config.clone());
    let new = names(&shared_url(), CacheConfig { schema: 2, ..config });
    get(&old, "old").await;
    assert_eq!(get(&new, "new").await, cached("new", Freshness::Fresh));
    assert_eq!(get(&old, "x").await, cached("old", Freshness::FromCache));
}

#[tokio::test]
async fn without_redis_values_are_loaded_and_after_a_few_calls_it_is_not_even_asked() {
    let address = testkit::stub::refusing_url().replace("http", "redis");
    let patience = Duration::from_millis(50);
    let cache = names(&address, CacheConfig { patience, pause: Duration::from_secs(60), ..patient() });
    let started = Instant::now();
    for _ in 0..100 {
        assert_eq!(get(&cache, "x").await, cached("x", Freshness::Fresh));
    }
    // A hundred times the patience would be five seconds.
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    let counts = cache.snapshot();
    assert!(counts.paused);
    assert_eq!(counts.errors, 3);
}

#[tokio::test]
async fn a_redis_that_is_stopped_costs_a_call_its_patience_and_no_more_and_serves_again_afterwards() {
    let redis = OwnRedis::start().await;
    let config = CacheConfig {
        patience: Duration::from_millis(200),
        pause_after: u32::MAX,
        pause: Duration::from_millis(50),
        ..patient()
    };
    let cache = names(&redis.url(), config);
    eventually("the cache works", || async {
        (get(&cache, "x").await.freshness == Freshness::FromCache).then_some(())
    })
    .await;
    redis.pause();
    for _ in 0..3 {
        let started = Instant::now();
        assert_eq!(get(&cache, "y").await, cached("y", Freshness::Fresh));
        assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    }
    redis.resume();
    eventually("the cache works again", || async {
        (get(&cache, "z").await.freshness == Freshness::FromCache).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_redis_that_is_killed_is_done_without_and_used_again_once_it_is_back() {
    let mut redis = OwnRedis::start().await;
    let config = CacheConfig { patience: Duration::from_millis(200), pause: Duration::from_millis(100), ..patient() };
    let cache = names(&redis.url(), config);
    eventually("the cache works", || async {
        (get(&cache, "x").await.freshness == Freshness::FromCache).then_some(())
    })
    .await;
    redis.kill();
    let started = Instant::now();
    for _ in 0..20 {
        assert_eq!(get(&cache, "y").await, cached("y", Freshness::Fresh));
    }
    // At the client's default settings each of these would have hung for nine seconds.
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    assert!(cache.snapshot().paused);
    redis.restart().await;
    eventually("the cache works again", || async {
        (get(&cache, "z").await.freshness == Freshness::FromCache).then_some(())
    })
    .await;
    assert!(!cache.snapshot().paused);
}

#[tokio::test]
async fn a_changed_lifetime_holds_for_what_is_stored_from_then_on() {
    let config = patient();
    let cache = names(&shared_url(), config.clone());
    cache.reconfigure(config.patience, Duration::from_secs(7_200));
    get(&cache, "first").await;
    let key = format!("{}names:v1:k", config.prefix);
    let left: i64 = raw().await.pttl(key).await.unwrap();
    assert!(left > 7_200_000, "{left}");
    cache.reconfigure(Duration::ZERO, config.keep_stale);
    assert_eq!(get(&cache, "second").await, cached("second", Freshness::Fresh), "without patience Redis is not asked");
}

#[tokio::test]
async fn what_was_put_is_seen_by_a_peek_however_old_and_costs_nothing_without_redis() {
    let config = patient();
    let (cache, replica) = (names(&shared_url(), config.clone()), names(&shared_url(), config));
    assert_eq!(replica.peek("k").await, None);
    cache.put("k", &vec!["put".to_owned()], Duration::ZERO).await;
    assert_eq!(replica.peek("k").await, Some(vec!["put".to_owned()]));
    assert_eq!(get(&replica, "loaded").await, cached("loaded", Freshness::Fresh), "it never was fresh");
    let alone = names("redis://127.0.0.1:1", CacheConfig { patience: SOON, ..patient() });
    alone.put("k", &Vec::new(), TTL).await;
    assert_eq!(alone.peek("k").await, None);
}
