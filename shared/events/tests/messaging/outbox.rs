//! The outbox by itself.

use std::time::Duration;

use chrono::Utc;
use contracts::{OrderId, event::OrderRejected, order::StatusReason, topic::ORDERS};
use durable::{
    lease::{self, Lease},
    outbox::{self, Outbox},
};
use sqlx::PgPool;
use uuid::Uuid;

use crate::{database, world::event};

const LONG: Duration = Duration::from_secs(60);

async fn filled(pool: &PgPool, events: i64) -> Outbox {
    let mut conn = pool.acquire().await.unwrap();
    for version in 1..=events {
        outbox::enqueue(&mut conn, ORDERS, &event(OrderId::generate(), version)).await.unwrap();
    }
    Outbox::new(pool.clone())
}

async fn leased(pool: &PgPool) -> Lease {
    lease::acquire(pool, "outbox-relay", Uuid::new_v4(), LONG).await.unwrap().unwrap()
}

async fn waiting(outbox: &Outbox) -> Vec<i64> {
    outbox.unpublished(&[], 100).await.unwrap().iter().map(|row| row.id).collect()
}

#[tokio::test]
async fn what_is_enqueued_as_data_goes_to_the_topic_and_key_of_its_type() {
    let pool = database::fresh().await;
    let data = OrderRejected { order_id: OrderId::generate(), reason: StatusReason::Expired };
    let mut conn = pool.acquire().await.unwrap();
    let id = outbox::enqueue_data(&mut conn, &data, 7, None, Utc::now()).await.unwrap();
    let rows = Outbox::new(pool).unpublished(&[], 10).await.unwrap();
    assert_eq!((rows.len(), rows[0].topic.as_str(), rows[0].key.as_str()), (1, "orders", &*data.order_id.to_string()));
    let event: contracts::Event = serde_json::from_str(&rows[0].payload).unwrap();
    assert_eq!((event.id, event.version), (id, 7));
    assert_eq!(event.decode::<OrderRejected>().unwrap().unwrap(), data);
}

#[tokio::test]
async fn rows_of_held_keys_are_passed_over_and_stay() {
    let pool = database::fresh().await;
    let outbox = filled(&pool, 2).await;
    let rows = outbox.unpublished(&[], 10).await.unwrap();
    let others = outbox.unpublished(&[rows[0].key.clone()], 10).await.unwrap();
    assert_eq!(others, rows[1..]);
    assert_eq!(outbox.backlog().await.unwrap().count, 2);
}

#[tokio::test]
async fn only_who_holds_the_lease_can_mark_rows() {
    let pool = database::fresh().await;
    let outbox = filled(&pool, 3).await;
    let ids = waiting(&outbox).await;
    let old = leased(&pool).await;
    sqlx::query("update leases set expires_at = now() - interval '1 second'").execute(&pool).await.unwrap();
    assert!(!outbox.mark_published(&old, &ids).await.unwrap(), "expired");
    let new = leased(&pool).await;
    assert!(!outbox.mark_published(&old, &ids).await.unwrap(), "succeeded");
    assert_eq!(waiting(&outbox).await, ids);
    assert!(outbox.mark_published(&new, &ids[..2]).await.unwrap());
    assert_eq!(waiting(&outbox).await, ids[2..]);
}

#[tokio::test]
async fn another_broker_gets_all_retained_rows_and_the_same_one_none() {
    let pool = database::fresh().await;
    let outbox = filled(&pool, 3).await;
    let ids = waiting(&outbox).await;
    let lease = leased(&pool).await;
    assert_eq!(outbox.move_to_broker(&lease, "a").await.unwrap(), Some(0));
    outbox.mark_published(&lease, &ids).await.unwrap();
    assert_eq!(outbox.move_to_broker(&lease, "a").await.unwrap(), Some(0));
    assert_eq!(waiting(&outbox).await, [0; 0]);
    assert_eq!(outbox.move_to_broker(&lease, "b").await.unwrap(), Some(3));
    assert_eq!(waiting(&outbox).await, ids);

    let stale = lease.clone();
    lease.release(&pool).await.unwrap();
    assert_eq!(outbox.move_to_broker(&stale, "c").await.unwrap(), None);
}

#[tokio::test]
async fn pruning_takes_published_rows_past_their_retention_and_no_others() {
    let pool = database::fresh().await;
    let outbox = filled(&pool, 3).await;
    let ids = waiting(&outbox).await;
    let lease = leased(&pool).await;
    outbox.mark_published(&lease, &ids[..2]).await.unwrap();
    sqlx::query("update outbox set published_at = published_at - interval '2 days' where id = $1")
        .bind(ids[0])
        .execute(&pool)
        .await
        .unwrap();
    sqlx::query("update outbox set created_at = created_at - interval '9 days'").execute(&pool).await.unwrap();
    assert_eq!(outbox.prune(outbox::RETENTION, 100).await.unwrap(), 1);
    let left: Vec<i64> = sqlx::query_scalar("select id from outbox order by id").fetch_all(&pool).await.unwrap();
    assert_eq!(left, ids[1..]);
    assert!(outbox.backlog().await.unwrap().oldest_age > Duration::from_secs(8 * 24 * 60 * 60));
}
