//! Events of orders: over a broker, and straight into the handler.

use chrono::Utc;
use contracts::{
    AttemptId, Currency, Event, OrderId, ProblemType, UserId,
    coupon::RedemptionState,
    event::{EventData, OrderCancelled, OrderConfirmed, OrderRejected, PaymentUnknown},
    order::StatusReason,
    topic,
};
use coupon::events::Orders;
use durable::outbox::{self, Outbox};
use events::{HandleError, Handler, Outcome};
use serde_json::json;
use testkit::{eventually, kafka};

use crate::till::{Till, redeemed, refused};

fn confirmed(order_id: OrderId, code: Option<&str>) -> OrderConfirmed {
    OrderConfirmed {
        order_id,
        user_id: UserId::generate(),
        items: vec![],
        currency: Currency::USD,
        total_minor: 900,
        coupon_code: code.map(str::to_owned),
    }
}

fn handler(till: &Till) -> Orders {
    Orders { database: till.database.clone(), outbox: Outbox::new(till.database.pool().clone()) }
}

fn event(data: &impl EventData) -> Event {
    Event::new(data, 1, None, Utc::now()).unwrap()
}

async fn state(till: &Till, order: OrderId) -> RedemptionState {
    redeemed(till.redemption(order).await).await.state
}

#[tokio::test]
async fn a_confirmation_commits_and_a_cancellation_gives_back_each_once() {
    let till = Till::open().await;
    let orders = handler(&till);
    let order = till.hold("WELCOME10").await;
    let paid = event(&confirmed(order, Some("WELCOME10")));
    assert_eq!(orders.handle(&paid).await.unwrap(), Outcome::Applied);
    assert_eq!(orders.handle(&paid).await.unwrap(), Outcome::Duplicate);
    assert_eq!(state(&till, order).await, RedemptionState::Committed);

    let cancelled = event(&OrderCancelled { order_id: order, reason: StatusReason::UserCancelled });
    assert_eq!(orders.handle(&cancelled).await.unwrap(), Outcome::Applied);
    assert_eq!(orders.handle(&cancelled).await.unwrap(), Outcome::Duplicate);
    assert_eq!(state(&till, order).await, RedemptionState::Returned);
    assert_eq!(till.coupon("WELCOME10").await.redeemed, 0);
}

// Trace 19, of the coupon.
#[tokio::test]
async fn a_confirmation_that_comes_after_the_cancellation_redeems_nothing() {
    let till = Till::open().await;
    let orders = handler(&till);
    let order = till.hold("WELCOME10").await;
    let cancelled = OrderCancelled { order_id: order, reason: StatusReason::UserCancelled };
    assert_eq!(orders.handle(&event(&cancelled)).await.unwrap(), Outcome::Applied);
    assert_eq!(orders.handle(&event(&confirmed(order, Some("WELCOME10")))).await.unwrap(), Outcome::Applied);
    assert_eq!(state(&till, order).await, RedemptionState::Released);
    assert_eq!(till.coupon("WELCOME10").await.redeemed, 0);
}

#[tokio::test]
async fn a_confirmation_whose_coupon_was_never_redeemed_here_is_no_error_and_leaves_the_way_open() {
    let till = Till::open().await;
    let orders = handler(&till);
    let order = OrderId::generate();
    let pending = event(&confirmed(order, Some("WELCOME10")));
    assert_eq!(orders.handle(&pending).await.unwrap(), Outcome::Applied);
    assert_eq!(orders.handle(&pending).await.unwrap(), Outcome::Duplicate);
    refused(till.redemption(order).await, ProblemType::NotFound).await;
    assert_eq!(till.redeem(order, UserId::generate(), "WELCOME10", 1_000).await.status(), 201);
}

#[tokio::test]
async fn the_rejection_of_an_order_never_seen_refuses_its_redemption_from_then_on() {
    let till = Till::open().await;
    let orders = handler(&till);
    let order = OrderId::generate();
    let rejected = OrderRejected { order_id: order, reason: StatusReason::PaymentDeclined };
    assert_eq!(orders.handle(&event(&rejected)).await.unwrap(), Outcome::Applied);
    let late = till.redeem(order, UserId::generate(), "WELCOME10", 1_000).await;
    refused(late, ProblemType::ReservationReleased).await;
}

#[tokio::test]
async fn orders_without_a_coupon_and_events_of_other_kinds_mean_nothing_here() {
    let till = Till::open().await;
    let orders = handler(&till);
    let order_id = OrderId::generate();
    let unknown = PaymentUnknown { order_id, attempt_id: AttemptId::generate() };
    assert_eq!(orders.handle(&event(&unknown)).await.unwrap(), Outcome::Ignored);
    assert_eq!(orders.handle(&event(&confirmed(order_id, None))).await.unwrap(), Outcome::Ignored);
}

#[tokio::test]
async fn an_event_that_cannot_be_read_is_refused_for_good_and_a_database_that_is_gone_is_waited_for() {
    let till = Till::open().await;
    let orders = handler(&till);
    let mut garbled = event(&OrderRejected { order_id: OrderId::generate(), reason: StatusReason::Expired });
    garbled.data = json!({"order_id": 7});
    assert!(matches!(orders.handle(&garbled).await, Err(HandleError::Refused(_))));
    till.database.close().await;
    let sound = event(&confirmed(OrderId::generate(), Some("WELCOME10")));
    assert!(matches!(orders.handle(&sound).await, Err(HandleError::Transient(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_on_the_topic_settle_their_redemptions() {
    let broker = kafka::broker(&topic::all()).await.unwrap();
    let till = Till::open_with(broker.config.clone()).await;
    let (paid, dead) = (till.hold("WELCOME10").await, till.hold("FIVEOFF").await);

    // Published through the outbox that is at hand; order has one like it.
    let rejected = OrderRejected { order_id: dead, reason: StatusReason::PaymentDeclined };
    let mut conn = till.database.pool().acquire().await.unwrap();
    for event in [event(&confirmed(paid, Some("WELCOME10"))), event(&rejected)] {
        outbox::enqueue(&mut conn, topic::ORDERS, &event).await.unwrap();
    }
    drop(conn);

    eventually("both orders are settled", || async {
        let states = (state(&till, paid).await, state(&till, dead).await);
        (states == (RedemptionState::Committed, RedemptionState::Released)).then_some(())
    })
    .await;
    till.app.running.stop().await;
}
