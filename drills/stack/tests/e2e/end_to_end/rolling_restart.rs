//! A deployment: every instance of order is stopped and started, and whoever comes through the gateway notices nothing.

use std::time::Duration;

use chrono::Utc;
use contracts::Service;
use load::{Answer, Outcome, Process};
use testkit::eventually;
use tokio_util::sync::CancellationToken;

use super::{
    audit,
    system::{System, WITHOUT_BREAKERS, turn},
    traffic,
};

/// Requests a second, a third of them orders. Small for what order carries: it is the restart that is tested.
const RATE: f64 = 30.0;
/// What each instance has answered before it is stopped, and again after it was started.
const SHARE: f64 = 20.0;

#[tokio::test(flavor = "multi_thread")]
async fn both_instances_of_order_are_restarted_under_load_and_no_request_fails() {
    let system = turn().await;
    let Some(gateway) = system.gateway() else { return eprintln!("gateway skipped: it was not started") };
    system.rule(95, WITHOUT_BREAKERS).await;
    let before = pids(&system);
    let mix = "place_order=1,read_order=1,product_page=1";
    let plan = traffic::steady(RATE, Duration::from_secs(180), Process::Uniform, mix, 95);
    let stop = CancellationToken::new();
    let (answers, (began, ended)) = tokio::join!(traffic::send_to(&gateway, &system, &plan, &stop), async {
        both_have_answered(&system, SHARE).await;
        let began = Utc::now();
        // One after the other with SIGTERM, each until it says that it is ready.
        system.restart("order", &[]).await;
        let ended = Utc::now();
        both_have_answered(&system, SHARE).await;
        stop.cancel();
        (began, ended)
    });
    let after = pids(&system);
    assert!(before.iter().zip(&after).all(|(before, after)| before != after), "{before:?}, {after:?}");
    let failed: Vec<String> = answers
        .iter()
        .filter(|answer| !matches!(answer.outcome, Outcome::Status(200..=202)))
        .map(|answer| {
            let (kind, problem) = (answer.request.kind, answer.problem.as_deref().unwrap_or("no problem"));
            format!("{kind} due at {:?}: {}, {problem}", answer.intended, answer.outcome)
        })
        .collect();
    assert!(failed.is_empty(), "{} of {}: {failed:#?}", failed.len(), answers.len());
    // Clients that stood still meanwhile would have noticed nothing either.
    let meanwhile = answers.iter().filter(|answer| (began..ended).contains(&sent_at(answer))).count();
    let due = RATE * (ended - began).as_seconds_f64();
    assert!(meanwhile as f64 > due / 2.0, "only {meanwhile} of {due} requests were sent during the restart");
    println!("{} requests through the gateway, {meanwhile} during the restart, none failed", answers.len());
    system.rule(96, "").await;
    audit::clean(&system).await;
}

fn sent_at(answer: &Answer) -> chrono::DateTime<Utc> {
    answer.at - answer.answered.saturating_sub(answer.sent)
}

/// As far as a process tells, which begins to count when it starts.
async fn both_have_answered(system: &System, count: f64) {
    for replica in 0..2 {
        let admin = Service::Order.admin_port(system.base, replica);
        eventually("each instance has its share", async || {
            (system.metric_at(admin, "http_requests_total", &[]).await >= count).then_some(())
        })
        .await;
    }
}

fn pids(system: &System) -> Vec<u64> {
    (0..2).map(|replica| system.process("order", replica)["pid"].as_u64().unwrap()).collect()
}
