//! Confirmed orders, from the topic or straight to the handler.

use chrono::{Duration, Utc};
use contracts::{
    Event, EventId, UserId,
    event::{EventData, OrderConfirmed, OrderRejected},
    order::StatusReason,
    recommendation::Source,
    topic::ORDERS,
};
use durable::outbox::{self, Outbox};
use events::{HandleError, Outcome, Relay, RelayConfig};
use recommendation::store;
use testkit::{eventually, kafka, redis::shared_url};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::service::{Service, confirmed, order};

async fn publish(service: &Service, event: &Event) {
    let mut tx = service.database.pool().begin().await.unwrap();
    outbox::enqueue(&mut tx, ORDERS, event).await.unwrap();
    tx.commit().await.unwrap();
}

async fn applied(service: &Service, event: &Event) {
    let seen = || async {
        let found: Option<Uuid> = sqlx::query_scalar("select event_id from inbox where event_id = $1")
            .bind(event.id())
            .fetch_optional(service.database.pool())
            .await
            .unwrap();
        found.map(drop)
    };
    eventually("the event takes effect", seen).await;
}

#[tokio::test]
async fn orders_on_the_topic_are_ranked_and_one_that_comes_twice_counts_once() {
    let broker = kafka::broker(&contracts::topic::all()).await.unwrap();
    let service = Service::start_with(&shared_url(), broker.config.clone()).await;
    // The service has no outbox to publish from; its database has the table all the same.
    let relay = Relay::new(Outbox::new(service.database.pool().clone()), broker.config.clone(), RelayConfig::default());
    let stop = CancellationToken::new();
    let relaying = tokio::spawn(relay.run(stop.clone()));

    let user = UserId::generate();
    let now = Utc::now();
    let twice = order(user, &["TEAPOT", "TEA"]);
    let first = Event::new(&twice, 1, None, now).unwrap();
    let mut unreadable = confirmed(user, &["TEAPOT", "TEA"], now);
    unreadable.data = serde_json::json!({"order_id": 7});
    let rejected = OrderRejected { order_id: twice.order_id, reason: StatusReason::OutOfStock };
    let rejected = Event::new(&rejected, 2, None, now).unwrap();
    let others = [
        confirmed(user, &["TEAPOT", "TEA", "CUP"], now),
        confirmed(user, &["TEAPOT", "MILK"], now),
        confirmed(user, &["SOAP"], now),
        confirmed(user, &["SOAP"], now),
    ];
    publish(&service, &first).await;
    publish(&service, &unreadable).await;
    publish(&service, &rejected).await;
    for event in &others {
        publish(&service, event).await;
        applied(&service, event).await;
    }
    applied(&service, &first).await;

    // The relay tells it again, and so does the order, as another event: it comes behind it on the same partition.
    sqlx::query("update outbox set published_at = null where event_id = $1")
        .bind(first.id())
        .execute(service.database.pool())
        .await
        .unwrap();
    let last = Event::new(&twice, 3, None, now).unwrap();
    publish(&service, &last).await;
    applied(&service, &last).await;

    let answer = service.recommended("?sku=TEAPOT").await;
    assert_eq!(answer.source, Source::Live);
    let ranked: Vec<_> = answer.items.iter().map(|item| (item.sku.as_str(), item.name.as_str())).collect();
    let name = ["Product TEA", "Product CUP", "Product MILK", "Product SOAP"];
    assert_eq!(ranked, ["TEA", "CUP", "MILK", "SOAP"].into_iter().zip(name).collect::<Vec<_>>());
    assert_eq!(answer.items[0].score, 2.0, "three times would mean that the repeated event counted");
    assert!(answer.items.windows(2).all(|pair| pair[0].score >= pair[1].score), "{answer:?}");
    assert_eq!(service.skus("?sku=MILK&limit=1").await, (Source::Live, vec!["TEAPOT".to_owned()]));
    assert_eq!(service.skus("?limit=1").await, (Source::Live, vec!["TEAPOT".to_owned()]));

    stop.cancel();
    relaying.await.unwrap();
    service.app.running.stop().await;
}

#[tokio::test]
async fn a_repeated_event_is_a_duplicate_and_other_types_are_ignored() {
    let service = Service::start().await;
    let event = confirmed(UserId::generate(), &["A", "B"], Utc::now());
    assert_eq!(service.handle(&event).await.unwrap(), Outcome::Applied);
    assert_eq!(service.handle(&event).await.unwrap(), Outcome::Duplicate);
    // Told again by the order, as another event.
    let again = Event { id: EventId::generate(), version: 2, ..event.clone() };
    assert_eq!(service.handle(&again).await.unwrap(), Outcome::Duplicate);
    let rejected = OrderRejected { order_id: event.subject, reason: StatusReason::Expired };
    let rejected = Event::new(&rejected, 2, None, Utc::now()).unwrap();
    assert_eq!(service.handle(&rejected).await.unwrap(), Outcome::Ignored);
    assert_eq!(service.count("select sum(orders)::bigint from bought_together").await, 2);
    assert_eq!(service.count("select sum(orders)::bigint from trending").await, 2);
    assert_eq!(service.count("select count(*) from inbox").await, 3, "two events, and the order");
}

#[tokio::test]
async fn an_order_that_cannot_be_is_refused_for_good() {
    let service = Service::start().await;
    let mut shapeless = confirmed(UserId::generate(), &["A"], Utc::now());
    shapeless.data = serde_json::json!([]);
    let nul = confirmed(UserId::generate(), &["A\0"], Utc::now());
    let many: Vec<String> = (0..21).map(|n| format!("P{n}")).collect();
    let many = confirmed(UserId::generate(), &many.iter().map(String::as_str).collect::<Vec<_>>(), Utc::now());
    for event in [shapeless, nul, many] {
        assert_eq!(event.kind, OrderConfirmed::TYPE);
        assert!(matches!(service.handle(&event).await, Err(HandleError::Refused(_))));
    }
    assert_eq!(service.count("select count(*) from inbox").await, 0);
}

#[tokio::test]
async fn orders_of_the_same_products_at_once_are_all_counted() {
    let service = Service::start().await;
    let skus: Vec<String> = (0..20).map(|n| format!("P{n:02}")).collect();
    let forwards: Vec<&str> = skus.iter().map(String::as_str).collect();
    let backwards: Vec<&str> = forwards.iter().rev().copied().collect();
    let orders: Vec<_> = (0..30)
        .map(|n| confirmed(UserId::generate(), if n % 2 == 0 { &forwards } else { &backwards }, Utc::now()))
        .collect();
    // Transient trouble, such as a lock that takes too long, is tried again, as the consumer does.
    let applying = orders
        .iter()
        .map(|event| async { eventually("the order is counted", || async { service.handle(event).await.ok() }).await });
    futures_util::future::join_all(applying).await;
    assert_eq!(service.count("select count(*) from bought_together").await, 380);
    assert_eq!(service.count("select min(orders) from bought_together").await, 30);
    assert_eq!(service.count("select max(orders) from bought_together").await, 30);
    assert_eq!(service.count("select min(orders) from trending").await, 30);
}

#[tokio::test]
async fn what_sold_days_ago_counts_for_less_than_what_sells_today() {
    let service = Service::start().await;
    for _ in 0..3 {
        service.ordered_days_ago(4, &["OLD"]).await;
    }
    service.ordered(&["NEW"]).await;
    service.ordered_days_ago(20, &["ANCIENT"]).await;
    // Two half-lives: three orders weigh 0.75.
    let answer = service.recommended("").await;
    let found: Vec<_> = answer.items.iter().map(|item| (item.sku.as_str(), item.score)).collect();
    assert_eq!(found, [("NEW", 1.0), ("OLD", 0.75)]);
}

#[tokio::test]
async fn a_product_has_the_name_of_its_latest_order() {
    let service = Service::start().await;
    let mut renamed = order(UserId::generate(), &["A"]);
    "The new name".clone_into(&mut renamed.items[0].name);
    let renamed = Event::new(&renamed, 1, None, Utc::now()).unwrap();
    service.ordered_days_ago(2, &["A"]).await;
    service.handle(&renamed).await.unwrap();
    service.ordered_days_ago(1, &["A"]).await;
    assert_eq!(service.recommended("").await.items[0].name, "The new name");
}

#[tokio::test]
async fn what_says_nothing_any_more_is_deleted_and_the_rest_is_kept() {
    let service = Service::start().await;
    service.ordered_days_ago(200, &["A", "B"]).await;
    service.ordered_days_ago(100, &["A", "C"]).await;
    service.ordered_days_ago(20, &["A", "D"]).await;
    service.ordered(&["A", "E"]).await;
    // The service prunes at its start; what is left is deleted here.
    store::prune::prune(service.database.pool(), 100).await.unwrap();
    assert_eq!(service.count("select count(*) from bought_together").await, 6);
    assert_eq!(service.count("select count(*) from trending").await, 2);
    assert_eq!(service.count("select count(*) from recent_purchases").await, 4);
    assert_eq!(store::prune::prune(service.database.pool(), 100).await.unwrap(), 0);
}

#[tokio::test]
async fn a_user_is_not_offered_what_they_bought_of_late() {
    let service = Service::start().await;
    let (user, other) = (UserId::generate(), UserId::generate());
    let now = Utc::now();
    for _ in 0..2 {
        service.ordered(&["A", "C"]).await;
    }
    service.handle(&confirmed(user, &["A", "B"], now)).await.unwrap();
    service.handle(&confirmed(user, &["C"], now - Duration::days(40))).await.unwrap();
    let all = |skus: &[&str]| skus.iter().map(|sku| (*sku).to_owned()).collect::<Vec<_>>();
    assert_eq!(service.skus("?sku=A").await, (Source::Live, all(&["C", "B"])));
    // The same candidates, from the cache, less what this user has.
    assert_eq!(service.skus(&format!("?sku=A&user_id={user}")).await, (Source::Cache, all(&["C"])));
    assert_eq!(service.skus(&format!("?sku=A&user_id={other}")).await, (Source::Cache, all(&["C", "B"])));
    assert_eq!(service.skus(&format!("?user_id={user}")).await, (Source::Live, all(&["C"])));
}
