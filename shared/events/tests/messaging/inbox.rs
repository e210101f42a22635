//! The inbox.

use std::time::Duration;

use contracts::EventId;
use durable::inbox;

use crate::database;

#[tokio::test]
async fn an_event_counts_as_first_once_for_each_consumer() {
    let pool = database::fresh().await;
    let mut conn = pool.acquire().await.unwrap();
    let event = EventId::generate();
    assert!(inbox::first_delivery(&mut conn, "a", event).await.unwrap());
    assert!(!inbox::first_delivery(&mut conn, "a", event).await.unwrap());
    assert!(inbox::first_delivery(&mut conn, "b", event).await.unwrap());
    assert!(inbox::first_delivery(&mut conn, "a", EventId::generate()).await.unwrap());
}

#[tokio::test]
async fn a_delivery_whose_effect_was_rolled_back_did_not_happen() {
    let pool = database::fresh().await;
    let event = EventId::generate();
    let mut tx = pool.begin().await.unwrap();
    assert!(inbox::first_delivery(&mut tx, "a", event).await.unwrap());
    tx.rollback().await.unwrap();
    assert!(inbox::first_delivery(&mut pool.acquire().await.unwrap(), "a", event).await.unwrap());
}

#[tokio::test]
async fn a_delivery_that_overlaps_another_waits_for_what_becomes_of_it() {
    let pool = database::fresh().await;
    let event = EventId::generate();
    for (commits, second_is_first) in [(false, true), (true, false)] {
        let mut first = pool.begin().await.unwrap();
        assert!(inbox::first_delivery(&mut first, "a", event).await.unwrap());
        let second = tokio::spawn({
            let pool = pool.clone();
            async move {
                let mut tx = pool.begin().await.unwrap();
                let answer = inbox::first_delivery(&mut tx, "a", event).await.unwrap();
                tx.rollback().await.unwrap();
                answer
            }
        });
        testkit::eventually("the second delivery waits", async || {
            let waiting: i64 = sqlx::query_scalar(
                "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
            )
            .fetch_one(&pool)
            .await
            .unwrap();
            (waiting == 1).then_some(())
        })
        .await;
        if commits {
            first.commit().await.unwrap()
        } else {
            first.rollback().await.unwrap()
        }
        assert_eq!(second.await.unwrap(), second_is_first);
    }
}

#[tokio::test]
async fn pruning_takes_only_what_is_older_than_the_retention() {
    let pool = database::fresh().await;
    let (old, new) = (EventId::generate(), EventId::generate());
    let mut conn = pool.acquire().await.unwrap();
    for event in [old, new] {
        inbox::first_delivery(&mut conn, "a", event).await.unwrap();
    }
    sqlx::query("update inbox set received_at = received_at - interval '3 days' where event_id = $1")
        .bind(old.as_uuid())
        .execute(&pool)
        .await
        .unwrap();
    assert_eq!(inbox::prune(&pool, inbox::RETENTION, 100).await.unwrap(), 1);
    assert!(!inbox::first_delivery(&mut conn, "a", new).await.unwrap());
    assert!(inbox::first_delivery(&mut conn, "a", old).await.unwrap());
    assert!(inbox::RETENTION >= durable::outbox::RETENTION + Duration::from_secs(1));
}
