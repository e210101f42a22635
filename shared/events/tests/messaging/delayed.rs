//! Events that are not due yet.

use std::time::Duration;

use chrono::{DateTime, Utc};
use contracts::{Event, OrderId};
use events::ConsumerConfig;
use testkit::eventually;

use crate::world::{Recording, World, event};

fn due_in(wait: Duration, version: i64) -> (Event, DateTime<Utc>) {
    let due = Utc::now() + wait;
    (Event { notbefore: Some(due), ..event(OrderId::generate(), version) }, due)
}

#[tokio::test]
async fn an_event_that_is_not_due_holds_up_its_partition_until_it_is_and_no_other() {
    let world = World::new(2).await;
    let consumer = world.consumer_with(Recording(world.pool.clone()), ConsumerConfig::default());
    world.produce_event(0, &event(OrderId::generate(), 1)).await;
    world.applied_are(&[1]).await;
    let (early, due) = due_in(Duration::from_secs(3), 2);
    world.produce_event(0, &early).await;
    world.produce_event(0, &event(OrderId::generate(), 3)).await;
    for version in [11, 12] {
        world.produce_event(1, &event(OrderId::generate(), version)).await;
    }
    // Those of one partition are of two keys, so either may end first.
    eventually("it took effect", async || (world.applied().await.len() == 5).then_some(())).await;
    assert!(Utc::now() >= due);
    let mut applied = world.applied().await;
    let mut behind = applied.split_off(3);
    applied.sort_unstable();
    behind.sort_unstable();
    assert_eq!((&applied[..], &behind[..]), (&[1, 11, 12][..], &[2, 3][..]));
    consumer.stop().await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_an_event_that_is_not_due_and_it_comes_again() {
    let world = World::new(2).await;
    let (early, due) = due_in(Duration::from_secs(12), 1);
    world.produce_event(0, &early).await;
    let consumer = world.consumer(Recording(world.pool.clone()));
    world.produce_event(1, &event(OrderId::generate(), 2)).await;
    world.applied_are(&[2]).await;
    consumer.stop().await;
    assert!(Utc::now() < due, "stopping took until the event was due");
    assert_eq!(world.applied().await, [2]);
    let consumer = world.consumer(Recording(world.pool.clone()));
    world.applied_are(&[2, 1]).await;
    assert!(Utc::now() >= due);
    consumer.stop().await;
}

#[tokio::test]
async fn a_partition_that_waits_for_its_event_may_be_taken_away_and_given_back() {
    let world = World::new(2).await;
    for partition in 0..2 {
        let (early, _) = due_in(Duration::from_secs(8), i64::from(partition));
        world.produce_event(partition, &early).await;
        // Enough to have the partition paused in the client too.
        for version in 2..10 {
            world.produce_event(partition, &event(OrderId::generate(), i64::from(partition * 10) + version)).await;
        }
    }
    let little = ConsumerConfig { max_waiting: 4, ..ConsumerConfig::default() };
    let first = world.consumer_with(Recording(world.pool.clone()), little.clone());
    let second = world.consumer_with(Recording(world.pool.clone()), little);
    eventually("something took effect", async || (!world.applied().await.is_empty()).then_some(())).await;
    second.stop().await;
    eventually("everything took effect", async || (world.applied().await.len() >= 18).then_some(())).await;
    first.stop().await;
    assert_eq!(world.applied().await.len(), 18);
}

#[tokio::test]
async fn a_garbled_date_holds_up_its_partition_for_the_longest_delay_only() {
    let world = World::new(1).await;
    let (garbled, _) = due_in(Duration::from_secs(400 * 24 * 60 * 60), 1);
    world.produce_event(0, &garbled).await;
    let config = ConsumerConfig { max_delay: Duration::from_millis(300), ..ConsumerConfig::default() };
    let consumer = world.consumer_with(Recording(world.pool.clone()), config);
    world.applied_are(&[1]).await;
    consumer.stop().await;
}
