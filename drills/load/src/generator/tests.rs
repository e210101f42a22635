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
        .map(|a| (a.request.number, a.request.attempt, a.outcome.to_string(), a.last, a.request.key.clone().unwrap()))
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
    assert_eq!(told, expected.map(|(n, attempt, outcome, last, key)| (n, attempt, outcome.into(), last, key.into())));
    // Its wait is from when it first wanted something, all of its pauses included.
    assert!(close(answers[2].latency(), ms(200)), "{:?}", answers[2].latency());
    assert_eq!((recording.arrivals(), recording.retries()), (3, 4));
    assert_eq!(recording.tally(0..9, |_, _| true).len(), 3);
    assert_eq!(Report::new(&recording, 1).retries, 4);
}

#[tokio::test(start_paused = true)]
async fn retries_delay_nobody_else_and_a_client_that_starts_over_has_a_new_key() {
    let plan = Plan { mix: "orders".parse().unwrap(), ..even(10.0, ms(1_000)) };
    let (recording, answers) = drive_crowd(persistent(&["timed_out"], true), &plan, |_| std::future::pending()).await;
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
