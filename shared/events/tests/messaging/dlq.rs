//! Dead letters, looked at and sent again.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use contracts::{Event, OrderId};
use events::{
    Consumer, ConsumerConfig, HandleError, Handler, Outcome,
    dlq::{self, DeadLetter, Selection},
};
use rdkafka::{Message, message::Headers};
use testkit::eventually;
use tokio_util::sync::CancellationToken;

use crate::world::{GROUP, Recording, TRACEPARENT, World, event, version};

/// Refuses versions below 10 until it is mended.
#[derive(Clone)]
struct Broken {
    mended: Arc<AtomicBool>,
    inner: Recording,
}

impl Handler for Broken {
    async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        if event.version < 10 && !self.mended.load(Ordering::SeqCst) {
            return Err(HandleError::Refused("this program does not know it yet".to_owned()));
        }
        self.inner.handle(event).await
    }
}

async fn listed(world: &World) -> Vec<DeadLetter> {
    dlq::list(&world.broker.config, Some("orders")).await.unwrap()
}

async fn replay(world: &World, which: Selection) -> Vec<DeadLetter> {
    dlq::replay(&world.broker.config, Some("orders"), &which).await.unwrap().letters
}

#[tokio::test]
async fn dead_letters_are_listed_with_their_reasons_and_take_effect_when_they_are_sent_again() {
    let world = World::new(1).await;
    assert_eq!(listed(&world).await, []);
    let relay = world.relay();
    let handler = Broken { mended: Arc::default(), inner: Recording(world.pool.clone()) };
    let consumer = world.consumer(handler.clone());
    let order = OrderId::generate();
    world.commit(order, 1..=2).await;
    world.everything_is_published().await;
    world.produce(0, "poison", b"\xff no event").await;
    world.produce_event(0, &event(OrderId::generate(), 10)).await;
    world.applied_are(&[10]).await;

    let letters = listed(&world).await;
    let seen: Vec<_> = letters.iter().map(|letter| (letter.offset, letter.reason.as_deref().unwrap())).collect();
    assert_eq!(seen, [(0, "refused"), (1, "refused"), (2, "unreadable")]);
    let first = &letters[0];
    assert_eq!(first.event_type.as_deref(), Some("order.rejected"));
    assert_eq!(first.key.as_deref(), Some(&*order.to_string()));
    assert_eq!(first.detail.as_deref(), Some("this program does not know it yet"));
    assert_eq!(first.group.as_deref(), Some(GROUP));
    assert_eq!(first.origin_topic, Some(world.broker.config.prefixed("orders")));
    assert_eq!((first.origin_partition, first.origin_offset), (Some(0), Some(0)));
    assert!(first.time.is_some() && !first.replayed);
    assert_eq!((&letters[2].event_id, letters[2].key.as_deref()), (&None, Some("poison")));

    let newest = dlq::newest(&world.broker.config, None, 2).await.unwrap();
    assert_eq!(newest.iter().map(|letter| letter.offset).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(newest[0].payload.as_deref(), Some("\u{fffd} no event"));
    assert!(newest[1].payload.as_deref().unwrap().contains("order.rejected"));
    assert!(letters.iter().all(|letter| letter.payload.is_none()), "what nobody asked for is not carried about");

    handler.mended.store(true, Ordering::SeqCst);
    let second = letters[1].event_id.clone().unwrap();
    let sent = replay(&world, Selection::Event(second.clone())).await;
    assert_eq!(sent.iter().map(|letter| letter.offset).collect::<Vec<_>>(), [1]);
    world.applied_are(&[10, 2]).await;
    assert_eq!(replay(&world, Selection::All).await.len(), 2);
    world.applied_are(&[10, 2, 1]).await;

    // The unreadable one is dead once more, as a letter of its own; those that went are not sent again.
    let letters = eventually("it died again", async || {
        let letters = listed(&world).await;
        (letters.len() == 4).then_some(letters)
    })
    .await;
    assert_eq!(letters.iter().map(|letter| letter.replayed).collect::<Vec<_>>(), [true, true, true, false]);
    let at = |letter: &DeadLetter| Selection::At { partition: letter.partition, offset: letter.offset };
    assert_eq!(replay(&world, at(&letters[0])).await, [], "that one went already");
    assert_eq!(replay(&world, at(&letters[3])).await.len(), 1);

    // As it was: bytes, key and headers, without what was added when it died.
    let messages = world.reader().read(8).await;
    let again = &messages[4];
    assert_eq!((version(again), again.key()), (2, Some(order.to_string().as_bytes())));
    assert_eq!(again.payload(), messages[1].payload());
    let headers: Vec<_> = again.headers().unwrap().iter().map(|header| header.key.to_owned()).collect();
    assert_eq!(headers, ["content-type", "traceparent"]);
    assert!(again.headers().unwrap().iter().any(|header| header.value == Some(TRACEPARENT.as_bytes())));
    assert_eq!(messages[6].payload(), Some(&b"\xff no event"[..]));

    // One event may be sent any number of times; the inbox knows it.
    assert_eq!(replay(&world, Selection::Event(second)).await.len(), 1);
    world.produce_event(0, &event(OrderId::generate(), 11)).await;
    world.applied_are(&[10, 2, 1, 11]).await;
    consumer.stop().await;
    relay.stop().await;
}

#[tokio::test]
async fn what_several_groups_gave_up_is_sent_once_for_all_of_them() {
    let world = World::new(1).await;
    let other = Consumer::new(
        world.broker.config.clone(),
        "another group",
        &[world.topic],
        Broken { mended: Arc::default(), inner: Recording(world.pool.clone()) },
        ConsumerConfig::default(),
    );
    let stop = CancellationToken::new();
    let other = tokio::spawn(other.run(stop.clone()));
    let consumer = world.consumer(Broken { mended: Arc::default(), inner: Recording(world.pool.clone()) });
    world.produce_event(0, &event(OrderId::generate(), 1)).await;
    let open = async |count: usize| {
        eventually("both gave it up", async || {
            let letters = listed(&world).await.into_iter().filter(|letter| !letter.replayed).collect::<Vec<_>>();
            (letters.len() == count).then_some(letters)
        })
        .await
    };
    let groups: BTreeSet<_> = open(2).await.into_iter().map(|letter| letter.group.unwrap()).collect();
    assert_eq!(groups, BTreeSet::from(["another group".to_owned(), GROUP.to_owned()]));
    let replayed = dlq::replay(&world.broker.config, None, &Selection::All).await.unwrap();
    assert_eq!((replayed.messages, replayed.letters.len(), replayed.without_origin), (1, 2, 0));
    // Each gives it up once more, and not twice.
    open(2).await;
    assert_eq!(listed(&world).await.len(), 4);
    stop.cancel();
    other.await.unwrap().unwrap();
    consumer.stop().await;
}

#[tokio::test]
async fn a_broker_that_is_away_is_an_error_and_an_unknown_topic_is_named() {
    let world = World::new(1).await;
    let error = dlq::list(&world.broker.config, Some("oders")).await.unwrap_err();
    assert!(error.to_string().contains("oders"), "{error}");
    let away = events::KafkaConfig::new("127.0.0.1:1", "test");
    assert!(dlq::list(&away, None).await.is_err());
}
