//! From the broker to a handler.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use contracts::{Event, OrderId};
use events::{ConsumerConfig, HandleError, Handler, Outcome, dead_letter};
use rdkafka::{
    Message,
    message::{Headers, OwnedMessage},
};
use testkit::eventually;
use tokio::sync::Semaphore;

use crate::world::{Counted, GROUP, Reader, Recording, World, event, in_turn};

fn header(message: &OwnedMessage, key: &str) -> String {
    let found = message.headers().unwrap().iter().find(|header| header.key == key).expect(key);
    String::from_utf8(found.value.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn an_unreadable_message_becomes_a_dead_letter_and_those_behind_it_go_on() {
    let counted = Counted::default();
    let _installed = metrics::set_default_local_recorder(&counted);
    let world = World::new(1).await;
    let order = OrderId::generate();
    world.produce_event(0, &event(order, 1)).await;
    world.produce(0, "some key", b"\xffnot an event\0").await;
    world.produce_event(0, &event(order, 2)).await;
    let consumer = world.consumer(Recording(world.pool.clone()));
    world.applied_are(&[1, 2]).await;

    let letter = &Reader::dead_letters(&world).read(1).await[0];
    assert_eq!(letter.payload(), Some(&b"\xffnot an event\0"[..]));
    assert_eq!(letter.key(), Some(&b"some key"[..]));
    assert_eq!(header(letter, dead_letter::REASON), "unreadable");
    assert_eq!(header(letter, dead_letter::GROUP), GROUP);
    assert_eq!(header(letter, dead_letter::ORIGIN_TOPIC), world.broker.config.prefixed("orders"));
    assert_eq!(header(letter, dead_letter::ORIGIN_PARTITION), "0");
    assert_eq!(header(letter, dead_letter::ORIGIN_OFFSET), "1");
    assert!(!header(letter, dead_letter::DETAIL).is_empty());
    assert_eq!((counted.get("dead_letters_total"), counted.get("consumer_failures_total")), (1, 1));
    assert_eq!(counted.labels("consumer_failures_total"), ["group", "kind", "topic"]);
    consumer.stop().await;
}

/// Refuses version 1 for good.
struct Picky(Recording);

impl Handler for Picky {
    async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        match event.version {
            1 => Err(HandleError::Refused("never heard of it".to_owned())),
            _ => self.0.handle(event).await,
        }
    }
}

#[tokio::test]
async fn an_event_that_is_refused_for_good_becomes_a_dead_letter_at_once_with_its_headers() {
    let world = World::new(1).await;
    let relay = world.relay();
    let order = OrderId::generate();
    world.commit(order, 1..=2).await;
    let consumer = world.consumer(Picky(Recording(world.pool.clone())));
    world.applied_are(&[2]).await;
    let letter = &Reader::dead_letters(&world).read(1).await[0];
    assert_eq!(crate::world::version(letter), 1);
    assert_eq!(header(letter, dead_letter::REASON), "refused");
    assert_eq!(header(letter, dead_letter::DETAIL), "never heard of it");
    assert_eq!(header(letter, "traceparent"), crate::world::TRACEPARENT);
    consumer.stop().await;
    relay.stop().await;
}

/// Fails on version 1 until `succeed_after` attempts, in one of three ways in turn.
struct Flaky {
    inner: Recording,
    attempts: Arc<AtomicUsize>,
    succeed_after: Arc<AtomicUsize>,
}

impl Handler for Flaky {
    async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        if event.version == 1 {
            let attempt = self.attempts.fetch_add(1, Ordering::SeqCst);
            if attempt < self.succeed_after.load(Ordering::SeqCst) {
                match attempt % 3 {
                    0 => return Err(HandleError::transient("the database is away")),
                    1 => panic!("a fault in the handler"),
                    _ => std::future::pending().await,
                }
            }
        }
        self.inner.handle(event).await
    }
}

#[tokio::test]
async fn a_transient_failure_is_retried_in_place_skips_nothing_and_leaves_other_partitions_alone() {
    let world = World::new(2).await;
    let (attempts, succeed_after) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(usize::MAX)));
    let flaky = Flaky {
        inner: Recording(world.pool.clone()),
        attempts: Arc::clone(&attempts),
        succeed_after: Arc::clone(&succeed_after),
    };
    let config = ConsumerConfig {
        retry_after: Duration::from_millis(10),
        retry_after_max: Duration::from_millis(100),
        handle_limit: Duration::from_millis(200),
        ..in_turn()
    };
    for (partition, version) in [(0, 1), (0, 2), (0, 3)] {
        world.produce_event(partition, &event(OrderId::generate(), version)).await;
    }
    let consumer = world.consumer_with(flaky, config);
    eventually("it failed in every way", async || (attempts.load(Ordering::SeqCst) >= 4).then_some(())).await;
    for version in [11, 12] {
        world.produce_event(1, &event(OrderId::generate(), version)).await;
    }
    world.applied_are(&[11, 12]).await;
    succeed_after.store(0, Ordering::SeqCst);
    world.applied_are(&[11, 12, 1, 2, 3]).await;
    consumer.stop().await;
}

#[tokio::test]
async fn an_event_that_comes_twice_takes_effect_once() {
    let world = World::new(1).await;
    let twice = event(OrderId::generate(), 1);
    for event in [&twice, &twice, &event(OrderId::generate(), 2)] {
        world.produce_event(0, event).await;
    }
    let consumer = world.consumer(Recording(world.pool.clone()));
    world.applied_are(&[1, 2]).await;
    consumer.stop().await;
}

/// Lets one event through for each permit, and notes which ones it began with.
#[derive(Clone)]
struct Gated {
    gate: Arc<Semaphore>,
    begun: Arc<Mutex<Vec<i64>>>,
    inner: Recording,
}

impl Gated {
    fn new(world: &World) -> Self {
        Self { gate: Arc::new(Semaphore::new(0)), begun: Arc::default(), inner: Recording(world.pool.clone()) }
    }

    fn begun(&self) -> Vec<i64> {
        self.begun.lock().unwrap().clone()
    }
}

impl Handler for Gated {
    async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        self.begun.lock().unwrap().push(event.version);
        self.gate.acquire().await.unwrap().forget();
        self.inner.handle(event).await
    }
}

#[tokio::test]
async fn a_consumer_that_stops_finishes_the_message_in_hand_and_the_next_one_goes_on_behind_it() {
    let world = World::new(1).await;
    for version in 1..=3 {
        world.produce_event(0, &event(OrderId::generate(), version)).await;
    }
    let first = Gated::new(&world);
    let consumer = world.consumer(first.clone());
    eventually("the first message is in hand", async || (first.begun() == [1]).then_some(())).await;
    consumer.begin_to_stop();
    first.gate.add_permits(1);
    consumer.stop().await;
    assert_eq!(world.applied().await, [1]);
    assert_eq!(first.begun(), [1]);

    let second = Gated::new(&world);
    second.gate.add_permits(10);
    let consumer = world.consumer(second.clone());
    world.applied_are(&[1, 2, 3]).await;
    // The offset was committed: the first message did not come again.
    assert_eq!(second.begun(), [2, 3]);
    consumer.stop().await;
}

#[tokio::test]
async fn a_consumer_that_is_gone_in_the_middle_of_a_message_loses_and_repeats_nothing() {
    let world = World::new(1).await;
    for version in 1..=3 {
        world.produce_event(0, &event(OrderId::generate(), version)).await;
    }
    let first = Gated::new(&world);
    first.gate.add_permits(1);
    let consumer = world.consumer(first.clone());
    eventually("the second message is in hand", async || (first.begun() == [1, 2]).then_some(())).await;
    consumer.crash().await;
    let consumer = world.consumer(Recording(world.pool.clone()));
    world.applied_are(&[1, 2, 3]).await;
    consumer.stop().await;
}

/// Notes how far apart what was handed over and what was handled are.
#[derive(Clone)]
struct Slow {
    inner: Recording,
    last: Arc<AtomicI64>,
}

impl Handler for Slow {
    async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        let previous = self.last.swap(event.version, Ordering::SeqCst);
        if previous + 1 != event.version {
            return Err(HandleError::Refused(format!("{} came after {previous}", event.version)));
        }
        self.inner.handle(event).await
    }
}

#[tokio::test]
async fn a_partition_that_is_paused_for_a_slow_handler_goes_on_without_a_gap() {
    let counted = Counted::default();
    let _installed = metrics::set_default_local_recorder(&counted);
    let world = World::new(1).await;
    let relay = world.relay();
    world.commit(OrderId::generate(), 1..=300).await;
    world.everything_is_published().await;
    let slow = Slow { inner: Recording(world.pool.clone()), last: Arc::default() };
    let consumer = world.consumer_with(slow, ConsumerConfig { max_waiting: 40, ..in_turn() });
    world.applied_are(&(1..=300).collect::<Vec<_>>()).await;
    assert_eq!(counted.get("consumer_missed_messages_total"), 0);
    consumer.stop().await;
    relay.stop().await;
}

#[tokio::test]
async fn a_paused_partition_goes_on_after_it_was_taken_away_and_given_back() {
    let world = World::new(2).await;
    for version in 1..=30 {
        world.produce_event(0, &event(OrderId::generate(), version)).await;
        world.produce_event(1, &event(OrderId::generate(), 100 + version)).await;
    }
    // Both partitions are full up to here, and paused behind a handler that does not come to an end.
    let (first, second) = (Gated::new(&world), Gated::new(&world));
    let little = ConsumerConfig { max_waiting: 4, stop_limit: Duration::from_millis(200), ..in_turn() };
    let consumer = world.consumer_with(first.clone(), little.clone());
    eventually("the first messages are in hand", async || (first.begun().len() == 2).then_some(())).await;
    // A second member takes one of them, so all are revoked and assigned anew; then it leaves, and so once more.
    let other = world.consumer_with(second.clone(), little);
    eventually("the other member has its share", async || (!second.begun().is_empty()).then_some(())).await;
    other.stop().await;
    first.gate.add_permits(1_000);
    eventually("everything took effect", async || (world.applied().await.len() == 60).then_some(())).await;
    consumer.stop().await;
}

/// Skips types that it does not know, as every handler of ours has to.
struct Choosy(Recording);

impl Handler for Choosy {
    async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        if event.kind == "order.rejected" { self.0.handle(event).await } else { Ok(Outcome::Ignored) }
    }
}

#[tokio::test]
async fn an_event_of_an_unknown_type_is_passed_over() {
    let world = World::new(1).await;
    let mut unknown = event(OrderId::generate(), 1);
    unknown.kind = "order.teleported".to_owned();
    for event in [&unknown, &event(OrderId::generate(), 2)] {
        world.produce_event(0, event).await;
    }
    let consumer = world.consumer(Choosy(Recording(world.pool.clone())));
    world.applied_are(&[2]).await;
    consumer.stop().await;
}

#[tokio::test]
async fn two_members_share_the_partitions_and_all_events_take_effect_once() {
    let world = World::new(4).await;
    let relay = world.relay();
    let first = world.consumer(Recording(world.pool.clone()));
    for version in 1..=40 {
        world.commit(OrderId::generate(), version..=version).await;
    }
    let second = world.consumer(Recording(world.pool.clone()));
    for version in 41..=80 {
        world.commit(OrderId::generate(), version..=version).await;
    }
    eventually("all took effect", async || (world.applied().await.len() >= 80).then_some(())).await;
    first.stop().await;
    for version in 81..=100 {
        world.commit(OrderId::generate(), version..=version).await;
    }
    eventually("all took effect", async || (world.applied().await.len() >= 100).then_some(())).await;
    let applied = world.applied().await;
    assert_eq!(applied.len(), 100);
    assert_eq!(applied.into_iter().collect::<HashSet<_>>().len(), 100);
    second.stop().await;
    relay.stop().await;
}

#[tokio::test]
async fn messages_that_the_embedded_broker_dropped_before_they_were_read_are_counted() {
    let counted = Counted::default();
    let _installed = metrics::set_default_local_recorder(&counted);
    let world = World::embedded(1).await;
    // 8 × 900 KB on a partition that keeps 5 MiB.
    for version in 1..=8 {
        let mut large = event(OrderId::generate(), version);
        large.data = serde_json::json!({ "text": "x".repeat(900_000) });
        world.produce_event(0, &large).await;
    }
    let consumer = world.consumer(Recording(world.pool.clone()));
    eventually("the last one took effect", async || world.applied().await.contains(&8).then_some(())).await;
    let missed = 8 - world.applied().await.len() as u64;
    assert!(missed > 0);
    assert_eq!(counted.get("consumer_missed_messages_total"), missed);
    consumer.stop().await;
}

#[tokio::test]
async fn the_lag_counts_what_has_not_taken_effect_from_the_first_message_on() {
    let counted = Counted::default();
    let _installed = metrics::set_default_local_recorder(&counted);
    let world = World::new(2).await;
    for version in 1..=3 {
        world.produce_event(0, &event(OrderId::generate(), version)).await;
    }
    let gated = Gated::new(&world);
    let consumer = world.consumer(gated.clone());
    eventually("the first message is in hand", async || (gated.begun() == [1]).then_some(())).await;
    eventually("three are behind", async || (counted.get("kafka_consumer_lag") == 3).then_some(())).await;
    gated.gate.add_permits(2);
    eventually("one is behind", async || (counted.get("kafka_consumer_lag") == 1).then_some(())).await;
    gated.gate.add_permits(1);
    consumer.stop().await;
}
