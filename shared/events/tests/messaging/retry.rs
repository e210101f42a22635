//! A queue with retry tiers: hops from one to the next, and what becomes of a message in the end.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use chrono::{DateTime, Utc};
use contracts::{
    Event, OrderId,
    topic::{COMPENSATE, Queue},
};
use durable::{inbox, outbox, outbox::Outbox, retry::retry_later};
use events::{Consumer, ConsumerConfig, HandleError, Handler, Outcome, Relay, RelayConfig, dlq};
use sqlx::PgPool;
use testkit::{eventually, kafka};
use tokio_util::sync::CancellationToken;

use crate::{
    database,
    world::{GROUP, TRACEPARENT, event},
};

const QUEUE: Queue = COMPENSATE;
const DELAYS: [Duration; 4] =
    [Duration::from_millis(300), Duration::from_millis(900), Duration::from_millis(50), Duration::from_millis(50)];

/// The tier, the message and when it was handled.
type Tried = (usize, Event, DateTime<Utc>);

/// Notes the tier, the id and the time of each try, and puts the message off as long as it can.
#[derive(Clone)]
struct Patient {
    tier: usize,
    pool: PgPool,
    outbox: Outbox,
    tries: Arc<Mutex<Vec<Tried>>>,
}

impl Handler for Patient {
    async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        let now = Utc::now();
        let mut tx = self.pool.begin().await?;
        if !inbox::first_delivery(&mut tx, GROUP, event.id).await? {
            return Ok(Outcome::Duplicate);
        }
        let hop = retry_later(&mut tx, &QUEUE, self.tier, event, &DELAYS, now).await?;
        tx.commit().await?;
        self.outbox.wake();
        self.tries.lock().unwrap().push((self.tier, event.clone(), now));
        match hop {
            Some(_) => Ok(Outcome::Applied),
            None => Err(HandleError::Refused("that was the last time".to_owned())),
        }
    }
}

#[tokio::test]
async fn a_message_goes_through_every_tier_not_before_its_time_and_becomes_a_dead_letter_of_its_queue() {
    let topics: Vec<_> = contracts::topic::all().into_iter().filter(|(name, _)| name.starts_with("coupons.")).collect();
    let broker = kafka::broker(&topics).await.unwrap();
    let pool = database::fresh().await;
    let outbox = Outbox::new(pool.clone());
    let stop = CancellationToken::new();
    let config = RelayConfig { topics, ..RelayConfig::default() };
    let relay = tokio::spawn(Relay::new(outbox.clone(), broker.config.clone(), config).run(stop.clone()));
    let patient = Patient { tier: 0, pool: pool.clone(), outbox: outbox.clone(), tries: Arc::default() };
    let consumer = Consumer::of_queue(
        broker.config.clone(),
        GROUP,
        &QUEUE,
        |tier| Patient { tier, ..patient.clone() },
        ConsumerConfig::default(),
    );
    let consumer = tokio::spawn(consumer.run(stop.clone()));

    let mut conn = pool.acquire().await.unwrap();
    let first = event(OrderId::generate(), 7);
    outbox::enqueue(&mut conn, QUEUE[0], &first).await.unwrap();
    let letters = eventually("it is a dead letter", async || {
        let letters = dlq::list(&broker.config, Some("coupons.compensate")).await.unwrap();
        (!letters.is_empty()).then_some(letters)
    })
    .await;
    assert_eq!(letters[0].origin_topic, Some(broker.config.prefixed(QUEUE[4].name)));
    assert_eq!(letters[0].detail.as_deref(), Some("that was the last time"));

    let tries = patient.tries.lock().unwrap().clone();
    assert_eq!(tries.iter().map(|(tier, ..)| *tier).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    for (pair, delay) in tries.windows(2).zip(DELAYS) {
        let ((_, before, tried), (_, after, again)) = (&pair[0], &pair[1]);
        assert_ne!(before.id, after.id, "the inbox would take it for the same");
        assert_eq!(after.notbefore, Some(*tried + delay));
        assert!(*again >= *tried + delay);
        assert_eq!((&after.data, &after.kind, after.subject), (&first.data, &first.kind, first.subject));
        assert_eq!((after.version, after.traceparent.as_deref()), (7, Some(TRACEPARENT)));
    }
    stop.cancel();
    consumer.await.unwrap().unwrap();
    relay.await.unwrap();
}
