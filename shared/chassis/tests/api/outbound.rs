//! The guards around a call, from real sockets: what they let through, what they refuse, and what they learn from it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use chassis::{CallError, Downstream, Lifecycle, NotSent, RequestContext, downstream::Answer};
use contracts::{Problem, ProblemType, headers};
use reqwest::Method;
use resilience::{
    BreakerConfig, BulkheadConfig, RampConfig,
    breaker::{State, Window},
    ramp::RampStep,
    rate_limit::{LimiterConfig, Quota},
    retry::{Purse, RetryConfig},
};
use rules::{Origin, Rules, RulesHandle};
use serde_json::{Value, json};
use testkit::{Reply, Stub, eventually, stub::refusing_url};
use tokio::{runtime::Handle, sync::Semaphore, task::JoinSet};

pub const MS: Duration = Duration::from_millis(1);
const RESERVE: Duration = Duration::from_millis(20);

/// Opens at the fourth failure; retries nearly at once.
fn rule() -> rules::Downstream {
    rules::Downstream {
        timeout: 2_000 * MS,
        attempt_timeout: 500 * MS,
        breaker: BreakerConfig { window: Window::Calls(10), minimum_calls: 4, ..BreakerConfig::default() },
        retry: RetryConfig { base: MS, max: MS, ..RetryConfig::default() },
        ..rules::Downstream::default()
    }
}

pub fn callee(url: &str, rule: &rules::Downstream) -> Downstream {
    Downstream::new("callee", url, Some("secret"), rule, RESERVE).unwrap()
}

pub fn context(budget: u32) -> RequestContext {
    RequestContext::for_job("test", None, budget * MS)
}

async fn put(callee: &Downstream, context: &RequestContext) -> Result<Answer<Value>, CallError> {
    callee.call::<(), Value>(context, Method::PUT, "/x", None, &[]).await
}

pub async fn put_repeatable(callee: &Downstream, context: &RequestContext) -> Result<Answer<Value>, CallError> {
    callee.call_repeatable::<(), Value>(context, Method::PUT, "/x", None).await
}

fn problem(kind: ProblemType) -> Reply {
    Reply::Json(kind.status(), serde_json::to_value(Problem::new(kind, "d")).unwrap())
}

pub fn ok() -> Reply {
    Reply::Json(200, json!(1))
}

/// Answers with each of `replies` in turn, then with the last for ever.
async fn in_turn(replies: Vec<Reply>) -> Stub {
    let next = AtomicUsize::new(0);
    Stub::start(move |_| {
        let turn = next.fetch_add(1, Ordering::Relaxed).min(replies.len() - 1);
        replies[turn].clone()
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_calls_run_at_once_than_the_bulkhead_allows_and_the_rest_is_not_sent() {
    let stub = Stub::start(|_| Reply::Late(300 * MS, Box::new(ok()))).await;
    let bulkhead = BulkheadConfig { cap: 3, wait: 10 * MS, max_waiting: 2 };
    let callee = callee(&stub.url(), &rules::Downstream { bulkhead, ..rule() });
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let callee = callee.clone();
        calls.spawn(async move { put(&callee, &context(2_000)).await });
    }
    let ends = calls.join_all().await;
    let refused = ends.iter().filter(|end| matches!(end, Err(CallError::NotSent(NotSent::BulkheadFull)))).count();
    let answered = ends.iter().filter(|end| end.is_ok()).count();
    assert_eq!((answered, refused, stub.seen().len()), (3, 17, 3));
    let snapshot = callee.snapshot();
    assert_eq!((snapshot.bulkhead.in_flight, snapshot.bulkhead.rejected), (0, 17));
    assert_eq!((snapshot.breaker.failures, snapshot.breaker.calls), (0, 3), "a refusal of ours is no verdict");
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_open_the_breaker_which_then_sends_nothing_and_is_not_retried() {
    let stub = Stub::start(|_| Reply::Raw(500, String::new())).await;
    let callee = callee(&stub.url(), &rule());
    for _ in 0..4 {
        assert!(matches!(put(&callee, &context(1_000)).await, Err(CallError::Unknown(_))));
    }
    assert_eq!(callee.snapshot().breaker.state, State::Open);
    let context = context(1_000);
    let refused = put_repeatable(&callee, &context).await;
    assert!(matches!(refused, Err(CallError::NotSent(NotSent::BreakerOpen))), "{refused:?}");
    assert_eq!((stub.seen().len(), context.purse.left()), (4, 3));
    assert_eq!(callee.snapshot().retry_budget.retries, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_breaker_that_opens_with_a_try_ends_the_call() {
    let stub = Stub::start(|_| Reply::Close).await;
    let retry = RetryConfig { max_retries: 10, ..rule().retry };
    let callee = callee(&stub.url(), &rules::Downstream { retry, ..rule() });
    let context = RequestContext { purse: Purse::new(10), ..context(2_000) };
    let end = put_repeatable(&callee, &context).await;
    assert!(matches!(end, Err(CallError::Unknown(_))), "{end:?}");
    assert_eq!((stub.seen().len(), callee.snapshot().breaker.state), (4, State::Open));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callee_that_has_recovered_gets_its_traffic_back_in_steps() {
    let stub = Stub::start(|_| Reply::Close).await;
    let steps = vec![RampStep { percent: 50, duration: Duration::from_secs(600) }];
    let ramp = RampConfig { steps, ..RampConfig::default() };
    let breaker = BreakerConfig { open: 50 * MS, probes: 2, ramp, ..rule().breaker };
    let callee = callee(&stub.url(), &rules::Downstream { breaker, ..rule() });
    for _ in 0..4 {
        put(&callee, &context(1_000)).await.unwrap_err();
    }
    stub.behave(|_| ok());
    eventually("the probes go through", async || {
        drop(put(&callee, &context(1_000)).await);
        (callee.snapshot().breaker.state == State::Ramping).then_some(())
    })
    .await;
    let before = stub.seen().len();
    let mut held = 0;
    for _ in 0..10 {
        match put(&callee, &context(1_000)).await {
            Ok(_) => {}
            Err(CallError::NotSent(NotSent::BreakerOpen)) => held += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((held, stub.seen().len() - before), (5, 5));
    assert_eq!(callee.snapshot().breaker.ramp.map(|ramp| ramp.percent), Some(50));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_failure_counts_and_no_kind_of_no_does() {
    let failures =
        [Reply::Close, Reply::Truncated, Reply::Raw(200, "?".into()), Reply::Hang, problem(ProblemType::Internal)];
    let short = rules::Downstream { attempt_timeout: 200 * MS, timeout: 200 * MS, ..rule() };
    for reply in failures {
        let told = format!("{reply:?}");
        let stub = Stub::start(move |_| reply.clone()).await;
        let callee = callee(&stub.url(), &short);
        put(&callee, &context(2_000)).await.unwrap_err();
        let breaker = callee.snapshot().breaker;
        assert_eq!((breaker.calls, breaker.failures), (1, 1), "{told}");
    }
    let nobody = callee(&refusing_url(), &short);
    put(&nobody, &context(2_000)).await.unwrap_err();
    assert_eq!(nobody.snapshot().breaker.failures, 1);

    for kind in [ProblemType::OutOfStock, ProblemType::PaymentNotDispatched, ProblemType::PaymentFenced] {
        let stub = Stub::start(move |_| problem(kind)).await;
        let callee = callee(&stub.url(), &short);
        put(&callee, &context(2_000)).await.unwrap_err();
        let breaker = callee.snapshot().breaker;
        assert_eq!((breaker.calls, breaker.failures), (1, 0), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_leaves_and_a_deadline_of_ours_say_nothing_about_the_callee() {
    let stub = Stub::start(|_| Reply::Hang).await;
    let callee = callee(&stub.url(), &rule());
    let call = tokio::spawn({
        let callee = callee.clone();
        async move { put(&callee, &context(2_000)).await.map(drop) }
    });
    eventually("the request arrives", async || (stub.seen().len() == 1).then_some(())).await;
    assert_eq!(callee.snapshot().bulkhead.in_flight, 1);
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    let left = callee.snapshot();
    assert_eq!((left.bulkhead.in_flight, left.breaker.calls), (0, 0));

    let late = put(&callee, &context(100)).await;
    assert!(matches!(late, Err(CallError::Unknown(_))), "{late:?}");
    assert_eq!((stub.seen().len(), callee.snapshot().breaker.calls), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rate_limit_of_the_rule_holds_calls_back_without_blaming_the_callee() {
    let stub = Stub::start(|_| ok()).await;
    let limit = LimiterConfig::TokenBucket(Quota::new(0.1, 1));
    let callee = callee(&stub.url(), &rules::Downstream { limit, ..rule() });
    put(&callee, &context(1_000)).await.unwrap();
    let second = put_repeatable(&callee, &context(1_000)).await;
    assert!(matches!(second, Err(CallError::NotSent(NotSent::RateLimited))), "{second:?}");
    assert_eq!((stub.seen().len(), callee.snapshot().breaker.calls), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_call_that_is_declared_repeatable_is_sent_again() {
    for failure in [Reply::Raw(503, String::new()), Reply::Close, problem(ProblemType::Overloaded)] {
        let told = format!("{failure:?}");
        // A callee that says nothing about when to come back.
        let failure = match failure {
            Reply::Json(status, mut body) => {
                body.as_object_mut().unwrap().remove("retry_after_ms");
                Reply::Json(status, body)
            }
            other => other,
        };
        let stub = in_turn(vec![failure.clone(), ok()]).await;
        let repeatable = context(1_000);
        put_repeatable(&callee(&stub.url(), &rule()), &repeatable).await.unwrap();
        assert_eq!((stub.seen().len(), repeatable.purse.left()), (2, 2), "{told}");

        let stub = in_turn(vec![failure.clone(), ok()]).await;
        callee(&stub.url(), &rule()).get::<Value>(&context(1_000), "/x").await.unwrap();
        assert_eq!(stub.seen().len(), 2, "{told}");

        let stub = in_turn(vec![failure, ok()]).await;
        let once = context(1_000);
        put(&callee(&stub.url(), &rule()), &once).await.unwrap_err();
        assert_eq!((stub.seen().len(), once.purse.left()), (1, 3), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_is_tried_again_as_often_as_the_rule_says() {
    let callee =
        callee(&refusing_url(), &rules::Downstream { retry: RetryConfig { max_retries: 1, ..rule().retry }, ..rule() });
    let context = context(1_000);
    let end = put_repeatable(&callee, &context).await;
    assert!(matches!(end, Err(CallError::NotSent(NotSent::Connect))), "{end:?}");
    assert_eq!((context.purse.left(), callee.snapshot().breaker.failures), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_is_not_asked_for_twice() {
    let stub = Stub::start(|_| problem(ProblemType::OutOfStock)).await;
    let end = put_repeatable(&callee(&stub.url(), &rule()), &context(1_000)).await;
    assert!(matches!(end, Err(CallError::Refused(_))), "{end:?}");
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callee_that_says_when_to_come_back_is_left_alone_until_then() {
    let busy = |ms| {
        let problem = Problem::new(ProblemType::Overloaded, "d").with_retry_after_ms(ms);
        Reply::Json(503, serde_json::to_value(problem).unwrap())
    };
    let stub = in_turn(vec![busy(150), ok()]).await;
    let started = tokio::time::Instant::now();
    put_repeatable(&callee(&stub.url(), &rule()), &context(1_000)).await.unwrap();
    assert!(started.elapsed() >= 150 * MS, "{:?}", started.elapsed());

    let stub = in_turn(vec![busy(5_000), ok()]).await;
    let end = put_repeatable(&callee(&stub.url(), &rule()), &context(1_000)).await;
    assert!(matches!(end, Err(CallError::Refused(_))), "{end:?}");
    assert_eq!(stub.seen().len(), 1, "there is no time to wait that long");

    // The header alone, as a proxy sends it.
    let away = Reply::With(vec![("retry-after", "60".into())], Box::new(Reply::Raw(503, String::new())));
    let stub = in_turn(vec![away, ok()]).await;
    put_repeatable(&callee(&stub.url(), &rule()), &context(1_000)).await.unwrap_err();
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_try_in_doubt_leaves_the_whole_call_in_doubt() {
    let stub = in_turn(vec![Reply::Close, problem(ProblemType::OutOfStock)]).await;
    let end = put_repeatable(&callee(&stub.url(), &rule()), &context(1_000)).await;
    assert!(matches!(end, Err(CallError::Unknown(_))), "{end:?}");
    assert_eq!(stub.seen().len(), 2);

    // A question has no effect: its last answer counts.
    let stub = in_turn(vec![Reply::Close, problem(ProblemType::NotFound)]).await;
    let end = callee(&stub.url(), &rule()).get::<Value>(&context(1_000), "/x").await;
    assert!(matches!(end, Err(CallError::Refused(_))), "{end:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_in_doubt_followed_by_one_that_our_own_guard_refuses_stays_in_doubt() {
    let stub = Stub::start(|_| Reply::Close).await;
    let limit = LimiterConfig::TokenBucket(Quota::new(0.1, 1));
    let callee = callee(&stub.url(), &rules::Downstream { limit, ..rule() });
    let end = put_repeatable(&callee, &context(1_000)).await;
    assert!(matches!(end, Err(CallError::Unknown(_))), "{end:?}");
    assert_eq!((stub.seen().len(), callee.snapshot().retry_budget.retries), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_purse_goes_out_with_a_call_and_only_an_answer_brings_it_back() {
    let passing = rules::Downstream { passes_purse: true, ..rule() };
    let stub = Stub::start(|_| Reply::Close).await;
    let lost = context(1_000);
    put_repeatable(&callee(&stub.url(), &passing), &lost).await.unwrap_err();
    let seen = stub.seen();
    assert_eq!(seen.len(), 1, "the callee may have spent all of it");
    assert_eq!(seen[0].header(headers::RETRY_BUDGET), Some("3"));
    assert_eq!(lost.purse.left(), 0);

    let unsent = context(1_000);
    put(&callee(&refusing_url(), &passing), &unsent).await.unwrap_err();
    assert_eq!(unsent.purse.left(), 3);
}

/// A hop between two others: calls `next` for whatever it is asked, and hands its purse back.
async fn hop(next: String, rule: rules::Downstream) -> (Stub, Downstream) {
    let onward = callee(&next, &rule);
    let within = onward.clone();
    let stub = Stub::asking(move |seen| {
        let budget = seen.header(headers::RETRY_BUDGET).unwrap().parse().unwrap();
        let context = RequestContext { purse: Purse::new(budget), ..context(3_000) };
        let onward = within.clone();
        async move {
            let ok = put_repeatable(&onward, &context).await.is_ok();
            let left = context.purse.handed_back(ok).to_string();
            let answer = if ok { self::ok() } else { Reply::Raw(502, String::new()) };
            Reply::With(vec![(headers::RETRY_LEFT, left)], Box::new(answer))
        }
    })
    .await;
    (stub, onward)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn three_willing_hops_together_retry_no_more_than_the_purse_allows() {
    let last = Stub::start(|_| Reply::Raw(500, String::new())).await;
    let willing = || rules::Downstream {
        retry: RetryConfig { max_retries: 5, ..rule().retry },
        breaker: BreakerConfig { minimum_calls: 10, ..rule().breaker },
        timeout: 3_000 * MS,
        attempt_timeout: 3_000 * MS,
        passes_purse: true,
        ..rule()
    };
    // The innermost calls one that calls nobody.
    let (second, _) = hop(last.url(), rules::Downstream { passes_purse: false, ..willing() }).await;
    let (first, _) = hop(second.url(), willing()).await;
    let context = context(5_000);
    put_repeatable(&callee(&first.url(), &willing()), &context).await.unwrap_err();
    assert_eq!(last.seen().len(), 4, "one call, and the three retries of the chain");
    assert_eq!((first.seen().len(), second.seen().len()), (1, 1), "only the hop next to the failure tried again");
    assert_eq!(context.purse.left(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_rules_takes_effect_and_what_was_learnt_stays() {
    let stub = Stub::start(|_| Reply::Raw(500, String::new())).await;
    let mut rules = Rules::default();
    rules.downstream.coupon = rule();
    let handle = RulesHandle::new(rules.clone(), Origin::Default);
    let lifecycle = Lifecycle::new(Handle::current());
    let callee = Downstream::live("live", &stub.url(), None, &handle, |rules| &rules.coupon, &lifecycle).unwrap();
    for _ in 0..3 {
        put(&callee, &context(1_000)).await.unwrap_err();
    }
    rules.downstream.coupon.bulkhead = BulkheadConfig { cap: 7, ..rule().bulkhead };
    rules.downstream.coupon.limit =
        LimiterConfig::LeakyBucket(resilience::rate_limit::LeakyBucketConfig { per_second: 500.0, max_wait: 50 * MS });
    rules.downstream.coupon.connect_timeout = 50 * MS;
    handle.apply(rules, Origin::File);
    eventually("the new rule is in force", async || (callee.snapshot().limit.kind == "leaky_bucket").then_some(()))
        .await;
    let snapshot = callee.snapshot();
    assert_eq!((snapshot.bulkhead.cap, snapshot.breaker.failures), (7, 3));
    put(&callee, &context(1_000)).await.unwrap_err();
    assert_eq!(callee.snapshot().breaker.state, State::Open, "the fourth failure, as before the change");
    lifecycle.stop_background().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_for_the_metrics_is_told_what_is_in_flight_at_that_moment() {
    chassis::telemetry::metrics();
    let held = Arc::new(Semaphore::new(0));
    let gate = held.clone();
    let stub = Stub::start(move |_| Reply::Held(gate.clone(), Box::new(ok()))).await;
    let mut rules = Rules::default();
    rules.downstream.coupon = rules::Downstream { timeout: 20_000 * MS, attempt_timeout: 20_000 * MS, ..rule() };
    let handle = RulesHandle::new(rules, Origin::Default);
    let lifecycle = Lifecycle::new(Handle::current());
    let callee = Downstream::live("gauged", &stub.url(), None, &handle, |rules| &rules.coupon, &lifecycle).unwrap();
    let in_flight = |count: u32| {
        lifecycle.measure();
        let line = format!("stability_bulkhead_in_flight{{downstream=\"gauged\"}} {count}");
        chassis::telemetry::metrics().render().lines().any(|found| found == line)
    };
    assert!(in_flight(0));
    let call = tokio::spawn(async move { put(&callee, &context(20_000)).await });
    eventually("the call is there", async || (!stub.seen().is_empty()).then_some(())).await;
    assert!(in_flight(1));
    held.add_permits(1);
    call.await.unwrap().unwrap();
    assert!(in_flight(0));
    lifecycle.stop_background().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_tell_what_the_guards_did() {
    chassis::telemetry::metrics();
    let stub = Stub::start(|_| Reply::Raw(500, String::new())).await;
    let callee = Downstream::new("measured", &stub.url(), None, &rule(), RESERVE).unwrap();
    for _ in 0..2 {
        put_repeatable(&callee, &context(1_000)).await.unwrap_err();
    }
    let text = chassis::telemetry::metrics().render();
    let has = |line: &str| assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    has(r#"stability_breaker_state{downstream="measured"} 1"#);
    has(r#"stability_breaker_open_total{downstream="measured"} 1"#);
    has(r#"stability_bulkhead_in_flight{downstream="measured"} 0"#);
    has(r#"stability_retry_total{downstream="measured",outcome="failed"} 2"#);
    has(r#"downstream_request_duration_seconds_count{downstream="measured",outcome="unknown"} 4"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_holds_a_breaker_by_rule_while_the_service_runs() {
    let stub = Stub::start(|_| Reply::Raw(500, String::new())).await;
    let lifecycle = Lifecycle::new(Handle::current());
    let mut set = Rules::default();
    set.downstream.coupon = rules::Downstream { retry: RetryConfig { max_retries: 0, ..rule().retry }, ..rule() };
    let handle = RulesHandle::new(set.clone(), Origin::Default);
    let callee = Downstream::live("coupon", &stub.url(), None, &handle, |rules| &rules.coupon, &lifecycle).unwrap();
    let mut hold = async |forced: &str, expected: State| {
        let text = format!("[downstream.coupon.breaker]\nforced = \"{forced}\"");
        set.downstream.coupon.breaker.forced =
            Rules::from_toml(&text).map_or(None, |r| r.downstream.coupon.breaker.forced);
        handle.apply(set.clone(), Origin::File);
        eventually("the rule is in force", async || (callee.snapshot().breaker.state == expected).then_some(())).await;
    };
    hold("open", State::ForcedOpen).await;
    let refused = put(&callee, &context(1_000)).await;
    assert!(matches!(refused, Err(CallError::NotSent(NotSent::BreakerOpen))), "{refused:?}");
    assert!(stub.seen().is_empty());

    hold("closed", State::ForcedClosed).await;
    for _ in 0..10 {
        assert!(matches!(put(&callee, &context(1_000)).await, Err(CallError::Unknown(_))));
    }
    assert_eq!((stub.seen().len(), callee.snapshot().breaker.failures), (10, 10), "counted, and opens nothing");

    // Released, the next failure is one too many.
    hold("neither", State::Closed).await;
    assert!(matches!(put(&callee, &context(1_000)).await, Err(CallError::Unknown(_))));
    assert_eq!(callee.snapshot().breaker.state, State::Open);
    lifecycle.stop_background().await;
}
