//! What each end of a call is evidence of, from real sockets.

use std::time::Duration;

use chassis::{CallError, Downstream, NotSent, RequestContext};
use contracts::{ProblemType, headers};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Reply, Stub, stub::refusing_url};

fn rule() -> rules::Downstream {
    rules::Downstream { timeout: Duration::from_millis(300), ..rules::Downstream::default() }
}

fn callee(url: &str) -> Downstream {
    Downstream::new("callee", url, Some("secret"), &rule(), Duration::from_millis(20)).unwrap()
}

fn context(budget: u64) -> RequestContext {
    RequestContext::for_job("test", None, Duration::from_millis(budget))
}

async fn outcome(reply: Reply) -> (Result<Value, CallError>, usize) {
    let stub = Stub::start(move |_| reply.clone()).await;
    let answer = callee(&stub.url()).call::<(), Value>(&context(1_000), Method::POST, "/x", None, &[]).await;
    (answer.map(|answer| answer.body), stub.seen().len())
}

fn problem(kind: ProblemType) -> Reply {
    Reply::Json(kind.status(), serde_json::to_value(contracts::Problem::new(kind, "d")).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_an_answer() {
    assert_eq!(outcome(Reply::Json(200, json!(1))).await.0.unwrap(), json!(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_and_a_spent_budget_are_proof_that_nothing_was_sent() {
    let refused = callee(&refusing_url()).get::<Value>(&context(1_000), "/x").await;
    assert!(matches!(refused, Err(CallError::NotSent(NotSent::Connect))), "{refused:?}");
    let unresolved = callee("http://no-such-host.invalid").get::<Value>(&context(1_000), "/x").await;
    assert!(matches!(unresolved, Err(CallError::NotSent(NotSent::Connect))), "{unresolved:?}");

    let stub = Stub::start(|_| Reply::Json(200, json!(1))).await;
    let late = callee(&stub.url()).get::<Value>(&context(15), "/x").await;
    assert!(matches!(late, Err(CallError::NotSent(NotSent::Deadline))), "{late:?}");
    assert!(stub.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_ends_without_a_readable_answer_is_unknown_and_not_sent_again() {
    let endings = [
        Reply::Close,
        Reply::Truncated,
        Reply::Hang,
        Reply::Raw(200, "yes".into()),
        Reply::Raw(500, String::new()),
        Reply::Raw(503, "busy".into()),
        Reply::Raw(404, "nothing here".into()),
        Reply::Raw(408, String::new()),
        problem(ProblemType::StorageUnavailable),
        problem(ProblemType::Internal),
        problem(ProblemType::DeadlineExceeded),
        Reply::Json(302, json!({})),
    ];
    for ending in endings {
        let told = format!("{ending:?}");
        let (answer, seen) = outcome(ending).await;
        assert!(matches!(answer, Err(CallError::Unknown(_))), "{told}: {answer:?}");
        assert_eq!(seen, 1, "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_not_followed_since_it_would_send_the_charge_again() {
    let elsewhere = Stub::start(|_| Reply::Json(200, json!(1))).await;
    let to = vec![("location", elsewhere.url())];
    for status in [302, 307, 308] {
        let (answer, seen) = outcome(Reply::With(to.clone(), Box::new(Reply::Json(status, json!({}))))).await;
        assert!(matches!(answer, Err(CallError::Unknown(_))), "{status}: {answer:?}");
        assert_eq!((seen, elsewhere.seen().len()), (1, 0), "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_problem_that_says_no_is_a_refusal() {
    let refusals =
        [ProblemType::OutOfStock, ProblemType::RateLimited, ProblemType::PaymentNotDispatched, ProblemType::Overloaded];
    for kind in refusals {
        let (answer, _) = outcome(problem(kind)).await;
        assert!(matches!(&answer, Err(CallError::Refused(problem)) if problem.kind == kind), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_takes_no_longer_than_the_budget_and_says_how_much_there_is() {
    let stub = Stub::start(|_| Reply::Hang).await;
    let answer = callee(&stub.url()).get::<Value>(&context(120), "/x").await;
    assert!(matches!(answer, Err(CallError::Unknown(_))));
    let seen = &stub.seen()[0];
    let told: u64 = seen.header(headers::EXPECTED_TIMEOUT_MS).unwrap().parse().unwrap();
    assert!(told <= 100, "20 ms of 120 are kept in reserve, and {told} ms were given on");
    assert_eq!(seen.header("authorization"), Some("Bearer secret"));
    assert_eq!(seen.header(headers::RETRY_BUDGET), Some("0"), "the purse stays where the callee calls nobody");
    assert!(seen.header(headers::TRACEPARENT).is_some() && seen.header(headers::REQUEST_ID).is_some());
}
