//! Sends what the plan says when the plan says it, whatever becomes of what was sent before.
//!
//! One task keeps the schedule and the books; each request is a task of its own, which notes for itself when it was
//! answered. So a slow book-keeper can delay a departure, which is measured as lag, but never lengthens a latency
//! unseen. A request that is due late leaves at once: arrivals are made up for, as the users who stand behind them
//! would not have gone away. What a client asks again because of an answer comes on top, and is counted apart.

use std::{future::Future, sync::Arc, time::Duration};

use chrono::Utc;
use contracts::OrderId;
use serde::Deserialize;
use tokio::{
    task::{JoinError, JoinSet},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    plan::Plan,
    recording::Recording,
    request::{Answer, Failure, Outcome, Reply, Request},
    shop::Shop,
};

/// What bounds the generator.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most requests in flight. One that is due beyond them is not sent, and counted as the generator's failing.
    pub max_in_flight: usize,
    /// How long a client waits for an answer, from when the request really left.
    pub timeout: Duration,
    /// If one request in a hundred leaves later than this after its time, the run says nothing about the system.
    pub max_lag: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // 400 requests a second that all run into the timeout.
            max_in_flight: 2_000,
            // What the gateway gives a user's request.
            timeout: Duration::from_secs(5),
            // Small against the timeouts of which drills speak, large against what two busy cores do to a timer.
            max_lag: Duration::from_millis(50),
        }
    }
}

/// Runs `plan` to its end or until `stop`, and waits for what is in flight then. `exchange` carries one request;
/// `sink` sees every answer in the order of arrival.
pub async fn run<E, F>(
    plan: &Plan,
    shop: &mut Shop,
    limits: Limits,
    exchange: E,
    mut sink: impl FnMut(&Answer),
    stop: &CancellationToken,
) -> Recording
where
    E: Fn(Arc<Request>) -> F,
    F: Future<Output = Result<Reply, Failure>> + Send + 'static,
{
    let start = Instant::now();
    let mut recording = Recording::new(limits);
    let mut in_flight = JoinSet::new();
    let send = |in_flight: &mut JoinSet<Answer>, request: Arc<Request>, intended: Duration, pause: Duration| {
        // Does nothing until it is polled, which is after the pause.
        let exchange = exchange(request.clone());
        in_flight.spawn(async move {
            if !pause.is_zero() {
                sleep(pause).await;
            }
            let sent = start.elapsed();
            let ended = timeout(limits.timeout, exchange).await;
            let answered = start.elapsed();
            judge(request, ended.ok(), Times { intended, sent, answered })
        });
    };
    let crowd = shop.crowd().clone();
    let mut note = |in_flight: &mut JoinSet<Answer>, recording: &mut Recording, shop: &mut Shop, done| {
        let mut answer = finished(done);
        let again = crowd.asks_again(&answer).filter(|_| !recording.stopped);
        answer.last = again.is_none();
        recording.answer(&answer);
        shop.remember(&answer);
        sink(&answer);
        if let Some(retry) = again {
            let request = Arc::new(answer.request.again(retry.new_key));
            send(in_flight, request, answer.intended, retry.pause);
        }
    };

    for call in plan.calls_of(&crowd) {
        let due = start + call.at;
        let wait = sleep_until(due);
        tokio::pin!(wait);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => recording.stopped = true,
                () = &mut wait => {}
                Some(done) = in_flight.join_next() => {
                    note(&mut in_flight, &mut recording, shop, done);
                    continue;
                }
            }
            break;
        }
        if recording.stopped {
            break;
        }
        // What has been answered is in flight no more, even if nobody had time to write it down.
        while let Some(done) = in_flight.try_join_next() {
            note(&mut in_flight, &mut recording, shop, done);
        }
        recording.arrival(call.at);
        if in_flight.len() >= limits.max_in_flight {
            recording.unsent(call.at);
            continue;
        }
        let request = Arc::new(shop.compose(&call));
        let sent = start.elapsed();
        send(&mut in_flight, request, call.at, Duration::ZERO);
        recording.sent(call.at, sent.saturating_sub(call.at), in_flight.len());
    }
    while let Some(done) = in_flight.join_next().await {
        note(&mut in_flight, &mut recording, shop, done);
    }
    recording.elapsed = start.elapsed();
    recording
}

struct Times {
    intended: Duration,
    sent: Duration,
    answered: Duration,
}

/// What the client knows of the order after this; everything else in a body is dropped here.
#[derive(Default, Deserialize)]
struct Glance {
    id: Option<OrderId>,
    order_id: Option<OrderId>,
    #[serde(rename = "type")]
    problem: Option<String>,
    /// An order's is a word, a problem's a number.
    status: Option<serde_json::Value>,
}

/// `ended` is `None` if the client gave up.
fn judge(request: Arc<Request>, ended: Option<Result<Reply, Failure>>, times: Times) -> Answer {
    let (outcome, replayed, body) = match ended {
        Some(Ok(reply)) => (Outcome::Status(reply.status), reply.replayed, Some(reply.body)),
        Some(Err(failure)) => (failure.into(), false, None),
        None => (Outcome::TimedOut, false, None),
    };
    // A list or a product has none of these fields, and a body that is no JSON says nothing.
    let glance: Glance = body.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
    Answer {
        request,
        outcome,
        last: true,
        replayed,
        order_id: glance.id.or(glance.order_id),
        order_status: glance.status.and_then(|status| status.as_str().map(str::to_owned)),
        problem: glance.problem,
        intended: times.intended,
        sent: times.sent,
        answered: times.answered,
        at: Utc::now(),
    }
}

/// No task is ever aborted, so one that did not finish has panicked; a defect of the exchange is not the system's.
fn finished(done: Result<Answer, JoinError>) -> Answer {
    match done {
        Ok(answer) => answer,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU32, sync::Mutex};

    use bytes::Bytes;
    use chassis::dev_secrets::AUTH_JWT_SECRET;
    use tokio::{sync::Semaphore, time::advance};

    use super::*;
    use crate::{
        arrivals::Process,
        crowd::{Crowd, Retry},
        mix::{Kind, Mix},
        profile::Profile,
        recording::Doubt,
        report::Report,
        users::Users,
    };

    const USERS: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// `rate` a second for `lasts`, evenly.
    fn even(rate: f64, lasts: Duration) -> Plan {
        let profile = Profile::steady(rate, lasts).unwrap();
        Plan { profile, process: Process::Uniform, mix: Mix::default(), users: USERS, seed: 1 }
    }

    fn shop() -> Shop {
        let users = Users::mint(USERS, 1, AUTH_JWT_SECRET, Duration::from_secs(60)).unwrap();
        Shop::new(users, vec!["TEA-1".into(), "TEA-2".into()], "tok_approve", "t").unwrap()
    }

    fn ok() -> Result<Reply, Failure> {
        Ok(Reply { status: 200, replayed: false, body: Bytes::from_static(b"{}") })
    }

    /// Runs with a transport of the test's own; gives the answers as they came.
    async fn drive<E, F>(plan: &Plan, limits: Limits, exchange: E) -> (Recording, Vec<Answer>)
    where
        E: Fn(Arc<Request>) -> F,
        F: Future<Output = Result<Reply, Failure>> + Send + 'static,
    {
        drive_shop(shop(), plan, limits, exchange).await
    }

    async fn drive_crowd<E, F>(crowd: Crowd, plan: &Plan, exchange: E) -> (Recording, Vec<Answer>)
    where
        E: Fn(Arc<Request>) -> F,
        F: Future<Output = Result<Reply, Failure>> + Send + 'static,
    {
        drive_shop(shop().with_crowd(crowd), plan, Limits::default(), exchange).await
    }

    async fn drive_shop<E, F>(mut shop: Shop, plan: &Plan, limits: Limits, exchange: E) -> (Recording, Vec<Answer>)
    where
        E: Fn(Arc<Request>) -> F,
        F: Future<Output = Result<Reply, Failure>> + Send + 'static,
    {
        let answers = Mutex::new(Vec::new());
        let sink = |answer: &Answer| answers.lock().unwrap().push(answer.clone());
        let recording = run(plan, &mut shop, limits, exchange, sink, &CancellationToken::new()).await;
        (recording, answers.into_inner().unwrap())
    }

    /// The timer has a resolution of a millisecond.
    fn close(a: Duration, b: Duration) -> bool {
        a.abs_diff(b) <= ms(2)
    }

    #[tokio::test(start_paused = true)]
    async fn arrivals_follow_the_schedule_of_the_seed_while_nothing_is_answered() {
        let plan = Plan { process: Process::Poisson, ..even(100.0, Duration::from_secs(3)) };
        let start = Instant::now();
        let sent = Mutex::new(Vec::new());
        let (recording, _) = drive(&plan, Limits::default(), |request| {
            sent.lock().unwrap().push((request.number, start.elapsed()));
            std::future::pending()
        })
        .await;
        let sent = sent.into_inner().unwrap();
        let calls: Vec<_> = plan.calls().collect();
        assert_eq!(sent.len(), calls.len());
        for (call, (number, at)) in calls.iter().zip(sent) {
            assert_eq!(call.number, number);
            assert!(close(call.at, at), "{number}: due at {:?}, sent at {at:?}", call.at);
        }
        assert_eq!(recording.arrivals(), calls.len() as u64);
        assert_eq!(recording.doubt(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_of_the_transport_is_felt_by_everybody_who_came_during_it() {
        // One connection; its first request takes a second, every other one nothing. A closed loop would have seen one
        // slow request and nineteen fast ones.
        let connection = Arc::new(Semaphore::new(1));
        let (recording, answers) = drive(&even(10.0, ms(2_000)), Limits::default(), |request| {
            let connection = connection.clone();
            async move {
                let _turn = connection.acquire().await;
                if request.number == 0 {
                    sleep(ms(1_000)).await;
                }
                ok()
            }
        })
        .await;
        assert_eq!(answers.len(), 20);
        for answer in &answers {
            let expected = ms(1_000).saturating_sub(answer.intended);
            assert!(close(answer.latency(), expected), "{:?} {:?}", answer.intended, answer.latency());
        }
        let slow = recording.tally(0..1, |_, _| true);
        assert!(slow.value_at_quantile(0.5) > 450_000, "{}", slow.value_at_quantile(0.5));
        let calm = recording.tally(1..2, |_, _| true);
        assert!(calm.max() < 10_000, "{}", calm.max());
    }

    #[tokio::test(start_paused = true)]
    async fn latency_counts_from_the_intended_start_when_the_generator_is_late() {
        // The clock jumps under the generator: requests 1 to 3, due at 100, 200 and 300 ms, can leave only at 350 ms.
        let (recording, answers) = drive(&even(10.0, ms(1_000)), Limits::default(), |request| async move {
            if request.number == 0 {
                advance(ms(350)).await;
            }
            ok()
        })
        .await;
        let late = |number| answers.iter().find(|answer| answer.request.number == number).unwrap();
        for (number, lateness) in [(1, 250), (2, 150), (3, 50), (4, 0)] {
            let answer = late(number);
            assert!(close(answer.latency(), ms(lateness)), "{number}: {:?}", answer.latency());
            assert!(close(answer.sent - answer.intended, ms(lateness)), "{number}: {:?}", answer.sent);
        }
        assert!(close(Duration::from_micros(recording.lag.max()), ms(251)), "{}", recording.lag.max());
        assert!(matches!(recording.doubt(), Some(Doubt::Late { p99 }) if p99 >= ms(249)), "{:?}", recording.doubt());
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_generator_says_so_and_blames_nobody() {
        let limits = Limits { max_in_flight: 5, ..Limits::default() };
        let (recording, answers) = drive(&even(10.0, ms(1_000)), limits, |_| async {
            sleep(ms(2_000)).await;
            ok()
        })
        .await;
        assert_eq!((recording.arrivals(), recording.saturated(), answers.len()), (10, 5, 5));
        assert_eq!(recording.doubt(), Some(Doubt::Saturated { unsent: 5, cap: 5 }));
        let report = Report::new(&recording, 1);
        assert_eq!((report.generator.saturated, report.generator.in_flight_peak, report.succeeded), (5, 5, 5));
        assert!(report.requests.iter().all(|row| row.outcome == Outcome::Status(200)), "{report}");
        assert!(report.to_string().contains("inconclusive: generator saturated: 5 requests"), "{report}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_answered_makes_room_for_what_comes() {
        // Each answer takes 150 ms and a request comes every 100 ms: never more than two at once.
        let limits = Limits { max_in_flight: 2, ..Limits::default() };
        let (recording, answers) = drive(&even(10.0, ms(5_000)), limits, |_| async {
            sleep(ms(150)).await;
            ok()
        })
        .await;
        assert_eq!((recording.saturated(), answers.len()), (0, 50));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_gives_up_after_its_timeout() {
        let (recording, answers) = drive(&even(2.0, ms(1_000)), Limits::default(), |_| std::future::pending()).await;
        for answer in &answers {
            assert_eq!(answer.outcome, Outcome::TimedOut);
            assert!(close(answer.latency(), ms(5_000)), "{:?}", answer.latency());
        }
        // Both belong to the second in which they were due; they were given up five seconds later.
        assert_eq!(recording.seconds[0].cells.values().map(|cell| cell.len()).sum::<u64>(), 2);
        assert_eq!(recording.seconds[5].answered, 2);
    }

    fn persistent(on: &[&str], new_key: bool) -> Crowd {
        let on = on.iter().map(|name| (*name).to_owned()).collect();
        Crowd { retry: Some(Retry { times: 2, pause: ms(100), on, new_key }), ..Crowd::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_asks_again_after_what_it_does_not_accept_and_is_one_request_to_the_record() {
        let plan = Plan { mix: "orders".parse().unwrap(), ..even(1.0, ms(3_000)) };
        // The first is refused for good, the second twice, the third never.
        let exchange = |request: Arc<Request>| async move {
            let refused = request.number == 0 || (request.number == 1 && request.attempt < 2);
            Ok(Reply { status: if refused { 503 } else { 201 }, replayed: false, body: Bytes::new() })
        };
        let (recording, answers) = drive_crowd(persistent(&["503"], false), &plan, exchange).await;
        let told: Vec<_> = answers
            .iter()
            .map(|a| {
                (a.request.number, a.request.attempt, a.outcome.to_string(), a.last, a.request.key.clone().unwrap())
            })
            .collect();
        let expected = [
            (0, 0, "503", false, "load-t-0"),
            (0, 1, "503", false, "load-t-0"),
            (0, 2, "503", true, "load-t-0"),
            (1, 0, "503", false, "load-t-1"),
            (1, 1, "503", false, "load-t-1"),
            (1, 2, "201", true, "load-t-1"),
            (2, 0, "201", true, "load-t-2"),
        ];
        assert_eq!(
            told,
            expected.map(|(n, attempt, outcome, last, key)| (n, attempt, outcome.into(), last, key.into()))
        );
        // Its wait is from when it first wanted something, all of its pauses included.
        assert!(close(answers[2].latency(), ms(200)), "{:?}", answers[2].latency());
        assert_eq!((recording.arrivals(), recording.retries()), (3, 4));
        assert_eq!(recording.tally(0..9, |_, _| true).len(), 3);
        assert_eq!(Report::new(&recording, 1).retries, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn retries_delay_nobody_else_and_a_client_that_starts_over_has_a_new_key() {
        let plan = Plan { mix: "orders".parse().unwrap(), ..even(10.0, ms(1_000)) };
        let (recording, answers) =
            drive_crowd(persistent(&["timed_out"], true), &plan, |_| std::future::pending()).await;
        assert_eq!((recording.arrivals(), recording.retries()), (10, 20));
        assert!(recording.lag.max() <= 2_000, "{}", recording.lag.max());
        let keys: Vec<_> = answers.iter().filter(|a| a.request.number == 3).map(|a| a.request.key.clone()).collect();
        assert_eq!(keys, ["load-t-3", "load-t-3~", "load-t-3~~"].map(|key| Some(key.to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_stop_nobody_asks_again() {
        let stop = CancellationToken::new();
        let after = stop.clone();
        tokio::spawn(async move {
            sleep(ms(50)).await;
            after.cancel();
        });
        let plan = even(1.0, ms(9_000));
        let mut shop = shop().with_crowd(persistent(&["broken"], false));
        let exchange = |_| async {
            sleep(ms(400)).await;
            Err(Failure::Broken)
        };
        let recording = run(&plan, &mut shop, Limits::default(), exchange, |_| {}, &stop).await;
        assert_eq!((recording.arrivals(), recording.retries()), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stopped_run_sends_nothing_more_and_waits_for_what_is_under_way() {
        let stop = CancellationToken::new();
        let after = stop.clone();
        tokio::spawn(async move {
            sleep(ms(450)).await;
            after.cancel();
        });
        let mut answers = 0;
        let exchange = |_| async {
            sleep(ms(1_000)).await;
            ok()
        };
        let plan = even(10.0, ms(60_000));
        let recording = run(&plan, &mut shop(), Limits::default(), exchange, |_| answers += 1, &stop).await;
        assert_eq!((recording.arrivals(), answers, recording.stopped), (5, 5, true));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_tells_which_order_it_speaks_of() {
        let order = OrderId::generate();
        let plan = Plan { mix: "orders".parse().unwrap(), ..even(4.0, ms(1_000)) };
        let (recording, answers) = drive(&plan, Limits::default(), |request| async move {
            let (status, body) = match request.number {
                0 => (201, format!(r#"{{"id":"{order}","status":"confirmed","items":[]}}"#)),
                1 => (402, format!(r#"{{"type":"urn:problem:payment-declined","status":402,"order_id":"{order}"}}"#)),
                2 => (500, "not JSON".to_owned()),
                _ => return Err(Failure::NotSent),
            };
            Ok(Reply { status, replayed: request.number == 0, body: body.into() })
        })
        .await;
        let told: Vec<_> = answers
            .iter()
            .map(|a| (a.outcome.to_string(), a.order_id, a.order_status.as_deref(), a.problem.as_deref(), a.replayed))
            .collect();
        assert_eq!(
            told,
            [
                ("201".to_owned(), Some(order), Some("confirmed"), None, true),
                ("402".to_owned(), Some(order), None, Some("urn:problem:payment-declined"), false),
                ("500".to_owned(), None, None, None, false),
                ("not_sent".to_owned(), None, None, None, false),
            ]
        );
        assert_eq!(recording.tally(0..9, |kind, outcome| kind == Kind::PlaceOrder && outcome.is_success()).len(), 1);
        let line = serde_json::to_value(&answers[0]).unwrap();
        assert_eq!((&line["key"], &line["outcome"]), (&"load-t-0".into(), &"201".into()));
        assert_eq!(line["body"]["payment_method"], "tok_approve");
        assert!(line.get("token").is_none(), "{line}");
    }
}
