//! `dlq`: a message that nobody can use, from the outbox of a service to a person and back.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use contracts::{Event, topic};
use durable::outbox::Outbox;
use events::{Consumer, ConsumerConfig, HandleError, Handler, Outcome, Relay, RelayConfig};
use serde_json::Value;
use testkit::{TestDatabase, eventually, kafka};
use tokio_util::sync::CancellationToken;

use crate::checkout::Checkout;

/// Counts what it gets and can use none of it; what is no event at all does not get so far.
#[derive(Default, Clone)]
struct Unwilling(Arc<AtomicUsize>);

impl Handler for Unwilling {
    async fn handle(&self, _: &Event) -> Result<Outcome, HandleError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Err(HandleError::Refused("not for me".to_owned()))
    }
}

fn listed(checkout: &Checkout) -> Vec<Value> {
    let said = checkout.run(&["dlq", "list", "--topic", "orders", "--json"]).succeeded();
    serde_json::from_str(&said.out).unwrap()
}

async fn letters(checkout: &Checkout, count: usize) -> Vec<Value> {
    eventually(&format!("{count} letters"), async || {
        let letters = listed(checkout);
        (letters.len() >= count).then_some(letters)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn poisoned_messages_are_listed_and_sent_again_once() {
    let broker = kafka::embedded(&topic::all()).unwrap();
    let checkout = Checkout::new();
    checkout.up(&["--kafka", &broker.config.bootstrap]).succeeded();
    checkout.run(&["dlq", "list"]).succeeded().says("0 dead letters");
    assert_eq!(listed(&checkout), Vec::<Value>::new());

    let test_database = TestDatabase::create().await;
    let database = test_database.connect().await;
    durable::migrations::MIGRATIONS.run(database.pool()).await.unwrap();
    let (stop, handler) = (CancellationToken::new(), Unwilling::default());
    let relay = Relay::new(Outbox::new(database.pool().clone()), broker.config.clone(), RelayConfig::default());
    let consumer =
        Consumer::new(broker.config.clone(), "unwilling", &[topic::ORDERS], handler.clone(), ConsumerConfig::default());
    let running = (tokio::spawn(relay.run(stop.clone())), tokio::spawn(consumer.run(stop.clone())));
    let id = "01990000-0000-7000-8000-000000000001";
    let event = format!(
        r#"{{"specversion": "1.0", "id": "{id}", "source": "order", "type": "order.teleported", "subject": "{id}",
            "time": "2026-01-01T00:00:00Z", "datacontenttype": "application/json", "version": 1, "data": {{}}}}"#
    );
    for payload in [event.as_str(), "{\"poison\": true}"] {
        sqlx::query("insert into outbox (event_id, topic, key, payload) values (gen_random_uuid(), 'orders', 'k', $1)")
            .bind(payload)
            .execute(database.pool())
            .await
            .unwrap();
    }

    let found = letters(&checkout, 2).await;
    let seen = |letter: &Value, name: &str| letter[name].as_str().map(str::to_owned);
    let reasons: Vec<_> = found.iter().filter_map(|letter| seen(letter, "reason")).collect();
    assert_eq!(reasons, ["refused", "unreadable"]);
    assert_eq!(seen(&found[0], "event_id").as_deref(), Some(id));
    for letter in &found {
        assert_eq!((letter["key"].as_str(), letter["origin_topic"].as_str()), (Some("k"), Some("orders")), "{letter}");
        assert_eq!((letter["group"].as_str(), letter["replayed"].as_bool()), (Some("unwilling"), Some(false)));
    }
    let said = checkout.run(&["dlq", "list"]).succeeded();
    said.says(&format!("unwilling refused: order.teleported {id}: not for me")).says("2 of them not sent again");

    // One by its event, then all that are left; each dies again, as a new letter.
    checkout.run(&["dlq", "replay", "--id", id]).succeeded().says("1 messages were sent again, of 1 dead");
    letters(&checkout, 3).await;
    assert_eq!(handler.0.load(Ordering::SeqCst), 2);
    checkout
        .run(&["dlq", "replay", "--all", "--topic", "orders.dlq"])
        .succeeded()
        .says("2 messages were sent again, of 2 dead");
    let after = letters(&checkout, 5).await;
    let replayed: Vec<_> = after.iter().filter_map(|letter| letter["replayed"].as_bool()).collect();
    assert_eq!(replayed, [true, true, true, false, false]);

    checkout.run(&["dlq", "list", "--topic", "oders"]).says("there is no topic oders");
    stop.cancel();
    running.0.await.unwrap();
    running.1.await.unwrap().unwrap();
}

#[test]
fn without_a_system_there_is_nothing_to_look_at() {
    let checkout = Checkout::new();
    let said = checkout.run(&["dlq", "list"]);
    assert_eq!(said.code, 1);
    said.says("nothing is running");
}
