//! A provider that has become slow costs its own bulkhead, and nobody else anything.

use std::time::Duration;

use contracts::Service;
use load::{Answer, Outcome, Process, mix::Kind};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    audit,
    system::{System, turn},
    traffic,
};

/// Windows and waits shortened to what a test can wait for. The provider's own breaker is kept out, which would
/// otherwise open for the timeouts before order's opens for slowness; so are failures as a reason for order's, since on a
/// busy machine some of what is slow times out as well; and inventory's retries, which such a machine provokes.
const RULES: &str = r#"
[downstream.payment.breaker]
window = { calls = 20 }
failure_ratio = 1.0
open_ms = 1000
[downstream.payment.breaker.ramp]
steps = [{ percent = 10, duration_ms = 3000 }, { percent = 30, duration_ms = 3000 }, { percent = 100, duration_ms = 2000 }]
[downstream.provider.breaker]
failure_ratio = 1.0
slow_ratio = 1.0
[downstream.inventory]
attempt_timeout_ms = 350
[downstream.inventory.breaker]
slow_threshold_ms = 300
"#;

/// Requests a second, a third of them orders: two seconds of them are what the bulkhead holds. A slow machine of two cores
/// bears no more.
const RATE: f64 = 60.0;
const HEALTHY: Duration = Duration::from_secs(6);
const SLOW: Duration = Duration::from_secs(8);
const LOOK: Duration = Duration::from_millis(50);
/// Orders that arrive between a look at order and one at payment, at either end of a step.
const SLACK: f64 = 6.0;
/// Latencies below this are not told apart.
const FLOOR: Duration = Duration::from_millis(20);

/// What was seen of order's way to payment at one moment.
struct Look {
    at: Duration,
    in_flight: u64,
    state: String,
    reason: Value,
    percent: Option<u64>,
    /// Orders that have arrived, and charges that have reached payment, since the start.
    orders: f64,
    charges: f64,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_provider_fills_its_bulkhead_opens_the_breaker_and_slows_no_reader() {
    let system = turn().await;
    system.rule(71, RULES).await;
    let mix = "place_order=1,read_order=1,product_page=1";
    let plan = traffic::steady(RATE, Duration::from_secs(90), Process::Uniform, mix, 7);
    let stop = CancellationToken::new();
    let (answers, (looks, slowed, released)) = tokio::join!(traffic::send(&system, &plan, &stop), async {
        let seen = watch(&system).await;
        stop.cancel();
        seen
    });
    system.rule(72, "").await;
    audit::clean(&system).await;

    let in_flight = looks.iter().map(|look| look.in_flight).max().unwrap();
    let cap = rules::Rules::default().downstream.payment.bulkhead.cap;
    assert!(in_flight <= u64::from(cap), "{in_flight} in flight to payment");
    assert!(in_flight >= u64::from(cap) / 2, "the provider was never felt to be slow: {in_flight} in flight");

    let opened = looks.iter().find(|look| look.state == "open").expect("the breaker opened");
    assert_eq!(opened.reason["kind"], "slow_ratio", "{}", opened.reason);
    for percent in [10, 30] {
        let (charges, orders) = at_step(&looks, released, percent);
        println!("at {percent} %: {charges} of {orders} orders reached payment");
        assert!(charges <= orders * percent as f64 / 100.0 + SLACK, "{charges} of {orders} at {percent} %");
    }

    let during = |answer: &Answer| answer.intended >= slowed && answer.intended < released;
    for kind in [Kind::ReadOrder, Kind::ProductPage] {
        let all = || answers.iter().filter(|answer| answer.request.kind == kind);
        let failed = all().filter(|answer| answer.outcome != Outcome::Status(200)).count();
        // One in a hundred is what a busy machine may cost.
        assert!(failed * 100 <= all().count(), "{failed} of {} times {kind} failed", all().count());
        let before = Latencies::of(all().filter(|answer| answer.intended < slowed));
        let meanwhile = Latencies::of(all().filter(|answer| during(answer)));
        let [usual, now] = [&before, &meanwhile].map(|latencies| latencies.share(0.5).unwrap());
        // Whoever stood behind the provider would wait two seconds. What is below the floor is the machine's own noise.
        assert!(now <= 5 * usual.max(FLOOR), "{kind}: {usual:?} before, {now:?} while the provider was slow");
        let [usual, now] = [before, meanwhile].map(|latencies| latencies.share(0.99).unwrap());
        println!("{kind}: p99 {usual:?} before, {now:?} while the provider was slow");
    }
    let orders = || answers.iter().filter(|answer| answer.request.kind == Kind::PlaceOrder);
    for answer in orders() {
        let honest = matches!(answer.outcome, Outcome::Status(201 | 202 | 503));
        assert!(honest, "an order due at {:?} was answered {}", answer.intended, answer.outcome);
    }
    let confirmed = orders().filter(|answer| answer.outcome == Outcome::Status(201)).count();
    println!(
        "in flight to payment: {in_flight} of {cap}; {confirmed} of {} orders confirmed at once",
        orders().count()
    );
}

/// Makes the provider slow and well again, and watches until order's breaker has closed: the looks, and when it began
/// and ended.
async fn watch(system: &System) -> (Vec<Look>, Duration, Duration) {
    let start = Instant::now();
    let (mut looks, mut slowed, mut released) = (Vec::new(), None, None);
    loop {
        let now = start.elapsed();
        if slowed.is_none() && now >= HEALTHY {
            system.provider_behaves(&json!({"latency_ms": 2_000})).await;
            slowed = Some(now);
        }
        if released.is_none() && now >= HEALTHY + SLOW {
            system.provider_behaves(&json!({"latency_ms": 0})).await;
            released = Some(now);
        }
        looks.push(look(system, start).await);
        if let (Some(slowed), Some(released)) = (slowed, released)
            && looks.last().is_some_and(|look| look.state == "closed")
        {
            return (looks, slowed, released);
        }
        assert!(now < Duration::from_secs(80), "the breaker did not close again");
        sleep(LOOK).await;
    }
}

async fn look(system: &System, start: Instant) -> Look {
    let state = system.state(Service::Order).await;
    let payment = &state["state"]["downstream"]["payment"];
    let requests = async |service, labels: &[&str]| system.metric_of(service, "http_requests_total", labels).await;
    let orders = requests(Service::Order, &["route=\"/v1/orders\"", "method=\"POST\""]).await;
    let charges = requests(Service::Payment, &["route=\"/v1/payments/{attempt_id}\"", "method=\"PUT\""]).await;
    Look {
        at: start.elapsed(),
        in_flight: payment["bulkhead"]["in_flight"].as_u64().unwrap(),
        state: payment["breaker"]["state"].as_str().unwrap().to_owned(),
        reason: payment["breaker"]["reason"].clone(),
        percent: payment["breaker"]["ramp"]["percent"].as_u64(),
        orders,
        charges,
    }
}

/// How many orders arrived, and how many of them reached payment, while the ramp stood at `percent` for the first time.
fn at_step(looks: &[Look], released: Duration, percent: u64) -> (f64, f64) {
    let there = |look: &&Look| look.at > released && look.percent == Some(percent);
    // It may fall back and come again.
    let step: Vec<&Look> = looks.iter().skip_while(|look| !there(look)).take_while(there).collect();
    let (Some(first), Some(last)) = (step.first(), step.last()) else {
        panic!("the ramp was never seen at {percent} %");
    };
    (last.charges - first.charges, last.orders - first.orders)
}

/// Sorted.
struct Latencies(Vec<Duration>);

impl Latencies {
    fn of<'a>(answers: impl Iterator<Item = &'a Answer>) -> Self {
        let mut latencies: Vec<Duration> = answers.map(Answer::latency).collect();
        latencies.sort_unstable();
        Self(latencies)
    }

    /// What this share of them stayed below.
    fn share(&self, share: f64) -> Option<Duration> {
        let last = self.0.len().checked_sub(1)?;
        self.0.get((last as f64 * share) as usize).copied()
    }
}
