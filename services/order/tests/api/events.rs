use chrono::Utc;
use contracts::{
    AttemptId, Currency, Event, OrderId,
    event::{EventData, PaymentApproved, PaymentDeclined},
    payment::Channel,
};
use durable::{Database, outbox};
use serde_json::{Value, json};
use testkit::{Reply, eventually};

use crate::world::{World, tea};

async fn pending(world: &World) -> (OrderId, AttemptId, Value) {
    world.payment.behave(|_| Reply::Close);
    let (_, order) = world.place("k", &tea()).await;
    let id = order["id"].as_str().unwrap().parse().unwrap();
    (id, order["payment"]["attempt_id"].as_str().unwrap().parse().unwrap(), order)
}

fn approved(order_id: OrderId, attempt_id: AttemptId) -> PaymentApproved {
    PaymentApproved {
        order_id,
        attempt_id,
        channel: Channel::Primary,
        provider_ref: "ch_1".into(),
        amount_minor: 1_000,
        currency: Currency::USD,
    }
}

/// As payment would say it. The order service's own relay carries it to the broker.
async fn say<D: EventData>(db: &Database, data: &D) -> Event {
    let event = Event::new(data, 1, None, Utc::now()).unwrap();
    publish(db, &event, D::TOPIC).await;
    event
}

async fn publish(db: &Database, event: &Event, topic: contracts::topic::Topic) {
    let mut tx = db.pool().begin().await.unwrap();
    outbox::enqueue(&mut tx, topic, event).await.unwrap();
    tx.commit().await.unwrap();
}

async fn until_status(world: &World, id: OrderId, status: &str) -> Value {
    eventually(status, || async {
        let (_, order) = world.get(&format!("/v1/orders/{id}")).await;
        (order["status"] == status).then_some(order)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_order_is_settled_by_what_payment_says_later() {
    let world = World::start().await;
    let (id, attempt, _) = pending(&world).await;
    let event = say(&world.db, &approved(id, attempt)).await;
    let order = until_status(&world, id, "confirmed").await;
    assert_eq!(order["payment"]["state"], "approved");
    assert_eq!(world.place("k", &tea()).await.0, 201);

    // The same event again, under the id that it had: once applied, once dropped.
    sqlx::query("update outbox set published_at = null where event_id = $1")
        .bind(event.id())
        .execute(world.db.pool())
        .await
        .unwrap();
    // And once more as another event: already so.
    let second = say(&world.db, &approved(id, attempt)).await;
    eventually("the second one is received", || async {
        let seen: i64 = sqlx::query_scalar("select count(*) from inbox where event_id = $1")
            .bind(second.id())
            .fetch_one(world.db.pool())
            .await
            .unwrap();
        (seen == 1).then_some(())
    })
    .await;
    let confirmed = world.events().await.iter().filter(|kind| *kind == "order.confirmed").count();
    assert_eq!(confirmed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decline_rejects_a_pending_order() {
    let world = World::start().await;
    let (order_id, attempt_id, _) = pending(&world).await;
    let declined =
        PaymentDeclined { order_id, attempt_id, channel: Channel::Primary, decline_code: "stolen_card".into() };
    say(&world.db, &declined).await;
    let order = until_status(&world, order_id, "rejected").await;
    assert_eq!(order["status_reason"], json!("payment_declined"));
    // The client that was told "pending" is shown what became of it.
    let (status, replayed) = world.place("k", &tea()).await;
    assert_eq!((status, &replayed["status"]), (202, &json!("rejected")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_can_never_apply_does_not_stop_those_behind_it() {
    let world = World::start().await;
    let (id, attempt, _) = pending(&world).await;
    say(&world.db, &approved(id, AttemptId::generate())).await;
    say(&world.db, &approved(OrderId::generate(), attempt)).await;
    let mut garbled = Event::new(&approved(id, attempt), 1, None, Utc::now()).unwrap();
    garbled.data = json!({"order_id": 7});
    publish(&world.db, &garbled, PaymentApproved::TOPIC).await;
    say(&world.db, &approved(id, attempt)).await;
    until_status(&world, id, "confirmed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_order_service_says_reaches_the_broker() {
    let world = World::start().await;
    world.place("k", &tea()).await;
    eventually("the event is published", || async {
        (world.count("select count(*) from outbox where published_at is null").await == 0).then_some(())
    })
    .await;
}
