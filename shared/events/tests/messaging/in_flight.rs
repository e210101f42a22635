//! Several messages of a partition in hand at once.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use contracts::{Event, OrderId};
use events::{ConsumerConfig, HandleError, Handler, Outcome};
use testkit::eventually;
use tokio::{sync::Semaphore, time::sleep};

use crate::world::{Recording, World, event};

/// Holds the events of one order back until it gets a permit for each.
#[derive(Clone)]
struct SlowKey {
    slow: OrderId,
    gate: Arc<Semaphore>,
    begun: Arc<Mutex<Vec<i64>>>,
    inner: Recording,
}

impl SlowKey {
    fn new(world: &World, slow: OrderId) -> Self {
        let inner = Recording(world.pool.clone());
        Self { slow, gate: Arc::new(Semaphore::new(0)), begun: Arc::default(), inner }
    }

    fn begun(&self) -> Vec<i64> {
        self.begun.lock().unwrap().clone()
    }
}

impl Handler for SlowKey {
    async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        self.begun.lock().unwrap().push(event.version);
        if event.subject == self.slow {
            self.gate.acquire().await.unwrap().forget();
        }
        self.inner.handle(event).await
    }
}

#[tokio::test]
async fn a_slow_key_holds_up_no_other_and_what_ended_behind_it_is_not_committed_before_it() {
    let world = World::new(1).await;
    let slow = OrderId::generate();
    for (order, version) in [(slow, 1), (slow, 2)].into_iter().chain((3..=20).map(|n| (OrderId::generate(), n))) {
        world.produce_event(0, &event(order, version)).await;
    }
    let handler = SlowKey::new(&world, slow);
    let consumer = world.consumer_with(handler.clone(), ConsumerConfig::default());
    eventually("the other keys are done", async || (world.applied().await.len() == 18).then_some(())).await;
    assert_eq!(handler.begun().iter().filter(|version| **version <= 2).count(), 1, "one of a key at a time");

    // Gone at the worst moment: all but the first have ended. Nothing is lost, and nothing takes effect twice.
    consumer.crash().await;
    let handler = SlowKey::new(&world, slow);
    handler.gate.add_permits(2);
    let consumer = world.consumer_with(handler.clone(), ConsumerConfig::default());
    eventually("all took effect", async || (world.applied().await.len() >= 20).then_some(())).await;
    assert_eq!(world.applied().await.into_iter().collect::<HashSet<_>>(), (1..=20).collect());
    let came_again = async || handler.begun().contains(&20).then_some(());
    eventually("what had ended behind the first came again", came_again).await;
    consumer.stop().await;

    // Now the whole of it is behind the prefix, and committed.
    let handler = SlowKey::new(&world, slow);
    let consumer = world.consumer_with(handler.clone(), ConsumerConfig::default());
    world.produce_event(0, &event(OrderId::generate(), 21)).await;
    eventually("the last one is handled", async || (!handler.begun().is_empty()).then_some(())).await;
    assert_eq!(handler.begun(), [21]);
    consumer.stop().await;
    assert_eq!(world.applied().await.len(), 21);
}

#[tokio::test]
async fn a_stop_finishes_what_is_in_hand_and_begins_with_nothing_behind_it() {
    let world = World::new(1).await;
    let slow = OrderId::generate();
    for version in 1..=2 {
        world.produce_event(0, &event(slow, version)).await;
    }
    world.produce_event(0, &event(OrderId::generate(), 3)).await;
    let handler = SlowKey::new(&world, slow);
    let consumer = world.consumer_with(handler.clone(), ConsumerConfig::default());
    world.applied_are(&[3]).await;
    consumer.begin_to_stop();
    handler.gate.add_permits(2);
    consumer.stop().await;
    assert_eq!(world.applied().await, [3, 1]);
    let consumer = world.consumer(Recording(world.pool.clone()));
    world.applied_are(&[3, 1, 2]).await;
    consumer.stop().await;
}

/// Takes longer for some events than for others, and notes how many it has in hand.
#[derive(Clone)]
struct Uneven {
    inner: Recording,
    seen: Arc<Mutex<HashMap<OrderId, Vec<i64>>>>,
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Handler for Uneven {
    async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        sleep(Duration::from_millis(event.version.unsigned_abs() % 7 * 3)).await;
        let outcome = self.inner.handle(event).await;
        self.seen.lock().unwrap().entry(event.subject).or_default().push(event.version);
        self.now.fetch_sub(1, Ordering::SeqCst);
        outcome
    }
}

#[tokio::test]
async fn events_of_a_key_keep_their_order_and_the_number_in_hand_its_bound() {
    let world = World::new(3).await;
    let relay = world.relay();
    let orders: Vec<_> = (0..12).map(|_| OrderId::generate()).collect();
    for version in 0..20 {
        for order in &orders {
            world.commit(*order, version..=version).await;
        }
    }
    let handler = Uneven {
        inner: Recording(world.pool.clone()),
        seen: Arc::default(),
        now: Arc::default(),
        most: Arc::default(),
    };
    let config = ConsumerConfig {
        max_in_flight: 5.try_into().unwrap(),
        max_in_flight_per_partition: 4.try_into().unwrap(),
        // Pauses often.
        max_waiting: 16,
        ..ConsumerConfig::default()
    };
    let consumer = world.consumer_with(handler.clone(), config);
    eventually("all took effect", async || (world.applied().await.len() >= 240).then_some(())).await;
    consumer.stop().await;
    relay.stop().await;
    for order in orders {
        assert_eq!(handler.seen.lock().unwrap()[&order], (0..20).collect::<Vec<_>>());
    }
    let most = handler.most.load(Ordering::SeqCst);
    assert!((2..=5).contains(&most), "{most} at once");
}
