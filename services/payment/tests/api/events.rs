//! What the others hear: the events of settlements, on the broker.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use contracts::{
    AttemptId, Currency, Event, RefundId,
    event::{
        EventData, PaymentApproved, PaymentDeclined, PaymentDeferred, PaymentFenced, PaymentRefundRequested,
        PaymentUnknown,
    },
    payment::{Channel, Charge},
    topic::{self, PAYMENTS},
};
use events::{Consumer, ConsumerConfig, HandleError, Handler, KafkaConfig, Outcome};
use serde_json::json;
use testkit::{Reply, eventually, kafka, stub::refusing_url};
use tokio_util::sync::CancellationToken;

use crate::scene::{Scene, approves, charge, declines, patient, put, serve};

#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Event>>>);

impl Heard {
    /// The one event about `order`.
    fn of(&self, order: contracts::OrderId) -> Option<Event> {
        let heard = self.0.lock().unwrap();
        let about: Vec<_> = heard.iter().filter(|event| event.subject == order).collect();
        assert!(about.iter().all(|event| event.id == about[0].id), "two events: {about:?}");
        about.first().map(|event| (*event).clone())
    }
}

impl Handler for Heard {
    async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        self.0.lock().unwrap().push(event.clone());
        Ok(Outcome::Applied)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_settlement_is_heard_on_the_payments_topic() {
    let broker = kafka::broker(&topic::all()).await.unwrap();
    let scene = Scene::with(patient(), broker.config.clone(), approves()).await;
    let unreachable = serve(patient(), broker.config.clone(), &refusing_url(), &scene.database, |url| url).await;
    let (heard, stop) = (Heard::default(), CancellationToken::new());
    let consumer = Consumer::new(broker.config.clone(), "test", &[PAYMENTS], heard.clone(), ConsumerConfig::default());
    let consuming = tokio::spawn(consumer.run(stop.clone()));

    let (approved, declined, fenced) = (charge(), charge(), charge());
    let ids = [AttemptId::generate(), AttemptId::generate(), AttemptId::generate()];
    assert_eq!(scene.put(ids[0], &approved).await.status, 200);
    scene.provider.behave(|_| declines());
    assert_eq!(scene.put(ids[1], &declined).await.status, 200);
    assert_eq!(put(&unreachable, ids[2], &fenced).await.status, 503);
    assert_eq!(scene.fence(ids[2]).await.status, 200);

    let hear = |order| {
        let heard = &heard;
        eventually("the event arrives", move || async move { heard.of(order) })
    };
    let event = hear(approved.order_id).await;
    assert_eq!((event.version, event.traceparent.is_some()), (3, true));
    assert_eq!(
        event.decode::<PaymentApproved>().unwrap().unwrap(),
        PaymentApproved {
            order_id: approved.order_id,
            attempt_id: ids[0],
            channel: Channel::Primary,
            provider_ref: "ch_1".into(),
            amount_minor: approved.amount_minor,
            currency: Currency::USD,
        }
    );
    assert_eq!(
        hear(declined.order_id).await.decode::<PaymentDeclined>().unwrap().unwrap(),
        PaymentDeclined {
            order_id: declined.order_id,
            attempt_id: ids[1],
            channel: Channel::Primary,
            decline_code: "insufficient_funds".into(),
        }
    );
    assert_eq!(
        hear(fenced.order_id).await.decode::<PaymentFenced>().unwrap().unwrap(),
        PaymentFenced { order_id: fenced.order_id, attempt_id: ids[2] }
    );
    eventually("the outbox is empty", || async {
        let (left,): (i64,) = sqlx::query_as("select count(*) from outbox where published_at is null")
            .fetch_one(&scene.pool)
            .await
            .unwrap();
        (left == 0).then_some(())
    })
    .await;
    stop.cancel();
    consuming.await.unwrap().unwrap();
}

#[tokio::test]
async fn without_a_broker_charges_are_settled_and_their_events_wait() {
    let nowhere = KafkaConfig::new("127.0.0.1:1", "test");
    let scene = Scene::with(patient(), nowhere, approves()).await;
    let id = AttemptId::generate();
    assert_eq!(scene.put(id, &charge()).await.status, 200);
    let (waiting,): (i64,) =
        sqlx::query_as("select count(*) from outbox where published_at is null").fetch_one(&scene.pool).await.unwrap();
    assert_eq!(waiting, 1);
    assert_eq!(scene.announced(id).await[0].0, "payment.approved");
}

/// Answers questions as a provider that charged `charged` and lost everything that it answered to a charge.
fn loses_replies(charged: bool) -> impl Fn(&testkit::stub::Seen) -> Reply + Send + Sync + 'static {
    move |seen| match (seen.method.as_str(), charged) {
        ("GET", true) => approves(),
        ("GET", false) => Reply::Json(404, json!({"type": "urn:problem:not-found"})),
        _ => Reply::Close,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_unknown_is_asked_after_through_the_queue_until_it_is_settled() {
    let broker = kafka::broker(&topic::all()).await.unwrap();
    let mut rules = patient();
    rules.reconcile.settle = Duration::from_millis(500);
    rules.reconcile.delays = [Duration::from_millis(300); 4];
    let scene = Scene::with(rules, broker.config.clone(), Reply::Close).await;
    for (charged, state) in [(true, "approved"), (false, "fenced")] {
        scene.provider.behave(loses_replies(charged));
        let id = AttemptId::generate();
        scene.put(id, &charge()).await.is_unknown();
        scene.becomes(id, state).await;
        assert_eq!(scene.announced(id).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_order_says_on_its_topic_is_done() {
    let broker = kafka::broker(&topic::all()).await.unwrap();
    let scene = Scene::with(patient(), broker.config.clone(), approves()).await;
    let (unheard_of, waiting, charge) = (AttemptId::generate(), AttemptId::generate(), charge());
    let order_id = charge.order_id;
    say(&scene, &PaymentUnknown { order_id, attempt_id: unheard_of }).await;
    let Charge { amount_minor, currency, payment_method, .. } = charge;
    say(&scene, &PaymentDeferred { order_id, attempt_id: waiting, amount_minor, currency, payment_method }).await;
    scene.becomes(unheard_of, "fenced").await;
    scene.becomes(waiting, "approved").await;
    scene.provider.behave(|_| Reply::Json(200, json!({"id": "re_1", "charge_id": "ch_1", "amount_minor": 100})));
    let (refund_id, reason) = (RefundId::generate(), "coupon".to_owned());
    let back = PaymentRefundRequested { order_id, attempt_id: waiting, refund_id, amount_minor: 100, currency, reason };
    say(&scene, &back).await;
    eventually("the refund is told", async || {
        scene.announced(waiting).await.iter().any(|(kind, _)| kind == "payment.refunded").then_some(())
    })
    .await;
}

/// As order would: the service's own relay carries it there.
async fn say(scene: &Scene, said: &impl EventData) {
    let event = Event::new(said, 1, None, chrono::Utc::now()).unwrap();
    let mut conn = scene.pool.acquire().await.unwrap();
    durable::outbox::enqueue(&mut conn, topic::ORDERS, &event).await.unwrap();
}
