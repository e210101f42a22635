//! Do the books balance? Read from the databases and the provider's ledger, once the system is quiet.

use std::collections::HashMap;

use contracts::{Service, provider::ChargeState};
use sqlx::PgPool;
use testkit::eventually;
use uuid::Uuid;

use super::system::System;

/// Waits until nothing moves by itself any more: no order stands in a state that only a run can leave, nothing that
/// payment knows is news to order, no event waits or is on its way.
pub async fn quiet(system: &System) {
    let order = system.database("order").await;
    let (payment, inventory) = (system.database("payment").await, system.database("inventory").await);
    eventually("no order stands still", async || {
        let standing = "select count(*) from orders where status in ('created', 'stock_reserved', 'payment_in_flight')";
        (count(&order, standing).await == 0).then_some(())
    })
    .await;
    // In one pass, in the order in which one thing leads to the next: a charge under way ends, order hears of it and
    // says what follows, inventory applies it.
    eventually("nothing is on its way", async || {
        let under_way =
            "select count(*) from attempts where state = 'dispatched' and updated_at > now() - interval '5 seconds'";
        if count(&payment, under_way).await > 0 {
            return None;
        }
        let pending: Vec<Uuid> = sqlx::query_scalar("select attempt_id from orders where status = 'payment_pending'")
            .fetch_all(&order)
            .await
            .unwrap();
        let news: i64 = sqlx::query_scalar(
            "select count(*) from attempts where id = any($1) and state in ('approved', 'declined', 'fenced')",
        )
        .bind(&pending)
        .fetch_one(&payment)
        .await
        .unwrap();
        let waiting = "select count(*) from outbox where published_at is null";
        if news > 0 || count(&order, waiting).await > 0 || count(&payment, waiting).await > 0 {
            return None;
        }
        // Published is not applied: what inventory holds has to be exactly what is still pending.
        let held = "select count(*) from reservations where state = 'held'";
        (count(&inventory, held).await == i64::try_from(pending.len()).unwrap()).then_some(())
    })
    .await;
}

/// Stock adds up, every charge has one order, and no event was applied twice or not at all.
pub async fn balance(system: &System) {
    let (order, inventory) = (system.database("order").await, system.database("inventory").await);
    let wrong = "select count(*) from stock where received <> on_hand + sold or reserved < 0 or reserved > on_hand";
    assert_eq!(count(&inventory, wrong).await, 0, "stock that does not add up");
    // Sold per product is what confirmed orders took: each confirmation was applied exactly once.
    let sold: HashMap<String, i64> = sqlx::query_as("select sku, sold from stock where sold > 0")
        .fetch_all(&inventory)
        .await
        .unwrap()
        .into_iter()
        .collect();
    let confirmed: HashMap<String, i64> = sqlx::query_as(
        "select i.sku, sum(i.quantity)::bigint from order_items i join orders o on o.id = i.order_id
          where o.status = 'confirmed' group by i.sku",
    )
    .fetch_all(&order)
    .await
    .unwrap()
    .into_iter()
    .collect();
    assert_eq!(sold, confirmed, "sold is not what confirmed orders took");

    let orders: HashMap<Uuid, (String, i64)> = sqlx::query_as::<_, (Uuid, String, i64)>(
        "select attempt_id, status, total_minor from orders where attempt_id is not null",
    )
    .fetch_all(&order)
    .await
    .unwrap()
    .into_iter()
    .map(|(attempt, status, total)| (attempt, (status, total)))
    .collect();
    let mut charged = HashMap::new();
    for charge in system.ledger().await.charges.iter().filter(|c| c.state == ChargeState::Approved) {
        let attempt: Uuid = charge.key.parse().unwrap();
        let (status, total) = &orders[&attempt];
        assert!(status != "rejected", "the rejected order {} was charged", charge.reference);
        assert_eq!(charge.amount_minor, *total, "order {}", charge.reference);
        assert_eq!(charged.insert(attempt, ()), None, "order {} was charged twice", charge.reference);
    }
    for (attempt, (status, _)) in &orders {
        assert!(status != "confirmed" || charged.contains_key(attempt), "attempt {attempt} is confirmed, not charged");
    }
    for service in Service::ALL {
        assert_eq!(system.metric(service, "dead_letters_total").await, 0.0, "{service} has dead letters");
    }
}

pub async fn count(db: &PgPool, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(db).await.unwrap()
}
