//! A quota of the whole cluster at its route: two instances, one Redis that works, dies, stands still and comes back.
//!
//! How exact the count is, second for second, is tested where it is made (`shared/cache/tests/quota.rs`). Here the
//! window is one that no test outlives, so that what is admitted is a number.

use std::{sync::atomic::Ordering, time::Duration};

use chassis::service::RedisWiring;
use contracts::{ProblemType, Service, headers};
use futures_util::future::join_all;
use rules::{Origin, Rules};
use serde_json::Value;
use testkit::{OwnRedis, app::wiring, eventually, redis::key_prefix};

use super::shop::{Shop, problem, stranger};

const HOUR: Duration = Duration::from_secs(3_600);
const LIMIT: u32 = 200;
const LEASE: u32 = 10;

/// Two hundred orders in all, leased ten at a time; nobody else limits anybody.
fn rules() -> Rules {
    let mut rules = Rules { version: 5, ..Rules::default() };
    let quota = rules.quota.get_mut("orders").unwrap();
    quota.limit = LIMIT;
    quota.window = HOUR;
    quota.max_lease = Some(LEASE);
    quota.heartbeat = Duration::from_millis(50);
    // As patient as a busy machine needs, where it is not Redis' absence that is tested.
    quota.timeout = Duration::from_secs(5);
    let plenty = resilience::rate_limit::Quota::new(1_000.0, 10_000);
    rules.key_limits.user.default = plenty;
    rules.route.get_mut(Rules::PLACE_ORDER).unwrap().limit = resilience::rate_limit::LimiterConfig::TokenBucket(plenty);
    rules
}

async fn instance(redis: &OwnRedis, rules: &Rules, prefix: &str) -> Shop {
    let mut wiring = wiring(Service::Order, rules.clone());
    wiring.redis = Some(RedisWiring { url: redis.url(), key_prefix: prefix.to_owned() });
    Shop::open_wired(wiring).await
}

async fn instances(redis: &OwnRedis, rules: &Rules) -> [Shop; 2] {
    let prefix = key_prefix();
    let instances = [instance(redis, rules, &prefix).await, instance(redis, rules, &prefix).await];
    for instance in &instances {
        eventually("the instances know each other", || async {
            let quota = quota(instance).await;
            (quota["replicas"] == 2 && quota["authority"] == "redis").then_some(())
        })
        .await;
    }
    instances
}

async fn quota(shop: &Shop) -> Value {
    shop.state().await["quotas"]["orders"].clone()
}

/// Orders at `shop` until one is refused: how many were let in, and the refusal's mechanism.
async fn until_refused(shop: &Shop) -> (u32, String) {
    let token = stranger();
    let mut admitted = 0;
    loop {
        let answer = shop.order(&token).send().await.unwrap();
        if answer.status() != 200 {
            return (admitted, problem(answer).await.mechanism.unwrap());
        }
        admitted += 1;
        assert!(admitted <= 2 * LIMIT, "nobody is refused");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_admit_the_quota_together() {
    let redis = OwnRedis::start().await;
    let [one, other] = instances(&redis, &rules()).await;
    let (mut admitted, mut open) = (0, [true; 2]);
    let token = stranger();
    while open.contains(&true) {
        for (shop, open) in [&one, &other].into_iter().zip(&mut open).filter(|(_, open)| **open) {
            match shop.order(&token).send().await.unwrap().status().as_u16() {
                200 => admitted += 1,
                status => {
                    assert_eq!(status, 429);
                    *open = false;
                }
            }
        }
    }
    assert!((LIMIT - LEASE..=LIMIT).contains(&admitted), "{admitted}");
    let (trips, failures) = (quota(&one).await["round_trips"].clone(), quota(&one).await["failures"].clone());
    assert_eq!(failures, 0, "after {trips} round trips");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_instance_that_gets_all_the_traffic_admits_the_whole_quota_and_says_so() {
    let redis = OwnRedis::start().await;
    let [one, other] = instances(&redis, &rules()).await;
    let first = one.order(&stranger()).send().await.unwrap();
    let header = |name: &str| first.headers()[name].to_str().unwrap().to_owned();
    assert!(header("ratelimit-policy").ends_with("\"quota.orders\";q=200;w=3600"), "{}", header("ratelimit-policy"));
    assert!(header("ratelimit").contains("\"quota.orders\";r="), "{}", header("ratelimit"));

    let (more, mechanism) = until_refused(&one).await;
    assert!((LIMIT - LEASE..=LIMIT).contains(&(1 + more)), "{more}");
    assert_eq!(mechanism, "quota.orders");
    let refused = one.order(&stranger()).send().await.unwrap();
    assert_eq!(refused.headers()["ratelimit-policy"], "\"quota.orders\";q=200;w=3600");
    assert!(refused.headers().contains_key("retry-after"));
    let told = problem(refused).await;
    assert_eq!((told.kind, told.rule_version), (ProblemType::RateLimited, Some(5)));
    assert!(told.retryable && told.retry_after_ms > Some(0), "{told:?}");
    assert!(until_refused(&other).await.0 <= LEASE, "what the other had leased before");
    let listed = one.app.get("/v1/orders").bearer_auth(stranger()).send().await.unwrap();
    assert_eq!(listed.status(), 200, "a route that names no quota is under none");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_redis_beyond_their_own_deadline() {
    let redis = OwnRedis::start().await;
    let mut rules = rules();
    // So that no heartbeat finds out before the request does.
    rules.quota.get_mut("orders").unwrap().heartbeat = HOUR;
    let one = instance(&redis, &rules, "").await;
    redis.pause();
    // The connection itself gives up after 100 ms.
    let late = one.order(&stranger()).header(headers::EXPECTED_TIMEOUT_MS, "50").send().await.unwrap();
    redis.resume();
    assert_eq!(late.status(), 504, "the quota would have waited five seconds");
    let told = problem(late).await;
    assert_eq!((told.mechanism.as_deref(), told.rule_version), (Some("deadline"), Some(5)));
    assert_eq!(one.handled.load(Ordering::Relaxed), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_limits_hold_without_a_restart_and_without_a_fresh_quota() {
    let redis = OwnRedis::start().await;
    let [one, _other] = instances(&redis, &rules()).await;
    let before = until_refused(&one).await.0;
    let mut raised = rules();
    raised.quota.get_mut("orders").unwrap().limit = LIMIT + 50;
    one.rules.apply(raised, Origin::File);
    eventually("the limit is in force", || async { (quota(&one).await["limit"] == LIMIT + 50).then_some(()) }).await;
    let after = until_refused(&one).await.0;
    assert!((LIMIT + 50 - LEASE..=LIMIT + 50).contains(&(before + after)), "{before} and {after}");
}

/// Both instances lose Redis by `fail` and get it back by `restored`.
async fn orders_go_on(fail: impl FnOnce(&mut OwnRedis), restored: impl AsyncFnOnce(&mut OwnRedis)) {
    let mut redis = OwnRedis::start().await;
    let instances = instances(&redis, &rules()).await;
    for shop in &instances {
        assert_eq!(shop.order(&stranger()).send().await.unwrap().status(), 200);
    }
    let mut short = rules();
    let quota_rule = short.quota.get_mut("orders").unwrap();
    (quota_rule.timeout, quota_rule.pause) = (Duration::from_millis(20), HOUR);
    // A twentieth of the hour: ten units of the two hundred, of which each instance has five.
    quota_rule.local_burst = HOUR / 20;
    for shop in &instances {
        shop.rules.apply(short.clone(), Origin::File);
    }
    fail(&mut redis);
    for shop in &instances {
        // The lease in hand is used up first; then nobody is let in but by the share, and nobody waits for long.
        let (admitted, mechanism) = until_refused(shop).await;
        assert!(admitted <= LEASE + 5, "{admitted} without Redis");
        assert_eq!(mechanism, "quota.orders");
        eventually("Redis is left alone", || async {
            drop(shop.order(&stranger()).send().await.unwrap());
            (quota(shop).await["paused"] == true).then_some(())
        })
        .await;
        let before = quota(shop).await;
        assert_eq!((&before["authority"], &before["replicas"]), (&"local".into(), &2.into()));
        let failures = before["failures"].as_u64().unwrap();
        // Three in a row, and a heartbeat that was under way beside a request.
        assert!((1..=4).contains(&failures), "{before}");
        let answers = join_all((0..50).map(|_| shop.order(&stranger()).send())).await;
        assert!(answers.into_iter().all(|answer| answer.unwrap().status() == 429));
        assert_eq!(quota(shop).await["round_trips"], before["round_trips"], "nobody asks a Redis that is left alone");
        let listed = shop.app.get("/v1/orders").bearer_auth(stranger()).send().await.unwrap();
        assert_eq!(listed.status(), 200);
    }

    restored(&mut redis).await;
    // Asks again soon instead of in an hour.
    let back = short.quota.get_mut("orders").unwrap();
    (back.pause, back.timeout) = (Duration::from_millis(10), Duration::from_secs(5));
    for shop in &instances {
        shop.rules.apply(short.clone(), Origin::File);
    }
    for shop in &instances {
        eventually("leases are taken again", || async { (quota(shop).await["authority"] == "both").then_some(()) })
            .await;
        // Whether its counts are gone or not: what the share does not allow is not let in. It earns one in 36 s.
        let (admitted, mechanism) = until_refused(shop).await;
        assert!(admitted <= 2, "{admitted} at once when Redis is back");
        assert_eq!(mechanism, "quota.orders");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_redis_killed_orders_go_on_within_each_instances_share() {
    orders_go_on(OwnRedis::kill, async |redis| redis.restart().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_redis_stopped_orders_go_on_within_each_instances_share() {
    orders_go_on(|redis| redis.pause(), async |redis| redis.resume()).await;
}
