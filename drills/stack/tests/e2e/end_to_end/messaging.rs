use testkit::eventually;

use super::{
    audit,
    shop::{fresh_key, order_of},
    system::turn,
};

#[tokio::test(flavor = "multi_thread")]
async fn without_kafka_orders_are_answered_and_events_wait() {
    let system = turn().await;
    audit::clean(&system).await;
    let kafka = system.status()["stores"]["kafka"]["pid"].clone();
    system.signal(&kafka, "-STOP");
    // Resumed below on every path that does not end the test.
    let told = futures_util::future::join_all(
        (0..10).map(async |_| system.shop.place(&fresh_key(), &order_of("TEA-SAMPLER-12", 1, "tok_approve")).await),
    )
    .await;
    // What is not known is found out once Kafka is back: the question goes through it too.
    let lost = system.shop.place(&fresh_key(), &order_of("TEA-SAMPLER-12", 1, "tok_lost_reply")).await;
    assert_eq!(lost.status, 202, "{lost:?}");
    let waiting = eventually("the backlog shows", async || {
        let backlog = system.outbox_backlog().await;
        (backlog >= 10.0).then_some(backlog)
    })
    .await;
    system.signal(&kafka, "-CONT");
    assert!(told.iter().all(|told| told.status == 201), "{told:?}");
    assert!(waiting >= 10.0);
    system.shop.once(lost.body["id"].as_str().unwrap(), "confirmed").await;
    audit::clean(&system).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_orders_and_products_are_answered() {
    let system = turn().await;
    let redis = system.status()["stores"]["redis"]["pid"].clone();
    if redis.is_null() {
        // A machine without Redis runs degraded from the start, and says so at `up`.
        return;
    }
    system.signal(&redis, "-STOP");
    let placed = system.shop.place(&fresh_key(), &order_of("TEA-SAMPLER-12", 1, "tok_approve")).await;
    let product = system.shop.get("/v1/products/TEA-SAMPLER-12").await;
    system.signal(&redis, "-CONT");
    assert_eq!((placed.status, product.status), (201, 200), "{placed:?} {product:?}");
}
