//! The quota against a real Redis: one that works, and ones that are killed, stopped and started again.
//!
//! Redis' clock cannot be turned, so what is admitted over time is held against bounds that follow from the algorithm
//! and from the longest pause that the test itself made.

#![expect(clippy::unwrap_used, reason = "what the tests share may fail them as they may themselves")]

use std::{
    future::Future,
    num::NonZeroU32,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use cache::{
    Authority, ConnectionManager, Exceeds, Granted, Quota, QuotaConfig, RateLimited, Refused, Window, connect_lazily,
};
use redis::{AsyncCommands, aio::ConnectionManagerConfig};
use testkit::{
    OwnRedis, eventually,
    redis::{key_prefix, shared_url},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::{Instant, sleep},
};

const DAY: Duration = Duration::from_secs(86_400);
const WINDOW: Duration = Duration::from_secs(1);
const LIMIT: u32 = 200;
const LEASE: u32 = 10;
/// Two replicas, each a tenth of a second of half the quota.
const BURSTS: u32 = 20;
/// Far above what a busy machine adds to a call, far below what an untuned client hangs for.
const SOON: Duration = Duration::from_secs(2);

/// 200 a second. A test machine is slow without being broken.
fn patient() -> QuotaConfig {
    QuotaConfig {
        prefix: key_prefix(),
        limit: LIMIT,
        window_ms: WINDOW,
        max_lease: Some(LEASE),
        timeout_ms: Duration::from_secs(5),
        heartbeat_ms: Duration::from_millis(100),
        ..QuotaConfig::default()
    }
}

/// A window that does not end during a test; where it does, the sliding one still weighs it in full.
fn endless(limit: u32) -> QuotaConfig {
    QuotaConfig { limit, window_ms: DAY, lease_for_ms: DAY, ..patient() }
}

/// Connected as the services are.
async fn quota(url: &str, config: &QuotaConfig, replica: &str) -> Quota {
    begin(connect_lazily(url).unwrap(), config, replica).await
}

/// As patient with the server as with the machine, where it is not the connection that is tested.
async fn patient_quota(config: &QuotaConfig, replica: &str) -> Quota {
    let patience = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(Duration::from_secs(5)))
        .set_response_timeout(Some(Duration::from_secs(5)));
    let client = redis::Client::open(shared_url()).unwrap();
    begin(ConnectionManager::new_lazy_with_config(client, patience).unwrap(), config, replica).await
}

async fn begin(connection: ConnectionManager, config: &QuotaConfig, replica: &str) -> Quota {
    eventually("Redis answers", || async {
        redis::cmd("PING").query_async::<String>(&mut connection.clone()).await.ok()
    })
    .await;
    Quota::new(connection, config.clone(), replica).unwrap()
}

async fn pair(url: &str, config: &QuotaConfig) -> [Quota; 2] {
    [quota(url, config, "a").await, quota(url, config, "b").await]
}

async fn patient_pair(config: &QuotaConfig) -> [Quota; 2] {
    [patient_quota(config, "a").await, patient_quota(config, "b").await]
}

/// Both say that they are there until this is dropped.
struct Presence(Vec<JoinHandle<()>>);

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

async fn present(replicas: &[Quota]) -> Presence {
    let beating = |replica: &Quota| {
        let replica = replica.clone();
        tokio::spawn(async move { replica.keep_presence().await })
    };
    let presence = Presence(replicas.iter().map(beating).collect());
    for replica in replicas {
        eventually("the replicas know each other", || async {
            (replica.snapshot().replicas as usize == replicas.len()).then_some(())
        })
        .await;
    }
    presence
}

/// What was admitted, and the longest time during which nobody asked.
#[derive(Default)]
struct Record {
    admitted: Vec<Instant>,
    gap: Duration,
}

/// Asks for more than there is, everywhere, until `done` after a round in which everybody was refused. Returns when
/// that round ended.
async fn saturate(replicas: &[Quota], record: &mut Record, mut done: impl FnMut() -> bool) -> Instant {
    let mut asked = Instant::now();
    loop {
        let mut pause = Duration::from_millis(5);
        for replica in replicas {
            let refused: RateLimited = loop {
                match check(replica, "k", 1).await {
                    Ok(_) => record.admitted.push(Instant::now()),
                    Err(refused) => break refused,
                }
            };
            pause = pause.min(refused.retry_after);
        }
        record.gap = record.gap.max(asked.elapsed());
        asked = Instant::now();
        if done() {
            return asked;
        }
        sleep(pause).await;
    }
}

async fn saturate_for(replicas: &[Quota], record: &mut Record, time: Duration) -> Instant {
    let end = Instant::now() + time;
    saturate(replicas, record, || Instant::now() >= end).await
}

/// What `limit` a window gives in this time, rounded up.
fn worth(limit: u32, time: Duration) -> u32 {
    (f64::from(limit) * time.as_secs_f64() / WINDOW.as_secs_f64()).ceil() as u32
}

/// For weights within the limit.
async fn check(quota: &Quota, key: &str, weight: u32) -> Result<Granted, RateLimited> {
    match quota.check(key, NonZeroU32::new(weight).unwrap()).await {
        Ok(granted) => Ok(granted),
        Err(Refused::Limited(limited)) => Err(limited),
        Err(Refused::Exceeds(exceeds)) => panic!("{exceeds}"),
    }
}

/// The outcome of a future that has it without waiting for anything.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

async fn raw(url: &str) -> redis::aio::MultiplexedConnection {
    redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap()
}

fn key(config: &QuotaConfig, rest: &str) -> String {
    format!("{{{}quota:{}:{}}}:{rest}", config.prefix, config.name, config.window_ms.as_millis())
}

async fn two_replicas_admit_the_quota_together(asked: usize) {
    let config = patient();
    let replicas = patient_pair(&config).await;
    let _presence = present(&replicas).await;
    // From here on both have nothing left, and Redis has nothing to give.
    let from = saturate_for(&replicas[..asked], &mut Record::default(), WINDOW).await;
    let mut record = Record::default();
    let to = saturate_for(&replicas[..asked], &mut record, 3 * WINDOW).await;
    let admitted = u32::try_from(record.admitted.len()).unwrap();

    let most = worth(LIMIT, to - from) + LEASE;
    assert!(admitted <= most, "{admitted} of {most}");
    // A window that ends before what it had left was asked for keeps it: once a window, what a pause of the test and a
    // remembered refusal are worth, and a lease that was being used.
    let windows = 2 + u32::try_from((to - from).as_secs()).unwrap();
    let missed = windows * (LEASE + worth(LIMIT, record.gap + config.lease_for_ms / 10));
    let least = worth(LIMIT, to - from).saturating_sub(missed);
    assert!(admitted >= least, "{admitted} of at least {least}, gap {:?}", record.gap);
    assert!(replicas.iter().all(|replica| replica.snapshot().failures == 0));
}

#[tokio::test]
async fn two_replicas_admit_the_quota_together_within_one_lease() {
    two_replicas_admit_the_quota_together(2).await;
}

#[tokio::test]
async fn one_replica_of_two_that_gets_all_the_traffic_admits_the_whole_quota() {
    two_replicas_admit_the_quota_together(1).await;
}

#[tokio::test]
async fn within_one_window_exactly_the_limit_is_admitted_and_one_round_trip_serves_many() {
    for algorithm in [Window::Sliding, Window::Fixed] {
        let config = QuotaConfig { algorithm, ..endless(1_000) };
        let config = QuotaConfig { max_lease: Some(100), ..config };
        let replicas = patient_pair(&config).await;
        let mut admitted = 0;
        let mut open = [true; 2];
        while open.contains(&true) {
            for (replica, open) in replicas.iter().zip(&mut open) {
                match check(replica, "k", 1).await {
                    Ok(granted) => {
                        admitted += 1;
                        assert!(granted.remaining < 1_000 && granted.reset <= DAY, "{granted:?}");
                    }
                    Err(refused) => {
                        *open = false;
                        assert!(refused.retry_after <= 2 * DAY, "{refused:?}");
                        assert_eq!((refused.limit, refused.authority), (1_000, Authority::Redis));
                    }
                }
            }
        }
        assert_eq!(admitted, 1_000);
        let trips: u64 = replicas.iter().map(|replica| replica.snapshot().round_trips).sum();
        assert!(trips <= 50, "{trips} round trips");
        let refused_before = replicas[0].snapshot();
        assert!(check(&replicas[0], "k", 1).await.is_err());
        assert_eq!(replicas[0].snapshot().round_trips, refused_before.round_trips, "a refusal is remembered");
        assert!(check(&replicas[0], "other", 1).await.is_ok(), "another key has a quota of its own");
    }
}

#[tokio::test]
async fn a_hundred_callers_at_once_share_two_round_trips() {
    let config = QuotaConfig { max_lease: Some(400), ..endless(1_000) };
    let quota = patient_quota(&config, "a").await;
    let callers: Vec<_> = (0..100)
        .map(|_| {
            let quota = quota.clone();
            tokio::spawn(async move { check(&quota, "k", 1).await })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    // The first asks for itself, since nobody waits yet; the next one asks for all.
    assert_eq!(quota.snapshot().round_trips, 2);
    assert_eq!(quota.snapshot().admitted_leased, 100);
}

#[tokio::test]
async fn a_caller_that_leaves_does_not_take_the_lease_with_it() {
    let quota = patient_quota(&endless(1_000), "a").await;
    assert!(at_once(check(&quota, "k", 1)).is_none(), "gone before the answer");
    eventually("the answer is in", || async { at_once(check(&quota, "k", 1)).map(Result::unwrap) }).await;
    assert_eq!(quota.snapshot().round_trips, 1);
}

#[tokio::test]
async fn weights_count_and_one_above_the_limit_never_fits() {
    let quota = patient_quota(&endless(10), "a").await;
    let (weight, limit) = (NonZeroU32::new(11).unwrap(), 10);
    assert_eq!(quota.check("k", weight).await, Err(Refused::Exceeds(Exceeds { weight, limit })));
    assert!(check(&quota, "k", 7).await.is_ok());
    assert!(check(&quota, "k", 4).await.is_err());
    assert!(check(&quota, "k", 3).await.is_ok(), "what a heavier request did not fit into");
    assert!(check(&quota, "k", 1).await.is_err());
}

#[tokio::test]
async fn the_callers_clock_refills_nothing() {
    let quota = patient_quota(&endless(10), "a").await;
    assert!(check(&quota, "k", 10).await.is_ok());
    let trips = quota.snapshot().round_trips;
    tokio::time::pause();
    tokio::time::advance(3 * DAY).await;
    tokio::time::resume();
    assert!(check(&quota, "k", 1).await.is_err());
    assert_eq!(quota.snapshot().round_trips, trips + 1, "it was asked, and Redis knows what time it is");
}

#[tokio::test]
async fn every_key_has_a_lifetime_and_one_that_lost_it_gets_it_back() {
    let config = QuotaConfig { max_lease: None, ..endless(2) };
    let quota = patient_quota(&config, "a").await;
    let mut redis = raw(&shared_url()).await;
    assert!(check(&quota, "k", 2).await.is_ok());
    let keys = [key(&config, "key:k"), key(&config, "replicas")];
    for name in &keys {
        assert!(redis.pttl::<_, i64>(name).await.unwrap() > 0, "{name}");
        assert!(redis.persist::<_, bool>(name).await.unwrap(), "{name}");
    }
    // Another replica, since this one remembers that nothing is left. A refusal repairs as well.
    let other = patient_quota(&config, "b").await;
    assert!(check(&other, "k", 1).await.is_err());
    for name in &keys {
        assert!(redis.pttl::<_, i64>(name).await.unwrap() > 0, "{name}");
    }
}

#[tokio::test]
async fn a_key_that_holds_something_else_is_begun_anew() {
    let config = endless(10);
    let mut redis = raw(&shared_url()).await;
    let counter = key(&config, "key:k");
    redis.set::<_, _, ()>(&counter, "a text").await.unwrap();
    redis.set::<_, _, ()>(key(&config, "replicas"), "a text").await.unwrap();
    let a = patient_quota(&config, "a").await;
    assert_eq!(check(&a, "k", 10).await.unwrap().authority, Authority::Redis);
    for (field, rubbish) in [("current", "nan"), ("current", "-7"), ("window", "x"), ("previous", "")] {
        redis.del::<_, ()>(&counter).await.unwrap();
        redis.hset::<_, _, _, ()>(&counter, field, rubbish).await.unwrap();
        let fresh = patient_quota(&config, "b").await;
        assert_eq!(check(&fresh, "k", 10).await.unwrap().authority, Authority::Redis, "{field} {rubbish}");
        assert!(check(&fresh, "k", 1).await.is_err());
    }
}

#[tokio::test]
async fn counts_from_before_the_servers_clock_was_set_back_go_on_and_do_not_block_for_ever() {
    let config = endless(10);
    let mut redis = raw(&shared_url()).await;
    let fields = [("window", 9_999_999_999_u64), ("current", 4), ("previous", 10)];
    redis.hset_multiple::<_, _, _, ()>(key(&config, "key:k"), &fields).await.unwrap();
    let quota = patient_quota(&QuotaConfig { algorithm: Window::Fixed, ..config.clone() }, "a").await;
    assert!(check(&quota, "k", 6).await.is_ok());
    assert!(check(&quota, "k", 1).await.is_err());
    let window: u64 = redis.hget(key(&config, "key:k"), "window").await.unwrap();
    assert!(window < 9_999_999_999, "{window}");
}

#[tokio::test]
async fn replicas_learn_of_each_other_and_forget_who_is_gone() {
    let replicas = patient_pair(&patient()).await;
    let both = present(&replicas).await;
    drop(both);
    let _one = present(&replicas[..1]).await;
    assert_eq!(replicas[0].snapshot().replicas, 1);
}

/// Drives two replicas into the loss of Redis by `fail`, and holds them to the local share.
async fn the_local_share_holds(redis: &mut OwnRedis, fail: impl FnOnce(&mut OwnRedis)) {
    let config = QuotaConfig {
        timeout_ms: Duration::from_millis(20),
        // Nothing that tries again disturbs the count.
        pause_ms: Duration::from_secs(600),
        ..patient()
    };
    // Learns how many they are with more patience than it has when it counts.
    let replicas = pair(&redis.url(), &config).await;
    let presence = present(&replicas).await;
    eventually("Redis decides", || async {
        let warm = replicas.iter().all(|replica| replica.snapshot().authority == Authority::Redis);
        for replica in &replicas {
            let _ = check(replica, "k", 1).await;
        }
        warm.then_some(())
    })
    .await;
    let mut record = Record::default();
    saturate(&replicas, &mut record, || true).await;

    drop(presence);
    fail(redis);
    let failures = |replica: &Quota| replica.snapshot().failures;
    let before = [failures(&replicas[0]), failures(&replicas[1])];
    for replica in &replicas {
        while !replica.snapshot().paused {
            let started = Instant::now();
            let _ = check(replica, "k", 1).await;
            assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
        }
    }
    for (replica, before) in replicas.iter().zip(before) {
        assert!((1..=3).contains(&(failures(replica) - before)), "{:?}", replica.snapshot());
    }

    let trips = replicas.each_ref().map(|replica| replica.snapshot().round_trips);
    let mut record = Record::default();
    let from = Instant::now();
    let to = saturate_for(&replicas, &mut record, 2 * WINDOW).await;
    let admitted = u32::try_from(record.admitted.len()).unwrap();
    let most = worth(LIMIT, to - from) + BURSTS;
    assert!(admitted <= most, "{admitted} of {most}");
    let least = worth(LIMIT, to - from).saturating_sub(BURSTS + worth(LIMIT, record.gap));
    assert!(admitted >= least, "{admitted} of at least {least}, gap {:?}", record.gap);
    for (replica, trips) in replicas.iter().zip(trips) {
        // It waits for nothing at all.
        let outcome = at_once(check(replica, "k", 1)).unwrap();
        assert_eq!(outcome.map_or_else(|refused| refused.authority, |granted| granted.authority), Authority::Local);
        let snapshot = replica.snapshot();
        assert_eq!((snapshot.round_trips, snapshot.replicas), (trips, 2), "Redis is left alone, its last word kept");
    }
}

#[tokio::test]
async fn with_redis_killed_requests_go_on_within_the_local_share() {
    let mut redis = OwnRedis::start().await;
    the_local_share_holds(&mut redis, OwnRedis::kill).await;
}

#[tokio::test]
async fn with_redis_stopped_requests_go_on_within_the_local_share() {
    let mut redis = OwnRedis::start().await;
    the_local_share_holds(&mut redis, |redis| redis.pause()).await;
    // So that it can be killed.
    redis.resume();
}

#[tokio::test]
async fn the_local_bucket_has_seen_what_redis_admitted() {
    let mut redis = OwnRedis::start().await;
    let config = QuotaConfig { pause_after: 1, pause_ms: Duration::from_secs(600), ..endless(100) };
    let replicas = pair(&redis.url(), &config).await;
    let _presence = present(&replicas).await;
    assert_ne!(check(&replicas[0], "k", 100).await.unwrap().authority, Authority::Local);
    redis.kill();
    let refused = check(&replicas[0], "k", 1).await.unwrap_err();
    assert_eq!(refused.authority, Authority::Local, "no fresh bucket on top");
    assert!(check(&replicas[1], "k", 1).await.is_ok(), "one that was idle has its share");
}

#[tokio::test]
async fn other_limits_hold_from_the_next_call_on_and_what_was_counted_stays() {
    let quota = patient_quota(&endless(100), "a").await;
    let admitted = async || {
        let mut count = 0;
        while check(&quota, "k", 1).await.is_ok() {
            count += 1;
        }
        count
    };
    assert_eq!(admitted().await, 100);
    let other = |limit| QuotaConfig { name: "another".into(), prefix: "x".into(), limit, ..endless(limit) };
    quota.reconfigure(other(130)).unwrap();
    assert_eq!(admitted().await, 30, "thirty more, and not a fresh hundred and thirty");
    quota.reconfigure(other(50)).unwrap();
    assert_eq!(admitted().await, 0);
    assert_eq!((quota.snapshot().limit, quota.snapshot().admitted_leased), (50, 130));
    assert_eq!(quota.reconfigure(other(0)).unwrap_err().field, "limit");
    assert_eq!(quota.snapshot().limit, 50, "what cannot stand changes nothing");
}

#[tokio::test]
async fn other_limits_while_redis_is_away_bring_no_fresh_bucket_and_no_further_waits() {
    let mut redis = OwnRedis::start().await;
    let config = QuotaConfig { pause_after: 1, pause_ms: Duration::from_secs(600), ..endless(100) };
    let replicas = pair(&redis.url(), &config).await;
    let _presence = present(&replicas).await;
    assert_ne!(check(&replicas[0], "k", 100).await.unwrap().authority, Authority::Local);
    redis.kill();
    assert_eq!(check(&replicas[0], "k", 1).await.unwrap_err().authority, Authority::Local);
    replicas[0].reconfigure(QuotaConfig { limit: 90, pause_ms: Duration::from_secs(500), ..config }).unwrap();
    let before = replicas[0].snapshot().round_trips;
    let refused = at_once(check(&replicas[0], "k", 1)).unwrap().unwrap_err();
    assert_eq!((refused.limit, refused.authority), (90, Authority::Local));
    let snapshot = replicas[0].snapshot();
    assert_eq!((snapshot.round_trips, snapshot.paused), (before, true));
}

/// Replicas at their limit lose Redis, go on, get it back, and go on: no span of a window holds much more than the
/// limit, whether the counters are gone or merely old.
async fn there_is_no_burst(
    redis: &mut OwnRedis,
    fail: impl FnOnce(&mut OwnRedis),
    restored: impl AsyncFnOnce(&mut OwnRedis),
) {
    let config =
        QuotaConfig { timeout_ms: Duration::from_millis(100), pause_ms: Duration::from_millis(50), ..patient() };
    let replicas = pair(&redis.url(), &config).await;
    let _presence = present(&replicas).await;
    fail(redis);
    let mut record = Record::default();
    let paused = |replica: &Quota| replica.snapshot().paused;
    saturate(&replicas, &mut record, || replicas.iter().all(paused)).await;
    saturate_for(&replicas, &mut record, WINDOW).await;
    restored(redis).await;
    let give_up = Instant::now() + 30 * WINDOW;
    let alone = |replica: &Quota| replica.snapshot().authority == Authority::Redis;
    saturate(&replicas, &mut record, || {
        assert!(Instant::now() < give_up, "Redis never decides again");
        replicas.iter().all(alone)
    })
    .await;
    saturate_for(&replicas, &mut record, WINDOW).await;

    // Besides the limit: both bursts, one lease, and what the two counters misjudge by taking a window with a pause in
    // it for an even one.
    let most = LIMIT + BURSTS + LEASE + worth(LIMIT, record.gap);
    let admitted = &record.admitted;
    for (first, from) in admitted.iter().enumerate() {
        let count = admitted[first..].iter().take_while(|at| **at - *from < WINDOW).count();
        assert!(count <= most as usize, "{count} of {most} in a window, gap {:?}", record.gap);
    }
}

#[tokio::test]
async fn when_a_redis_that_was_killed_is_back_there_is_no_burst() {
    let mut redis = OwnRedis::start().await;
    there_is_no_burst(&mut redis, OwnRedis::kill, async |redis| redis.restart().await).await;
}

#[tokio::test]
async fn when_a_redis_that_was_stopped_is_back_there_is_no_burst() {
    let mut redis = OwnRedis::start().await;
    there_is_no_burst(&mut redis, |redis| redis.pause(), async |redis| redis.resume()).await;
}

#[tokio::test]
async fn a_script_that_the_server_forgot_is_loaded_again_and_its_counters_are_not_trusted_alone() {
    let redis = OwnRedis::start().await;
    let quota = quota(&redis.url(), &patient(), "a").await;
    let granted_by = async |authority| {
        eventually("the authority", || async {
            let granted = check(&quota, "k", 1).await.ok()?;
            (granted.authority == authority).then_some(())
        })
        .await;
    };
    granted_by(Authority::Redis).await;
    let before = quota.snapshot();
    redis::cmd("SCRIPT").arg("FLUSH").query_async::<()>(&mut raw(&redis.url()).await).await.unwrap();
    granted_by(Authority::Both).await;
    let snapshot = quota.snapshot();
    assert_eq!((snapshot.script_loads, snapshot.failures), (before.script_loads + 1, before.failures));
}

#[tokio::test]
async fn after_a_restart_of_redis_the_script_is_loaded_and_leases_are_taken() {
    let mut redis = OwnRedis::start().await;
    let config = QuotaConfig { pause_ms: Duration::from_millis(20), ..patient() };
    let quota = quota(&redis.url(), &config, "a").await;
    assert!(check(&quota, "k", 1).await.is_ok());
    redis.kill();
    redis.restart().await;
    eventually("a lease after the restart", || async {
        let granted = check(&quota, "k", 1).await.ok()?;
        (granted.authority == Authority::Both).then_some(())
    })
    .await;
    assert_eq!(quota.snapshot().script_loads, 2);
    eventually("Redis decides alone", || async {
        let granted = check(&quota, "k", 1).await.ok()?;
        (granted.authority == Authority::Redis).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_a_failure_and_the_share_decides() {
    for answer in [
        "+OK\r\n",
        ":5\r\n",
        "$-1\r\n",
        "*0\r\n",
        "*1\r\n:1\r\n",
        "*6\r\n:99999\r\n:1\r\n:1000\r\n:0\r\n:0\r\n:2\r\n",
        "*6\r\n:1\r\n:1\r\n:-1000\r\n:0\r\n:0\r\n:2\r\n",
        "*6\r\n:1\r\n:1\r\n:1000\r\n:0\r\n:0\r\n:0\r\n",
        "*6\r\n+a\r\n+b\r\n+c\r\n+d\r\n+e\r\n+f\r\n",
        "-ERR the script has failed\r\n",
        "-NOSCRIPT again and again\r\n",
        "-OOM command not allowed\r\n",
    ] {
        let quota = quota(&answering(answer).await, &patient(), "a").await;
        assert_eq!(check(&quota, "k", 1).await.unwrap().authority, Authority::Local, "{answer:?}");
        assert_eq!(quota.snapshot().failures, 1, "{answer:?}");
        for _ in 0..10 {
            let _ = check(&quota, "k", 1).await;
        }
        assert!(quota.snapshot().paused, "{answer:?}");
        assert_eq!(quota.snapshot().failures, 3, "{answer:?}");
    }
}

/// A server that says this to every script, and `OK` to everything else.
async fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(stream, answer));
        }
    });
    format!("redis://{address}")
}

async fn converse(mut stream: TcpStream, answer: &'static str) {
    let mut received = Vec::new();
    while stream.read_buf(&mut received).await.is_ok_and(|bytes| bytes > 0) {
        while let Some((verb, length)) = command(&received) {
            received.drain(..length);
            let reply = if verb.starts_with("EVAL") { answer } else { "+OK\r\n" };
            if stream.write_all(reply.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// The verb of the first whole command, and the bytes that it takes.
fn command(received: &[u8]) -> Option<(String, usize)> {
    let line = |at: usize| {
        let end = at + received.get(at..)?.windows(2).position(|two| two == b"\r\n")?;
        let number = std::str::from_utf8(&received[at + 1..end]).ok()?.parse::<usize>().ok()?;
        Some((number, end + 2))
    };
    let (parts, mut at) = line(0)?;
    let mut verb = None;
    for _ in 0..parts {
        let (length, begin) = line(at)?;
        let part = received.get(begin..begin + length)?;
        verb.get_or_insert_with(|| String::from_utf8_lossy(part).into_owned());
        at = begin + length + 2;
    }
    (received.len() >= at).then_some((verb?, at))
}

/// On a paused clock nothing but the quota's own timers moves it, so the waits are exact.
#[tokio::test(start_paused = true)]
async fn a_silent_server_costs_each_caller_its_patience_until_it_is_left_alone_and_then_nothing() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let patience = Duration::from_millis(20);
    let config = QuotaConfig { timeout_ms: patience, limit: 1_000_000, pause_ms: WINDOW, ..patient() };
    let quota = Arc::new(Quota::new(connect_lazily(&url).unwrap(), config, "a").unwrap());
    // Timers are as fine as a millisecond.
    let most = patience + Duration::from_millis(1);
    for _ in 0..3 {
        assert!(!quota.snapshot().paused);
        let started = Instant::now();
        let callers: Vec<_> = (0..50)
            .map(|_| {
                let quota = quota.clone();
                tokio::spawn(async move { check(&quota, "k", 1).await.map(|granted| granted.authority) })
            })
            .collect();
        for caller in callers {
            assert_eq!(caller.await.unwrap(), Ok(Authority::Local));
        }
        assert!((patience..=most).contains(&started.elapsed()), "{:?}", started.elapsed());
    }
    assert!(quota.snapshot().paused);
    assert_eq!(quota.snapshot().round_trips, 3, "fifty callers share one");
    for _ in 0..1_000 {
        assert_eq!(at_once(check(&quota, "k", 1)).unwrap().unwrap().authority, Authority::Local);
    }
    tokio::time::advance(WINDOW).await;
    for _ in 0..2 {
        let outcome = at_once(check(&quota, "k", 1)).unwrap();
        assert_eq!(outcome.unwrap().authority, Authority::Local, "nor for the round trip that tries again");
    }
    tokio::task::yield_now().await;
    assert_eq!(quota.snapshot().round_trips, 4);
}
