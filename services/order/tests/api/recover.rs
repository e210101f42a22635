use std::{sync::Arc, time::Duration};

use rules::Rules;
use serde_json::json;
use testkit::{Reply, eventually};
use tokio::sync::Semaphore;

use crate::world::{World, answer, patient, stock_held, tea};

/// Looks often.
fn impatient() -> Rules {
    let mut rules = patient();
    rules.recover.interval = Duration::from_millis(50);
    rules
}

async fn status_of_the_order(world: &World) -> (String, Option<String>) {
    sqlx::query_as("select status, status_reason from orders").fetch_one(world.db.pool()).await.unwrap()
}

async fn until(world: &World, status: &str) -> Option<String> {
    eventually(status, || async {
        let (now, reason) = status_of_the_order(world).await;
        (now == status).then_some(reason)
    })
    .await
}

/// Leaves an order in `status` whose run has died.
async fn left_standing(world: &World, status: &'static str) {
    world.inventory.behave(|seen| if seen.method == "PUT" { Reply::Hang } else { stock_held(seen) });
    let _client = tokio::spawn(world.request("k", &tea()).send());
    eventually("the order is made", || async { world.inventory.seen().first().map(drop) }).await;
    // The run waits for inventory; from here on it is as good as dead, since it no longer holds its order.
    let mut tx = world.db.pool().begin().await.unwrap();
    sqlx::query("update idempotency_keys set attempt = attempt + 1, lease_until = now()")
        .execute(&mut *tx)
        .await
        .unwrap();
    let attempt = (status == "payment_in_flight").then(uuid::Uuid::now_v7);
    sqlx::query(
        "update orders set status = $1, subtotal_minor = 1000, total_minor = 1000, attempt_id = $2,
                payment_state = case when $2::uuid is null then 'none' else 'in_flight' end",
    )
    .bind(status)
    .bind(attempt)
    .execute(&mut *tx)
    .await
    .unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_charged_is_rejected_and_its_key_freed() {
    for status in ["created", "stock_reserved"] {
        let world = World::with_rules(impatient()).await;
        left_standing(&world, status).await;
        assert_eq!(until(&world, "rejected").await.as_deref(), Some("expired"));
        assert_eq!(world.events().await, ["order.rejected"]);
        assert_eq!(world.count("select count(*) from idempotency_keys").await, 0);
        assert!(world.payment.seen().is_empty());
        // The client's next try makes a new order.
        world.inventory.behave(stock_held);
        assert_eq!(world.place("k", &tea()).await.0, 201);
        assert_eq!(world.count("select count(*) from orders").await, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_have_been_charged_is_pending_and_keeps_its_key() {
    let world = World::with_rules(impatient()).await;
    left_standing(&world, "payment_in_flight").await;
    until(&world, "payment_pending").await;
    assert_eq!(world.events().await, ["payment.unknown"]);
    let (status, order) = answer(world.request("k", &tea()).send().await.unwrap()).await;
    assert_eq!((status, &order["payment"]["state"]), (202, &json!("unknown")));
    assert!(world.payment.seen().is_empty(), "a charge was sent for an order whose run died");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_alive_is_left_alone() {
    let world = World::with_rules(impatient()).await;
    let go = Arc::new(Semaphore::new(0));
    let held = go.clone();
    world.inventory.behave(move |seen| Reply::Held(held.clone(), Box::new(stock_held(seen))));
    let placed = tokio::spawn(world.request("k", &tea()).send());
    // Another order is recovered meanwhile: the recoverer has looked at this one and left it alone.
    world.abandon_an_order("abandoned").await;
    eventually("the recoverer has been here", async || {
        (world.count("select count(*) from orders where status_reason = 'expired'").await == 1).then_some(())
    })
    .await;
    go.add_permits(2);
    assert_eq!(placed.await.unwrap().unwrap().status(), 201);
    assert_eq!(world.count("select max(attempt)::bigint from idempotency_keys").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_interval_is_in_force_without_a_restart() {
    let mut rules = patient();
    rules.recover.interval = Duration::from_secs(3_600);
    let world = World::with_rules(rules).await;
    world.rule(|rules| rules.recover.interval = Duration::from_millis(50));
    // Two, since the first may be found by the look that every start begins with.
    for (nth, key) in [(1, "one"), (2, "two")] {
        world.abandon_an_order(key).await;
        eventually("the order is recovered", async || {
            (world.count("select count(*) from orders where status_reason = 'expired'").await == nth).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_lease_holds_for_the_next_order() {
    let world = World::start().await;
    world.rule(|rules| rules.idempotency.lease = Duration::from_secs(3_600));
    assert_eq!(world.place("k", &tea()).await.0, 201);
    let long = "select count(*) from idempotency_keys where lease_until > created_at + interval '59 minutes'";
    assert_eq!(world.count(long).await, 1);
}
