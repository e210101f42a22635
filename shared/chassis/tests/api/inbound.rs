//! The inbound guards, over real sockets. Limits earn next to nothing while a test runs, so that it counts and does not
//! time.

use std::sync::atomic::Ordering;

use contracts::{ProblemType, Service, UserId, headers};
use futures_util::future::join_all;
use reqwest::RequestBuilder;
use resilience::rate_limit::{LimiterConfig, Quota, TierConfig};
use rules::{Origin, Rules};
use serde_json::json;
use testkit::{caller_token, eventually, tier_token, user_token};

use super::shop::{Shop, problem, stranger};

/// Operations a second: one in a thousand seconds.
const HARDLY_ANY: f64 = 0.001;
/// More than a test that does not mean this limit sends.
const MANY: u32 = 80;

/// Each user may send `user` requests and place, all together, `orders`.
fn rules(user: u32, orders: u32) -> Rules {
    let mut rules = Rules::default();
    rules.key_limits.user.default = Quota::new(HARDLY_ANY, user);
    let limit = LimiterConfig::TokenBucket(Quota::new(HARDLY_ANY, orders));
    rules.route.get_mut(Rules::PLACE_ORDER).unwrap().limit = limit;
    rules
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_far_above_their_quota_is_refused_and_others_notice_nothing() {
    let shop = Shop::open(rules(20, 60)).await;
    let hot = stranger();
    let mut admitted = 0;
    for _ in 0..20 {
        let (some, refused) = shop.orders(&hot, 50).await;
        admitted += some;
        assert!(refused.iter().all(|mechanism| mechanism.as_deref() == Some("rate_limit.user")), "{refused:?}");
    }
    assert_eq!(admitted, 20, "of fifty times as many");
    // What the hot user was refused was not taken from the route: it holds just enough for two others.
    for _ in 0..2 {
        assert_eq!(shop.orders(&stranger(), 20).await, (20, vec![]));
    }
    assert_eq!(shop.handled.load(Ordering::Relaxed), 60, "refusals reach no handler");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_route_refuses_everybody_and_takes_nothing_of_their_own() {
    let shop = Shop::open(rules(20, 30)).await;
    assert_eq!(shop.orders(&stranger(), 20).await.0, 20);
    let late = stranger();
    let (admitted, refused) = shop.orders(&late, 30).await;
    assert_eq!(admitted, 10);
    // Among requests at once, the look and the taking of others may interleave; one after the other they do not.
    assert!(
        refused.iter().all(|m| matches!(m.as_deref(), Some("rate_limit.route" | "rate_limit.user"))),
        "{refused:?}"
    );
    let newcomer = stranger();
    for _ in 0..30 {
        assert_eq!(problem(shop.order(&newcomer).send().await.unwrap()).await.mechanism.unwrap(), "rate_limit.route");
    }
    let listed = join_all((0..20).map(|_| shop.app.get("/v1/orders").bearer_auth(&newcomer).send())).await;
    assert!(listed.into_iter().all(|answer| answer.unwrap().status() == 200), "the newcomer's own quota is whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tier_and_an_override_raise_the_quota_and_an_unknown_tier_does_not() {
    let (named, mut rules) = (UserId::generate(), rules(5, MANY));
    rules.key_limits.user.tiers.insert("vip".into(), TierConfig { per_second: HARDLY_ANY, burst: 15, max_keys: None });
    rules.key_limits.user.overrides.insert(named.as_uuid(), Quota::new(HARDLY_ANY, 2));
    let shop = Shop::open(rules).await;
    let of_tier = |tier| tier_token(UserId::generate(), tier);
    for (token, expected) in [
        (stranger(), 5),
        (of_tier("vip"), 15),
        (of_tier("emperor"), 5),
        (user_token(named), 2),
        (tier_token(named, "vip"), 0),
    ] {
        assert_eq!(shop.orders(&token, 20).await.0, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn asking_after_an_order_has_a_quota_of_its_own() {
    let mut rules = rules(5, MANY);
    rules.key_limits.poll.default = Quota::new(HARDLY_ANY, 3);
    let shop = Shop::open(rules).await;
    let token = stranger();
    let ask = async || shop.app.get("/v1/orders/1").bearer_auth(&token).send().await.unwrap();
    for _ in 0..3 {
        assert_eq!(ask().await.status(), 200);
    }
    assert_eq!(problem(ask().await).await.mechanism.as_deref(), Some("rate_limit.poll"));
    assert_eq!(shop.orders(&token, 5).await.0, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_services_and_unknown_senders_use_up_no_users_quota() {
    let shop = Shop::open(rules(5, 5)).await;
    let caller = caller_token(Service::Payment);
    for _ in 0..50 {
        assert_eq!(shop.app.get("/v1/stock").bearer_auth(&caller).send().await.unwrap().status(), 200);
        assert_eq!(shop.order("no-token-of-ours").send().await.unwrap().status(), 401);
    }
    assert_eq!(shop.orders(&stranger(), 5).await.0, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sender_of_webhooks_has_a_quota_of_its_own() {
    let mut rules = rules(5, MANY);
    rules.key_limits.webhook.default = Quota::new(HARDLY_ANY, 3);
    let shop = Shop::open(rules).await;
    let notify = async || shop.app.post("/v1/webhooks/provider").send().await.unwrap();
    for _ in 0..3 {
        assert_eq!(notify().await.status(), 200);
    }
    let refused = notify().await;
    assert_eq!(refused.headers()["ratelimit-policy"], "\"webhook\";q=3;w=3000");
    assert_eq!(problem(refused).await.mechanism.as_deref(), Some("rate_limit.webhook"));
    assert_eq!(shop.orders(&stranger(), 5).await.0, 5);
    assert_eq!(shop.state().await["keys"]["webhook"]["keys"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_service_has_a_quota_of_its_own() {
    let mut rules = rules(5, MANY);
    rules.key_limits.caller.default = Quota::new(HARDLY_ANY, 3);
    let shop = Shop::open(rules).await;
    let ask = async |caller| shop.app.get("/v1/stock").bearer_auth(caller_token(caller)).send().await.unwrap();
    for _ in 0..3 {
        assert_eq!(ask(Service::Payment).await.status(), 200);
    }
    let refused = ask(Service::Payment).await;
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["ratelimit-policy"]),
        (429, &"\"caller\";q=3;w=3000".parse().unwrap())
    );
    assert_eq!(problem(refused).await.mechanism.as_deref(), Some("rate_limit.caller"));
    assert_eq!(ask(Service::Order).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tenant_has_a_quota_for_all_its_users() {
    let mut rules = rules(5, MANY);
    rules.key_limits.tenant.default = Quota::new(HARDLY_ANY, 7);
    let shop = Shop::open(rules).await;
    let of_tenant = |tenant| testkit::tenant_token(UserId::generate(), tenant);
    assert_eq!(shop.orders(&of_tenant("tea-house"), 5).await.0, 5);
    let (admitted, refused) = shop.orders(&of_tenant("tea-house"), 5).await;
    assert_eq!((admitted, refused[0].as_deref()), (2, Some("rate_limit.tenant")));
    assert_eq!(shop.orders(&of_tenant("coffee-house"), 5).await.0, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_governed_answer_states_its_limits_and_a_refusal_when_to_return() {
    let mut rules = rules(2, 50);
    rules.version = 17;
    let shop = Shop::open(rules).await;
    let token = stranger();
    let first = shop.order(&token).send().await.unwrap();
    let own = "\"user\";q=2;w=2000, \"route\";q=50;w=50000";
    assert_eq!(first.headers()["ratelimit-policy"], format!("{own}, \"quota.orders\";q=300;w=1"));
    let left = "\"user\";r=1;t=1000, \"route\";r=49;t=1000, \"quota.orders\";r=299;t=";
    assert!(first.headers()["ratelimit"].to_str().unwrap().starts_with(left), "{:?}", first.headers()["ratelimit"]);
    shop.order(&token).send().await.unwrap();
    let refused = shop.order(&token).send().await.unwrap();
    assert_eq!(refused.status(), 429);
    let number = |text: &str| text.parse::<u64>().unwrap();
    let retry_after = number(refused.headers()["retry-after"].to_str().unwrap());
    let limit = refused.headers()["ratelimit"].to_str().unwrap().to_owned();
    let reset = number(limit.strip_prefix("\"user\";r=0;t=").unwrap());
    assert!(retry_after >= reset && reset > 900, "{retry_after} {limit}");
    assert_eq!(refused.headers()["ratelimit-policy"], "\"user\";q=2;w=2000");
    let problem = problem(refused).await;
    assert_eq!((problem.kind, problem.rule_version), (ProblemType::RateLimited, Some(17)));
    assert!(problem.retryable && problem.retry_after_ms.unwrap().div_ceil(1_000) == retry_after, "{problem:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn under_pressure_sheddable_requests_are_refused_before_critical_ones() {
    let mut rules = Rules::default();
    rules.service.order = rules::Service { max_in_flight: 4, sheddable_share: 0.5 };
    let shop = Shop::open(rules).await;
    let page = || shop.app.get("/v1/products").bearer_auth(stranger());
    let cancel = || shop.app.post("/v1/orders/1/cancel").bearer_auth(stranger());
    let mut held = vec![shop.held(page()), shop.held(page())];
    shop.until_in_flight(2).await;

    let shed = page().send().await.unwrap();
    assert_eq!(shed.status(), 503);
    assert!(shed.headers().contains_key("retry-after") && shed.headers().contains_key(headers::REQUEST_ID));
    let told = problem(shed).await;
    assert_eq!((told.kind, told.mechanism.as_deref()), (ProblemType::Overloaded, Some("in_flight")));
    assert_eq!(told.rule_version, Some(0));

    // A caller outside can step back, and not push forward.
    let said = |request: RequestBuilder, word| async move {
        request.header(headers::CRITICALITY, word).send().await.unwrap().status().as_u16()
    };
    assert_eq!(said(page(), "critical").await, 503);
    assert_eq!(said(shop.order(&stranger()), "sheddable").await, 503);
    assert_eq!(said(shop.order(&stranger()), "critical").await, 200);
    assert_eq!(said(shop.order(&stranger()), "vital").await, 400);
    let stock = || shop.app.get("/v1/stock").bearer_auth(caller_token(Service::Payment));
    assert_eq!(said(stock(), "sheddable").await, 503);
    assert_eq!(said(stock(), "critical").await, 200);

    held.extend([shop.held(cancel()), shop.held(cancel())]);
    shop.until_in_flight(4).await;
    assert_eq!(shop.order(&stranger()).send().await.unwrap().status(), 503, "the cap holds for everybody");
    shop.go.add_permits(4);
    for answer in held {
        assert_eq!(answer.await.unwrap(), 200);
    }
    shop.until_in_flight(0).await;
    assert_eq!(shop.order(&stranger()).send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_may_raise_what_a_route_says_of_its_requests() {
    let mut rules = Rules::default();
    rules.service.order = rules::Service { max_in_flight: 2, sheddable_share: 0.5 };
    rules.route.entry("GET /v1/stock".into()).or_default().criticality = rules::Criticality::Sheddable;
    let shop = Shop::open(rules).await;
    let held = shop.held(shop.app.get("/v1/products").bearer_auth(stranger()));
    shop.until_in_flight(1).await;
    let stock = || shop.app.get("/v1/stock").bearer_auth(caller_token(Service::Payment));
    assert_eq!(stock().send().await.unwrap().status(), 503);
    assert_eq!(stock().header(headers::CRITICALITY, "critical").send().await.unwrap().status(), 200);
    shop.go.add_permits(1);
    assert_eq!(held.await.unwrap(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_can_have_a_cap_of_its_own() {
    let mut rules = Rules::default();
    rules.route.get_mut("POST /v1/orders/{order_id}/cancel").unwrap().max_in_flight = Some(1);
    let shop = Shop::open(rules).await;
    let cancel = || shop.app.post("/v1/orders/1/cancel").bearer_auth(stranger());
    let held = shop.held(cancel());
    shop.until_in_flight(1).await;
    assert_eq!(problem(cancel().send().await.unwrap()).await.mechanism.as_deref(), Some("in_flight"));
    assert_eq!(shop.order(&stranger()).send().await.unwrap().status(), 200);
    shop.go.add_permits(1);
    assert_eq!(held.await.unwrap(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_panics_gives_its_place_back() {
    let mut rules = Rules::default();
    rules.service.order.max_in_flight = 1;
    let shop = Shop::open(rules).await;
    for _ in 0..3 {
        assert_eq!(shop.app.get("/v1/panics").bearer_auth(stranger()).send().await.unwrap().status(), 500);
    }
    assert_eq!(shop.order(&stranger()).send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_rules_hold_at_once_and_forgive_nothing() {
    let shop = Shop::open(rules(MANY, 5)).await;
    let token = stranger();
    assert_eq!(shop.orders(&token, 9).await.0, 5);

    shop.rules.apply(Rules { version: 2, ..rules(MANY, 50) }, Origin::File);
    eventually("the new figure is in force", || async {
        (shop.state().await["routes"][Rules::PLACE_ORDER]["limit"] == 50).then_some(())
    })
    .await;
    let refused = problem(shop.order(&token).send().await.unwrap()).await;
    assert_eq!((refused.rule_version, refused.mechanism.as_deref()), (Some(2), Some("rate_limit.route")));

    let mut faster = rules(MANY, 50);
    faster.route.get_mut(Rules::PLACE_ORDER).unwrap().limit = LimiterConfig::TokenBucket(Quota::new(1_000.0, 50));
    shop.rules.apply(faster, Origin::File);
    eventually("orders are let in again", || async {
        (shop.order(&token).send().await.unwrap().status() == 200).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_counted_and_limiters_can_be_seen() {
    let shop = Shop::open(rules(3, 10)).await;
    shop.orders(&stranger(), 5).await;
    let state = shop.state().await;
    assert_eq!(
        state["routes"][Rules::PLACE_ORDER],
        json!({
            "kind": "token_bucket", "limit": 10, "window_ms": 10_000_000, "remaining": 7,
            "waiting": {"taken": 0, "limit": 100}
        })
    );
    assert_eq!((&state["keys"]["user"]["keys"], &state["keys"]["poll"]["keys"]), (&json!(1), &json!(0)));
    assert_eq!(state["in_flight"], json!({"taken": 0, "limit": 300, "sheddable_limit": 240}));
    let metrics = shop.app.client.get(shop.app.admin_url("/metrics")).send().await.unwrap().text().await.unwrap();
    for expected in [
        "stability_rate_limited_total{mechanism=\"rate_limit.user\"}",
        "stability_limiter_permits_available{mechanism=\"rate_limit.route\",route=\"POST /v1/orders\"}",
        "stability_limiter_keys{mechanism=\"rate_limit.user\"}",
        "http_inflight_limit",
        "http_inflight_requests",
    ] {
        assert!(metrics.contains(expected), "{expected} is missing in\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_comes_too_late_is_told_by_which_rules_and_uses_nothing_up() {
    let shop = Shop::open(Rules { version: 21, ..rules(5, 5) }).await;
    let token = stranger();
    for _ in 0..5 {
        let late = shop.order(&token).header(headers::EXPECTED_TIMEOUT_MS, "5").send().await.unwrap();
        assert_eq!(late.status(), 504);
        let told = problem(late).await;
        assert_eq!((told.kind, told.mechanism.as_deref()), (ProblemType::DeadlineExceeded, Some("deadline")));
        assert_eq!(told.rule_version, Some(21));
    }
    assert_eq!(shop.orders(&token, 5).await, (5, vec![]));
    assert_eq!(shop.handled.load(Ordering::Relaxed), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_from_further_in_that_names_its_mechanism_says_by_which_rules_as_well() {
    let shop = Shop::open(Rules { version: 22, ..Rules::default() }).await;
    let answer = shop.app.get("/v1/orders/1/history").bearer_auth(stranger()).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], headers::PROBLEM_JSON);
    assert!(answer.headers().contains_key("ratelimit"), "what was set on the way out stays");
    let told = problem(answer).await;
    assert_eq!((told.mechanism.as_deref(), told.rule_version), (Some("degrade.coupon"), Some(22)));

    let answer = shop.app.get("/v1/orders/1/busy").bearer_auth(stranger()).send().await.unwrap();
    let told = problem(answer).await;
    assert_eq!((told.mechanism.as_deref(), told.rule_version), (Some("idempotency"), Some(22)));
    assert!(told.retryable && told.retry_after_ms.is_some());
}
