//! The recoverer looks after orders that have ended.

use std::time::Duration;

use rules::Rules;
use serde_json::json;
use testkit::{Reply, eventually, stub::Seen};

use crate::world::{World, patient, problem, stock_held, tea, tea_with_coupon};

/// Looks often, and soon.
fn impatient() -> Rules {
    let mut rules = patient();
    rules.recover.interval = Duration::from_millis(50);
    rules.recover.ack_after = Duration::from_millis(50);
    rules.recover.ack_retry_max = Duration::from_millis(200);
    rules
}

/// Inventory as usual, but that it says this of a reservation.
fn stock_is(state: &'static str) -> impl Fn(&Seen) -> Reply + Send + Sync + 'static {
    move |seen| match seen.method.as_str() {
        "GET" => {
            Reply::Json(200, json!({"order_id": uuid::Uuid::nil(), "state": state, "items": [], "currency": "USD"}))
        }
        _ => stock_held(seen),
    }
}

async fn said(world: &World, kind: &str) -> usize {
    world.events().await.iter().filter(|said| *said == kind).count()
}

async fn until_said(world: &World, kind: &str, times: usize) {
    eventually(kind, async || (said(world, kind).await >= times).then_some(())).await;
}

async fn until_acknowledged(world: &World) {
    eventually("the order has nothing more to tell", async || {
        (world.count("select count(*) from orders where unacknowledged_since is not null").await == 0).then_some(())
    })
    .await;
}

// Trace 20: the broker loses what the order told.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_told_of_again_until_its_stock_shows_it() {
    for (declined, kind, lost, heard) in
        [(false, "order.confirmed", "held", "committed"), (true, "order.rejected", "held", "released")]
    {
        let world = World::with_rules(impatient()).await;
        world.inventory.behave(stock_is(lost));
        if declined {
            world.payment.behave(|_| Reply::Json(200, json!({"state": "declined", "decline_code": "x"})));
        }
        world.place("k", &tea()).await;
        until_said(&world, kind, 3).await;
        world.inventory.behave(stock_is(heard));
        until_acknowledged(&world).await;
        let told = said(&world, kind).await;
        assert_eq!(world.count("select version from orders").await, i64::try_from(told).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_taken_effect_is_not_told_again() {
    let world = World::with_rules(impatient()).await;
    world.inventory.behave(stock_is("committed"));
    world.place("k", &tea()).await;
    until_acknowledged(&world).await;
    assert_eq!(world.events().await, ["order.confirmed"]);
}

// Trace 23: the release of the coupon was lost, and nothing is known of it there.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_order_is_told_of_again_until_its_coupon_shows_it() {
    let world = World::with_rules(impatient()).await;
    world.inventory.behave(stock_is("released"));
    world.coupon.behave(|seen| match seen.method.as_str() {
        "GET" => problem("not-found", 404, json!({})),
        _ => crate::world::discounted(seen),
    });
    world.payment.behave(|_| Reply::Json(200, json!({"state": "declined", "decline_code": "x"})));
    world.place("k", &tea_with_coupon()).await;
    until_said(&world, "order.rejected", 3).await;
    world.coupon.behave(|_| {
        let tombstone = json!({"order_id": uuid::Uuid::nil(), "state": "released", "code": null, "discount_minor": 0, "currency": "USD"});
        Reply::Json(200, tombstone)
    });
    until_acknowledged(&world).await;
}

// A sibling without an answer says nothing about what it has heard.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_told_again_to_a_sibling_that_does_not_answer() {
    let world = World::with_rules(impatient()).await;
    world.inventory.behave(|seen| if seen.method == "GET" { Reply::Close } else { stock_held(seen) });
    world.place("k", &tea()).await;
    eventually("it was looked after twice", async || {
        (world.count("select max(walks)::bigint from orders").await >= 2).then_some(())
    })
    .await;
    assert_eq!(world.events().await, ["order.confirmed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_and_a_discount_are_asked_for_again_under_the_same_name() {
    let world = World::with_rules(impatient()).await;
    world.inventory.behave(stock_is("committed"));
    world.coupon.behave(|_| Reply::Close);
    let (_, order) = world.place("k", &tea_with_coupon()).await;
    until_said(&world, "coupon.compensate", 3).await;
    world.inventory.behave(stock_is("returned"));
    assert_eq!(world.cancel(&order).await.0, 200);
    until_said(&world, "payment.refund_requested", 3).await;
    let names = "select count(distinct payload::jsonb -> 'data' ->> 'refund_id') from outbox
                  where payload::jsonb ->> 'type' = 'payment.refund_requested'";
    assert_eq!(world.count(names).await, 1);
    assert_eq!(world.count("select count(*) from refunds").await, 1);
}

// Trace 8: a refund that is due keeps the key, however old it is.
#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_an_order_with_a_refund_due_is_kept() {
    let world = World::start().await;
    let (_, order) = world.place("k", &tea()).await;
    assert_eq!(world.cancel(&order).await.0, 200);
    sqlx::query(
        "update idempotency_keys set created_at = now() - interval '2 days', lease_until = now() - interval '1 day'",
    )
    .execute(world.db.pool())
    .await
    .unwrap();
    let prune = || order::store::keys::prune(world.db.pool(), Duration::from_secs(86_400), 10);
    assert_eq!(prune().await.unwrap(), 0);
    for sql in
        ["update refunds set state = 'refunded', refunded_at = now()", "update orders set payment_state = 'refunded'"]
    {
        assert_eq!(prune().await.unwrap(), 0);
        sqlx::query(sql).execute(world.db.pool()).await.unwrap();
    }
    assert_eq!(prune().await.unwrap(), 1);
}
