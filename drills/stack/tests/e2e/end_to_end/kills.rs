//! Killing any service while clients order loses nothing that a client was told.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use contracts::Service;
use futures_util::future::join_all;
use serde_json::json;
use testkit::eventually;

use super::{
    audit,
    shop::{Told, fresh_key, order_of},
    system::{System, WITHOUT_BREAKERS, count, is_full, turn},
};

const CLIENTS: usize = 20;
/// Orders that are placed before the kill, and again after the restart.
const BEFORE_AND_AFTER: usize = 60;

/// How often each service is killed; more where time is no matter.
fn rounds() -> usize {
    if is_full() { 5 } else { 1 }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_client_was_told_is_lost_when_a_service_is_killed() {
    let system = turn().await;
    system.rule(97, WITHOUT_BREAKERS).await;
    for service in std::iter::repeat_n(Service::ALL, rounds()).flatten() {
        let told = order_through_a_kill(&system, service).await;
        assert!(told.len() >= 2 * BEFORE_AND_AFTER);
        for Told { status, body } in told {
            assert!(matches!(status, 201 | 202), "{service} killed: {status} {body}");
        }
        // It compares with what every client was told.
        audit::clean(&system).await;
    }
    system.rule(98, "").await;
}

/// Twenty clients order while `service` is killed and started again; what each was told in the end.
async fn order_through_a_kill(system: &System, service: Service) -> Vec<Told> {
    let (answered, enough) = (AtomicUsize::new(0), AtomicBool::new(false));
    let client = async |number: usize| {
        let mut told = Vec::new();
        while !enough.load(Ordering::Relaxed) {
            // Various goods, so that clients do not queue for one row.
            let sku = ["TEA-EARLGREY-100", "COFFEE-HOUSE-GROUND-250", "TEA-SAMPLER-12"][number % 3];
            told.push(system.shop.place(&fresh_key(), &order_of(sku, 1, "tok_approve")).await);
            answered.fetch_add(1, Ordering::Relaxed);
        }
        told
    };
    let reached = async |count: usize| {
        eventually("clients are answered", async || (answered.load(Ordering::Relaxed) >= count).then_some(())).await;
    };
    let killer = async {
        reached(BEFORE_AND_AFTER).await;
        system.kill_and_restart(service.as_str()).await;
        reached(answered.load(Ordering::Relaxed) + BEFORE_AND_AFTER).await;
        enough.store(true, Ordering::Relaxed);
    };
    let (told, ()) = tokio::join!(join_all((0..CLIENTS).map(client)), killer);
    told.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_order_service_resumes_what_it_left() {
    let system = turn().await;
    // The provider answers late, so that the kill strikes while the charge is under way.
    let (key, order) = (fresh_key(), order_of("TEA-SAMPLER-12", 1, "tok_slow_1200"));
    let db = system.database("order").await;
    let (first, ()) = tokio::join!(system.shop.place_once(0, &key, &order), async {
        eventually("the charge is under way", async || {
            let sql = "select count(*) from orders where status = 'payment_in_flight'";
            (count(&db, sql).await == 1).then_some(())
        })
        .await;
        system.kill_and_restart("order:0").await;
    });
    assert!(first.is_err(), "the client of the killed process has no answer: {first:?}");
    // Payment has settled the charge and says so; nobody charges again.
    let charges = system.ledger().await.charges.len();
    let told = system.shop.place(&key, &order).await;
    assert!(matches!(told.status, 201 | 202), "{told:?}");
    let settled = system.shop.once(told.body["id"].as_str().unwrap(), "confirmed").await;
    assert_eq!(settled["payment"]["state"], json!("approved"));
    assert!(system.ledger().await.charges.len() <= charges + 1);
    audit::clean(&system).await;
}
