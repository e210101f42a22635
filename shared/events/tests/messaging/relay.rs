//! From the outbox to the broker.

use std::{collections::HashMap, time::Duration};

use contracts::OrderId;
use durable::outbox;
use events::embedded::{self, EmbeddedBroker};
use rdkafka::{Message, message::Headers};
use testkit::eventually;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::world::{Counted, Reader, Recording, TRACEPARENT, World, event, relay_config, topics, version};

#[tokio::test]
async fn an_event_of_a_rolled_back_transaction_is_never_published() {
    let world = World::new(1).await;
    let order = OrderId::generate();
    let mut tx = world.pool.begin().await.unwrap();
    outbox::enqueue(&mut tx, world.topic, &event(order, 1)).await.unwrap();
    tx.rollback().await.unwrap();
    let relay = world.relay();
    // Of the same key, so that the first would have to be there before the second.
    world.commit(order, 2..=2).await;
    let messages = world.reader().read(1).await;
    assert_eq!(version(&messages[0]), 2);
    world.everything_is_published().await;
    relay.stop().await;
}

#[tokio::test]
async fn committed_events_are_published_once_and_in_order_per_key() {
    let world = World::new(3).await;
    let orders: Vec<_> = (0..20).map(|_| OrderId::generate()).collect();
    let relay = world.relay();
    for step in 0..10 {
        for order in &orders {
            world.commit(*order, step * 2 + 1..=step * 2 + 2).await;
        }
    }
    let mut versions: HashMap<Vec<u8>, Vec<i64>> = HashMap::new();
    for message in world.reader().read(400).await {
        let headers = message.headers().unwrap();
        let traceparent = headers.iter().find(|header| header.key == "traceparent").unwrap().value;
        assert_eq!(traceparent, Some(TRACEPARENT.as_bytes()));
        versions.entry(message.key().unwrap().to_vec()).or_default().push(version(&message));
    }
    for order in orders {
        assert_eq!(versions[order.to_string().as_bytes()], (1..=20).collect::<Vec<_>>());
    }
    world.everything_is_published().await;
    relay.stop().await;
}

#[tokio::test]
async fn an_event_that_commits_late_with_a_smaller_id_is_not_lost() {
    let world = World::new(1).await;
    let relay = world.relay();
    let mut late = world.pool.begin().await.unwrap();
    outbox::enqueue(&mut late, world.topic, &event(OrderId::generate(), 1)).await.unwrap();
    world.commit(OrderId::generate(), 2..=2).await;
    let reader = world.reader();
    assert_eq!(version(&reader.read(1).await[0]), 2);
    world.everything_is_published().await;
    late.commit().await.unwrap();
    assert_eq!(version(&reader.read(1).await[0]), 1);
    relay.stop().await;
}

#[tokio::test]
async fn an_event_is_published_soon_even_if_nobody_wakes_the_relay() {
    let world = World::new(1).await;
    let relay = world.relay();
    world.somebody_leads().await;
    let mut conn = world.pool.acquire().await.unwrap();
    outbox::enqueue(&mut conn, world.topic, &event(OrderId::generate(), 1)).await.unwrap();
    assert_eq!(version(&world.reader().read(1).await[0]), 1);
    relay.stop().await;
}

#[tokio::test]
async fn events_wait_while_there_is_no_broker_and_flow_when_it_comes() {
    let counted = Counted::default();
    let _installed = metrics::set_default_local_recorder(&counted);
    let world = World::embedded(1).await;
    let port = FreePort::new().await;
    let relay = world.relay_to(port.config(&world));
    world.commit(OrderId::generate(), 1..=3).await;
    let older =
        "update outbox set created_at = created_at - interval '90 seconds' where id = (select min(id) from outbox)";
    sqlx::query(older).execute(&world.pool).await.unwrap();
    eventually("the backlog is measured, and the age of the oldest", async || {
        (counted.get("outbox_backlog") == 3 && counted.get("outbox_oldest_age_seconds") >= 90).then_some(())
    })
    .await;
    assert_eq!(world.backlog().await, 3);

    let forwarding = port.forward_to(world.broker.embedded().unwrap()).await;
    let versions: Vec<_> = world.reader().read(3).await.iter().map(version).collect();
    assert_eq!(versions, [1, 2, 3]);
    eventually("the backlog is gone", async || {
        (counted.get("outbox_backlog") + counted.get("outbox_oldest_age_seconds") == 0).then_some(())
    })
    .await;
    relay.stop().await;
    forwarding.cancel();
}

#[tokio::test]
async fn events_wait_while_the_broker_is_cut_off_and_flow_when_it_is_back() {
    let counted = Counted::default();
    let _installed = metrics::set_default_local_recorder(&counted);
    let world = World::embedded(2).await;
    let relay = world.relay();
    world.commit(OrderId::generate(), 1..=1).await;
    let reader = world.reader();
    reader.read(1).await;
    world.everything_is_published().await;
    world.broker.embedded().unwrap().cut();
    let order = OrderId::generate();
    world.commit(order, 2..=4).await;
    let failures =
        async || counted.get("outbox_broker_unreachable_total") + counted.get("outbox_delivery_failures_total");
    eventually("several attempts failed", async || (failures().await >= 2).then_some(())).await;
    assert_eq!(world.backlog().await, 3);
    world.broker.embedded().unwrap().restore();
    world.everything_is_published().await;
    relay.stop().await;
    // A delivery that timed out may have been persisted all the same, so there may be more than these; the order in
    // which each came first is what counts.
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let next = version(&reader.read(1).await[0]);
        if !seen.contains(&next) {
            seen.push(next);
        }
    }
    assert_eq!(seen, [2, 3, 4]);
}

#[tokio::test]
async fn a_crash_between_publishing_and_marking_publishes_twice_and_takes_effect_once() {
    let world = World::new(1).await;
    let consumer = world.consumer(Recording(world.pool.clone()));
    world.commit(OrderId::generate(), 1..=1).await;
    // The row is locked, so the relay publishes it and hangs on marking it.
    let mut lock = world.pool.begin().await.unwrap();
    sqlx::query("select from outbox for update").execute(&mut *lock).await.unwrap();
    let first = world.relay();
    let reader = world.reader();
    reader.read(1).await;
    let marking: i32 = eventually("the mark hangs", async || {
        let waiting = "select pid from pg_stat_activity
                        where datname = current_database() and wait_event_type = 'Lock' and query like '%update outbox%'";
        sqlx::query_scalar(waiting).fetch_optional(&world.pool).await.unwrap()
    })
    .await;
    first.crash().await;
    // A dead process takes its connections with it.
    sqlx::query("select pg_terminate_backend($1, 10000)").bind(marking).execute(&world.pool).await.unwrap();
    lock.rollback().await.unwrap();
    assert_eq!(world.backlog().await, 1);

    let second = world.relay();
    assert_eq!(version(&reader.read(1).await[0]), 1);
    world.everything_is_published().await;
    second.stop().await;
    // The last event shows that the duplicate before it was consumed.
    world.produce_event(0, &event(OrderId::generate(), 9)).await;
    world.applied_are(&[1, 9]).await;
    consumer.stop().await;
}

#[tokio::test]
async fn a_second_relay_stands_by_and_takes_over_when_the_first_ones_lease_expires() {
    let world = World::new(1).await;
    let first = world.relay();
    let token = world.somebody_leads().await;
    let second = world.relay();
    let reader = world.reader();
    world.commit(OrderId::generate(), 1..=1).await;
    reader.read(1).await;
    let expiry = async || -> f64 {
        let expiry = "select extract(epoch from expires_at)::float8 from leases";
        sqlx::query_scalar(expiry).fetch_one(&world.pool).await.unwrap()
    };
    let at_first = expiry().await;
    eventually("it is renewed past its time to live", async || (expiry().await > at_first + 3.0).then_some(())).await;
    assert_eq!(world.lease_token().await, Some(token));
    first.crash().await;
    world.commit(OrderId::generate(), 2..=2).await;
    assert_eq!(version(&reader.read(1).await[0]), 2);
    assert_eq!(world.lease_token().await, Some(token + 1));
    second.stop().await;
}

#[tokio::test]
async fn a_stopped_relay_hands_its_lease_on_at_once() {
    let world = World::new(1).await;
    let mut config = relay_config(world.topic);
    config.lease_ttl = Duration::from_secs(600);
    let relay = world.relay_with(world.broker.config.clone(), config);
    world.somebody_leads().await;
    relay.stop().await;
    let next = durable::lease::acquire(&world.pool, "outbox-relay", uuid::Uuid::new_v4(), Duration::from_secs(1)).await;
    assert!(next.unwrap().is_some());
}

#[tokio::test]
async fn a_fresh_broker_gets_all_retained_events_and_they_take_effect_once() {
    let world = World::embedded(1).await;
    let port = FreePort::new().await;
    let forwarding = port.forward_to(world.broker.embedded().unwrap()).await;
    let relay = world.relay_to(port.config(&world));
    world.commit(OrderId::generate(), 1..=3).await;
    world.everything_is_published().await;
    let consumer = world.consumer(Recording(world.pool.clone()));
    world.applied_are(&[1, 2, 3]).await;
    consumer.stop().await;

    // The relay runs on while the broker is replaced behind its address.
    forwarding.cancel();
    let World { pool, outbox, broker, topic } = world;
    drop(broker);
    let broker = testkit::kafka::embedded(&topics(topic)).unwrap();
    let world = World { pool, outbox, broker, topic };
    let forwarding = port.forward_to(world.broker.embedded().unwrap()).await;
    world.commit(OrderId::generate(), 4..=4).await;
    let reader = world.reader();
    // All four, and the fourth perhaps twice: it may have gone out just before the new broker was recognised.
    let mut seen: Vec<i64> = Vec::new();
    while !(1..=4).all(|version| seen.contains(&version)) {
        seen.push(version(&reader.read(1).await[0]));
    }
    world.everything_is_published().await;
    let consumer = world.consumer(Recording(world.pool.clone()));
    world.applied_are(&[1, 2, 3, 4]).await;
    consumer.stop().await;
    relay.stop().await;
    forwarding.cancel();
}

#[tokio::test]
async fn an_event_that_cannot_be_delivered_holds_up_its_key_and_no_other() {
    let counted = Counted::default();
    let _installed = metrics::set_default_local_recorder(&counted);
    let world = World::new(1).await;
    let (stuck, free) = (OrderId::generate(), OrderId::generate());
    let mut too_large = event(stuck, 1);
    too_large.data = serde_json::json!({ "text": "x".repeat(2_000_000) });
    let mut conn = world.pool.acquire().await.unwrap();
    outbox::enqueue(&mut conn, world.topic, &too_large).await.unwrap();
    world.commit(stuck, 2..=2).await;
    world.commit(free, 3..=4).await;
    let relay = world.relay();
    let reader = world.reader();
    let versions: Vec<_> = reader.read(2).await.iter().map(version).collect();
    assert_eq!(versions, [3, 4]);
    eventually("it was tried again", async || (counted.get("outbox_delivery_failures_total") >= 3).then_some(())).await;
    world.commit(free, 5..=5).await;
    assert_eq!(version(&reader.read(1).await[0]), 5);
    eventually("only the stuck key waits", async || (world.backlog().await == 2).then_some(())).await;
    relay.stop().await;
}

#[tokio::test]
async fn a_producer_that_has_become_unusable_is_replaced_and_nothing_is_lost() {
    let counted = Counted::default();
    let _installed = metrics::set_default_local_recorder(&counted);
    let world = World::embedded(1).await;
    let relay = world.relay();
    let (order, reader) = (OrderId::generate(), world.reader());
    world.commit(order, 1..=1).await;
    reader.read(1).await;
    world.everything_is_published().await;
    world.broker.embedded().unwrap().lose_sequence();
    world.commit(order, 2..=4).await;
    let versions: Vec<_> = reader.read(3).await.iter().map(version).collect();
    assert_eq!(versions, [2, 3, 4]);
    world.everything_is_published().await;
    assert_eq!(counted.get("outbox_producer_fatal_total"), 1);
    relay.stop().await;
}

#[tokio::test]
async fn topics_are_created_on_a_real_broker_and_their_absence_does_no_harm_on_the_embedded_one() {
    let world = World::new(1).await;
    let mut config = relay_config(world.topic);
    config.topics.push(("later".to_owned(), 5));
    let relay = world.relay_with(world.broker.config.clone(), config);
    world.commit(OrderId::generate(), 1..=1).await;
    assert_eq!(version(&world.reader().read(1).await[0]), 1);
    let name = world.broker.config.prefixed("later");
    let partitions = || Reader::partitions(&world.broker.config, &name);
    if world.broker.embedded().is_some() {
        assert_eq!(partitions(), 0);
    } else {
        eventually("the topic is there", async || (partitions() == 5).then_some(())).await;
    }
    relay.stop().await;
}

/// A port that nobody listens on until a broker is put behind it.
struct FreePort(std::net::SocketAddr);

impl FreePort {
    async fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap())
    }

    fn config(&self, world: &World) -> events::KafkaConfig {
        events::KafkaConfig { bootstrap: self.0.to_string(), ..world.broker.config.clone() }
    }

    async fn forward_to(&self, broker: &EmbeddedBroker) -> CancellationToken {
        let stop = CancellationToken::new();
        let listener = eventually("the port is free", async || TcpListener::bind(self.0).await.ok()).await;
        tokio::spawn(embedded::forward(listener, broker.bootstrap().to_owned(), None, stop.clone()));
        stop
    }
}
