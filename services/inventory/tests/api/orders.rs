//! Events of orders: over a broker, and straight into the handler.

use chrono::Utc;
use contracts::{
    Currency, Event, OrderId, UserId,
    event::{EventData, OrderCancelled, OrderConfirmed, OrderRejected, PaymentUnknown},
    inventory::ReservationState,
    order::StatusReason,
    topic::{self, Topic},
};
use durable::outbox::{self, Outbox};
use events::{Consumer, ConsumerConfig, HandleError, Handler, KafkaConfig, Outcome, Relay, RelayConfig};
use inventory::events::Orders;
use serde_json::json;
use testkit::{eventually, kafka};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::shop::{Shop, held};

fn confirmed(order_id: OrderId) -> OrderConfirmed {
    OrderConfirmed {
        order_id,
        user_id: UserId::generate(),
        items: vec![],
        currency: Currency::USD,
        total_minor: 100,
        coupon_code: None,
    }
}

fn event(data: &impl EventData) -> Event {
    Event::new(data, 1, None, Utc::now()).unwrap()
}

async fn state(shop: &Shop, order: OrderId) -> ReservationState {
    held(shop.reservation(order).await).await.state
}

#[tokio::test]
async fn a_confirmation_that_is_delivered_twice_takes_effect_once() {
    let shop = Shop::open().await;
    let orders = Orders { database: shop.database.clone() };
    let order = shop.hold(&[("CUP-MUG-BLUE", 2)]).await;
    let event = event(&confirmed(order));
    assert_eq!(orders.handle(&event).await.unwrap(), Outcome::Applied);
    assert_eq!(orders.handle(&event).await.unwrap(), Outcome::Duplicate);
    assert_eq!(state(&shop, order).await, ReservationState::Committed);
    assert_eq!(shop.units("CUP-MUG-BLUE").await, (9_998, 0, 2));
}

// Trace 19.
#[tokio::test]
async fn a_confirmation_that_comes_after_the_cancellation_sells_nothing() {
    let shop = Shop::open().await;
    let orders = Orders { database: shop.database.clone() };
    let order = shop.hold(&[("CUP-MUG-BLUE", 2)]).await;
    let cancelled = OrderCancelled { order_id: order, reason: StatusReason::UserCancelled };
    assert_eq!(orders.handle(&event(&cancelled)).await.unwrap(), Outcome::Applied);
    assert_eq!(orders.handle(&event(&confirmed(order))).await.unwrap(), Outcome::Applied);
    assert_eq!(state(&shop, order).await, ReservationState::Released);
    assert_eq!(shop.units("CUP-MUG-BLUE").await, (10_000, 0, 0));
}

// Trace 25.
#[tokio::test]
async fn the_rejection_of_an_order_never_seen_refuses_its_reservation_from_then_on() {
    let shop = Shop::open().await;
    let orders = Orders { database: shop.database.clone() };
    let order = OrderId::generate();
    let rejected = OrderRejected { order_id: order, reason: StatusReason::InventoryUnavailable };
    assert_eq!(orders.handle(&event(&rejected)).await.unwrap(), Outcome::Applied);
    assert_eq!(shop.reserve(order, &[("CUP-MUG-BLUE", 1)]).await.status(), 409);
    assert_eq!(shop.units("CUP-MUG-BLUE").await, (10_000, 0, 0));
}

#[tokio::test]
async fn what_can_never_take_effect_is_refused_for_good_and_leaves_nothing_in_the_inbox() {
    let shop = Shop::open().await;
    let orders = Orders { database: shop.database.clone() };
    let never_held = event(&confirmed(OrderId::generate()));
    let mut garbled = event(&OrderRejected { order_id: OrderId::generate(), reason: StatusReason::Expired });
    garbled.data = json!({"order_id": 7});
    for event in [never_held, garbled] {
        let refusal = orders.handle(&event).await.unwrap_err();
        assert!(matches!(refusal, HandleError::Refused(_)), "{refusal}");
    }
    let inbox: i64 = sqlx::query_scalar("select count(*) from inbox").fetch_one(shop.database.pool()).await.unwrap();
    assert_eq!(inbox, 0);
}

#[tokio::test]
async fn a_database_that_is_gone_is_waited_for() {
    let shop = Shop::open().await;
    let orders = Orders { database: shop.database.clone() };
    shop.database.close().await;
    let failure = orders.handle(&event(&confirmed(OrderId::generate()))).await.unwrap_err();
    assert!(matches!(failure, HandleError::Transient(_)), "{failure}");
}

#[tokio::test]
async fn events_of_other_kinds_mean_nothing_here() {
    let shop = Shop::open().await;
    let orders = Orders { database: shop.database.clone() };
    let other = PaymentUnknown { order_id: OrderId::generate(), attempt_id: contracts::AttemptId::generate() };
    assert_eq!(orders.handle(&event(&other)).await.unwrap(), Outcome::Ignored);
}

/// Publishes through an outbox, as order does.
struct Publisher {
    shop: Shop,
    stop: CancellationToken,
}

impl Publisher {
    fn start(shop: Shop, kafka: &KafkaConfig) -> Self {
        let stop = CancellationToken::new();
        let relay = Relay::new(Outbox::new(shop.database.pool().clone()), kafka.clone(), RelayConfig::default());
        tokio::spawn(relay.run(stop.clone()));
        Self { shop, stop }
    }

    async fn publish(&self, event: &Event) {
        let mut conn = self.shop.database.pool().acquire().await.unwrap();
        outbox::enqueue(&mut conn, topic::ORDERS, event).await.unwrap();
    }

    async fn publish_again(&self, event: &Event) {
        eventually("the event is published", || async {
            let again =
                sqlx::query("update outbox set published_at = null where event_id = $1 and published_at is not null");
            let updated = again.bind(event.id()).execute(self.shop.database.pool()).await.unwrap();
            (updated.rows_affected() == 1).then_some(())
        })
        .await;
    }
}

struct Collect(mpsc::UnboundedSender<Event>);

impl Handler for Collect {
    async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        self.0.send(event.clone()).map_err(HandleError::transient)?;
        Ok(Outcome::Applied)
    }
}

const DEAD_LETTERS: Topic = Topic { name: "orders.dlq", partitions: 1 };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_on_the_topic_settle_their_reservations_and_what_cannot_goes_to_the_dead_letters() {
    let broker = kafka::broker(&topic::all()).await.unwrap();
    let shop = Shop::open_with(broker.config.clone()).await;
    let publisher = Publisher::start(shop, &broker.config);
    let shop = &publisher.shop;
    let (paid, dead) = (shop.hold(&[("CUP-MUG-BLUE", 2)]).await, shop.hold(&[("CUP-MUG-BLUE", 1)]).await);

    let sold = event(&confirmed(paid));
    publisher.publish(&sold).await;
    publisher.publish(&event(&OrderRejected { order_id: dead, reason: StatusReason::PaymentDeclined })).await;
    let never_held = event(&confirmed(OrderId::generate()));
    publisher.publish(&never_held).await;
    publisher.publish_again(&sold).await;

    eventually("both orders are settled", || async {
        let states = (state(shop, paid).await, state(shop, dead).await);
        (states == (ReservationState::Committed, ReservationState::Released)).then_some(())
    })
    .await;
    assert_eq!(shop.units("CUP-MUG-BLUE").await, (9_998, 0, 2));

    let (letters, mut received) = mpsc::unbounded_channel();
    let reader =
        Consumer::new(broker.config.clone(), "reader", &[DEAD_LETTERS], Collect(letters), ConsumerConfig::default());
    let reading = tokio::spawn(reader.run(publisher.stop.clone()));
    let letter = tokio::time::timeout(std::time::Duration::from_secs(30), received.recv()).await.unwrap().unwrap();
    assert_eq!(letter.id, never_held.id);

    publisher.stop.cancel();
    reading.await.unwrap().unwrap();
    // Whatever was delivered twice by now has not sold twice.
    assert_eq!(shop.units("CUP-MUG-BLUE").await, (9_998, 0, 2));
    let Publisher { shop, .. } = publisher;
    shop.app.running.stop().await;
}
