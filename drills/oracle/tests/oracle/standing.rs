//! (8), and waiting until it holds.

use std::time::Duration;

use oracle::{Stores, until_quiet};

use crate::scene::Scene;

#[tokio::test]
async fn orders_and_attempts_that_stand_still_are_found() {
    let scene = Scene::new().await;
    let waiting = scene.pending("TEA", "unknown").await;
    let due = scene.cancelled("TEA").await;
    scene.order.run(format!("update orders set payment_state = 'refund_due' where id = '{}'", due.id)).await;
    let promised = scene.confirmed("TEA").await;
    scene
        .order
        .run(format!("update orders set coupon_state = 'pending', coupon_code = 'OFF' where id = '{}'", promised.id))
        .await;
    scene.coupon.run(format!("insert into compensations (order_id) values ('{}')", promised.id)).await;
    let begun = scene.rejected("TEA", "expired").await;
    scene
        .order
        .run(format!("update orders set status = 'created', status_reason = null where id = '{}'", begun.id))
        .await;
    let insert = "insert into provider_events (id, body) values ('evt_1', '{}')";
    scene.payment.run(insert).await;
    let report = scene.judged().await;
    let offenders = [
        ("webhook evt_1".to_owned(), "not acted upon"),
        (waiting.subject(), "payment_pending, payment unknown"),
        (format!("attempt {}", waiting.attempt), "unknown"),
        (due.subject(), "with a refund due"),
        (promised.subject(), "its coupon is not settled"),
        (promised.subject(), "still tried for"),
        (begun.subject(), "created"),
    ];
    Scene::expect(&report, 8, &offenders);
    assert_eq!(report.unquiet.len(), offenders.len(), "{report}");
    assert!(report.to_string().contains("not quiet after"));
}

#[tokio::test]
async fn it_is_quiet_as_soon_as_the_last_order_is_settled() {
    let scene = Scene::new().await;
    let sale = scene.confirmed("TEA").await;
    scene.order.run(format!("update orders set status = 'payment_in_flight' where id = '{}'", sale.id)).await;
    let stores = Stores::open(&scene.sources()).await.unwrap();
    let ((), quiet) = tokio::join!(
        async {
            // One look has found it standing.
            testkit::eventually("a look", async || {
                (!scene.channels[0].stub.seen_at("GET", "/v1/ledger").is_empty()).then_some(())
            })
            .await;
            scene.order.run("update orders set status = 'confirmed'").await;
        },
        until_quiet(&stores, Duration::from_secs(60))
    );
    let quiet = quiet.unwrap();
    assert!(quiet.unquiet.is_empty() && quiet.waited < Duration::from_secs(60), "{:?}", quiet.unquiet);
}
