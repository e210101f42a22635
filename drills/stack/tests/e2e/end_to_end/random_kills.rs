//! A thousand orders while random processes are killed every two seconds: quiet a minute after the last kill, and not
//! one of them lost, charged twice or forgotten.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use load::{Answer, Http, Limits, Process, Request};
use rand::{SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::json;
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;

use super::{
    audit,
    shop::logged,
    system::{System, WITHOUT_BREAKERS, is_full, turn},
    traffic,
};

const SEED: u64 = 20_261_130;
/// Orders a second: what two cores carry with room to spare.
const RATE: f64 = 40.0;
const KILL_EVERY: Duration = Duration::from_secs(2);
const QUIET_WITHIN: Duration = Duration::from_secs(60);
const VICTIMS: [&str; 7] = ["order:0", "order:1", "payment:0", "payment:1", "inventory", "coupon", "recommendation"];

fn orders() -> u32 {
    if is_full() { 10_000 } else { 1_000 }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_orders_survive_random_kills() {
    let system = turn().await;
    system.rule(93, WITHOUT_BREAKERS).await;
    // A provider that is not at its best either.
    let behaviour = json!({
        "jitter_ms": 50, "decline_ratio": 0.03, "error_ratio": 0.02, "lose_reply_ratio": 0.03, "hang_ratio": 0.01,
    });
    system.provider_behaves(&behaviour).await;
    let kills = order_through_kills(&system).await;
    let began = Instant::now();
    let report = audit::judged(&system, QUIET_WITHIN).await;
    system.provider_behaves(&json!({})).await;
    system.rule(94, "").await;
    println!("{kills} kills, seed {SEED}; quiet {:.1} s after the last one", began.elapsed().as_secs_f64());
    let apart = report.invariants.iter().map(|verdict| verdict.apart.len()).sum::<usize>();
    assert_eq!(apart, 0, "something is left for a person to decide\n{report}");
}

/// How many processes were killed meanwhile.
async fn order_through_kills(system: &System) -> usize {
    let lasts = Duration::from_secs_f64(f64::from(orders()) / RATE);
    let plan = traffic::steady(RATE, lasts, Process::Poisson, "place_order=1", SEED);
    let timeout = Limits::default().timeout;
    let replicas = Arc::new([0, 100].map(|replica| {
        let url = format!("http://127.0.0.1:{}", system.base + replica);
        Http::new(&url.parse().unwrap(), timeout).unwrap()
    }));
    let mut shop = traffic::shop_of(&plan, &replicas[0]).await;

    let turn = Arc::new(AtomicUsize::new(0));
    let exchange = move |request: Arc<Request>| {
        let (replicas, turn) = (replicas.clone(), turn.clone());
        async move {
            // Whoever has no answer asks the other replica, with the same key, until the client's time is up.
            // The pause is the client's own: a process that is dead refuses at once, and would be asked without end.
            loop {
                let replica = &replicas[turn.fetch_add(1, Ordering::Relaxed) % replicas.len()];
                match replica.exchange(&request).await {
                    Ok(reply) => return Ok(reply),
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        }
    };
    let (log, mut answered, mut ends) = (system.shop.log(), 0, BTreeMap::<String, u32>::new());
    let sink = |answer: &Answer| {
        answered += usize::from(answer.order_id.is_some());
        let why = answer.problem.as_deref().unwrap_or_default();
        *ends.entry(format!("{} {why}", answer.outcome)).or_default() += 1;
        log.write(&logged(answer)).unwrap();
    };
    let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
    let generator = async {
        let recording = load::run(&plan, &mut shop, Limits::default(), exchange, sink, &stop).await;
        ended.cancel();
        recording
    };
    let (recording, kills) = tokio::join!(generator, kill_until(system, &ended));
    assert!(recording.arrivals() >= u64::from(orders()) * 9 / 10, "{} orders", recording.arrivals());
    // A machine that is busy with other things refuses many; some must have come through for this to mean anything.
    assert!(answered >= 100, "only {answered} orders came about: {ends:?}");
    eprintln!("{answered} of {} orders were answered with an order; all ends: {ends:?}", recording.arrivals());
    kills
}

async fn kill_until(system: &System, ended: &CancellationToken) -> usize {
    let mut chance = StdRng::seed_from_u64(SEED);
    let (mut kills, mut beat) = (0, interval(KILL_EVERY));
    beat.tick().await;
    loop {
        tokio::select! {
            () = ended.cancelled() => return kills,
            _ = beat.tick() => {}
        }
        let victim = *VICTIMS.choose(&mut chance).unwrap();
        system.kill_and_restart(victim).await;
        kills += 1;
    }
}
