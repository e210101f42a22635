//! Dead letters, seen and sent again through the console.

use std::time::Duration;

use contracts::{Event, topic};
use events::{Consumer, ConsumerConfig, HandleError, Handler, Outcome, dlq};
use serde_json::json;
use testkit::{eventually, kafka};
use tokio_util::sync::CancellationToken;

use crate::desk::{Desk, body as answered};

/// Refuses everything.
struct Deaf;

impl Handler for Deaf {
    async fn handle(&self, _: &Event) -> Result<Outcome, HandleError> {
        Err(HandleError::Refused("never heard of it".to_owned()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_listed_counted_and_sent_again_once() {
    let broker = kafka::broker(&topic::all()).await.unwrap();
    let kafka = broker.config.clone();
    // Whose outbox it is does not matter.
    let said = Desk::open().await;
    let order = contracts::OrderId::generate();
    let event =
        contracts::event::OrderCancelled { order_id: order, reason: contracts::order::StatusReason::UserCancelled };
    // Through a real outbox: what a service says is what dies.
    let mut tx = said.stores.pool().begin().await.unwrap();
    durable::outbox::enqueue_data(&mut tx, &event, 1, None, chrono::Utc::now()).await.unwrap();
    tx.commit().await.unwrap();
    let relay = events::Relay::live(
        durable::outbox::Outbox::new(said.stores.pool().clone()),
        kafka.clone(),
        events::RelayConfig::default,
    );
    let stop = CancellationToken::new();
    let relay = tokio::spawn(relay.run(stop.clone()));
    let consumer = Consumer::new(kafka.clone(), "deaf", &[topic::ORDERS], Deaf, ConsumerConfig::default());
    let consumer = tokio::spawn(consumer.run(stop.clone()));
    let letters = eventually("it died", || async {
        let letters = dlq::list(&kafka, Some("orders")).await.unwrap();
        (!letters.is_empty()).then_some(letters)
    })
    .await;
    stop.cancel();
    relay.await.unwrap();
    consumer.await.unwrap().unwrap();

    let desk = Desk::with(|config| config.kafka = kafka.clone()).await;
    let shown = desk.seen("/v1/dead-letters?topic=orders").await;
    let letter = &shown["items"][0];
    let id = format!("orders.dlq-{}-{}", letters[0].partition, letters[0].offset);
    assert_eq!(
        (&letter["id"], &letter["topic"], &letter["origin_topic"]),
        (&json!(id), &json!("orders.dlq"), &json!("orders"))
    );
    assert_eq!((&letter["reason"], &letter["detail"]), (&json!("refused"), &json!("never heard of it")));
    assert_eq!((&letter["order_id"], &letter["event_type"]), (&json!(order), &json!("order.cancelled")));
    assert_eq!((&letter["replayed"], &letter["consumer"]), (&json!(false), &json!("deaf")));
    assert!(letter["payload"].as_str().unwrap().contains(&order.to_string()));
    eventually("it is counted", || async { (desk.seen("/v1/live").await["dead_letters"] == 1).then_some(()) }).await;

    let path = format!("/v1/dead-letters/{id}/replay");
    let first =
        answered(desk.posting(&path, &json!({"reason": "the consumer is mended"})).send().await.unwrap(), 200).await;
    let second = answered(desk.posting(&path, &json!({"reason": "a second click"})).send().await.unwrap(), 200).await;
    assert_eq!((first, second), (json!({"messages": 1}), json!({"messages": 0})));
    assert_eq!(desk.seen("/v1/dead-letters").await["items"][0]["replayed"], true);
    eventually("it is counted", || async { (desk.seen("/v1/live").await["dead_letters"] == 0).then_some(()) }).await;
    let did = desk.audit().await;
    let replayed = |reason: &str| ("ada".to_owned(), "replay".to_owned(), id.clone(), reason.to_owned());
    assert_eq!(did, [replayed("the consumer is mended"), replayed("a second click")]);

    let unknown = format!("/v1/dead-letters/orders.dlq-0-{}/replay", letters[0].offset + 100);
    answered(desk.posting(&unknown, &json!({"reason": "x"})).send().await.unwrap(), 404).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_without_a_reason_and_a_query_that_is_none_are_refused() {
    let desk = Desk::open().await;
    let long = "x".repeat(201);
    for (body, status) in [(json!({}), 400), (json!({"reason": " "}), 422), (json!({"reason": long}), 422)] {
        let answer = desk.posting("/v1/dead-letters/orders.dlq-0-1/replay", &body).send().await.unwrap();
        let detail = answered(answer, status).await["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("reason"), "{body}: {detail}");
    }
    answered(desk.posting("/v1/dead-letters/seven/replay", &json!({"reason": "x"})).send().await.unwrap(), 404).await;
    for (query, field) in [("limit=0", "limit"), ("limit=201", "limit"), ("topic=oders", "topic"), ("a=b", "query")] {
        let problem = answered(desk.get(&format!("/v1/dead-letters?{query}")).send().await.unwrap(), 400).await;
        assert_eq!(problem["errors"][0]["field"], field, "{query}");
    }
    assert_eq!(desk.audit().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_kafka_letters_are_not_known_and_the_console_goes_on() {
    let desk = Desk::open().await;
    let asked = desk.get("/v1/dead-letters").timeout(Duration::from_secs(30)).send().await.unwrap();
    assert_eq!(answered(asked, 503).await["mechanism"], "kafka");
    assert!(desk.seen("/v1/live").await["dead_letters"].is_null());
}
