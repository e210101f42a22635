//! (7)

use contracts::event::{
    CompensationDue, CouponCompensate, CouponSettled, EventData, OrderCancelled, OrderConfirmed, OrderRejected,
    PaymentApproved, PaymentDeclined, PaymentDeferred, PaymentFenced, PaymentRefundRequested, PaymentRefunded,
    PaymentReview, PaymentUnknown,
};
use events::dlq::DeadLetter;
use oracle::{Stores, World, invariants};
use serde_json::json;

use crate::scene::Scene;

#[tokio::test]
async fn events_that_wait_or_were_not_applied_are_found() {
    let scene = Scene::new().await;
    let sale = scene.confirmed("TEA").await;
    let unsent = scene.said(&scene.order, OrderConfirmed::TYPE, &sale, json!({}), &[]).await;
    scene.order.run(format!("update outbox set published_at = null where event_id = '{unsent}'")).await;
    let halfway =
        scene.said(&scene.order, OrderRejected::TYPE, &sale, json!({}), &[(&scene.inventory, "inventory")]).await;
    // What nobody has to take in: a type without consumers, and what is not due yet.
    scene.said(&scene.order, "order.admired", &sale, json!({}), &[]).await;
    let later = scene.said(&scene.coupon, "coupon.compensation_due", &sale, json!({}), &[]).await;
    let due = |at: &str| {
        format!(
            "update outbox set payload = '{{\"type\": \"coupon.compensation_due\", \"notbefore\": \"{at}\"}}'
              where event_id = '{later}'"
        )
    };
    scene.coupon.run(due("2099-01-01T00:00:00Z")).await;
    let report = scene.judged().await;
    let mut offenders = vec![
        (format!("order.confirmed {unsent}"), "not published"),
        (format!("order.rejected {halfway}"), "not applied by coupon"),
    ];
    Scene::expect(&report, 7, &offenders);
    assert_eq!(report.unquiet.len(), 2, "{report}");

    scene.coupon.run(due("2001-01-01T00:00:00Z")).await;
    offenders.push((format!("coupon.compensation_due {later}"), "not applied by coupon.compensate"));
    Scene::expect(&scene.judged().await, 7, &offenders);
}

#[tokio::test]
async fn every_event_is_missed_at_each_of_its_consumers() {
    let scene = Scene::new().await;
    let sale = scene.confirmed("TEA").await;
    let (order, payment, coupon) = (&scene.order, &scene.payment, &scene.coupon);
    let with_coupon = json!({"coupon_code": "OFF"});
    let rows = [
        (order, OrderConfirmed::TYPE, json!({}), &["inventory", "recommendation"][..]),
        (order, OrderConfirmed::TYPE, with_coupon, &["inventory", "coupon", "recommendation"]),
        (order, OrderRejected::TYPE, json!({}), &["inventory", "coupon"]),
        (order, OrderCancelled::TYPE, json!({}), &["inventory", "coupon"]),
        (order, CouponCompensate::TYPE, json!({}), &["coupon"]),
        (order, PaymentUnknown::TYPE, json!({}), &["payment"]),
        (order, PaymentDeferred::TYPE, json!({}), &["payment"]),
        (order, PaymentRefundRequested::TYPE, json!({}), &["payment"]),
        (payment, PaymentApproved::TYPE, json!({}), &["order"]),
        (payment, PaymentDeclined::TYPE, json!({}), &["order"]),
        (payment, PaymentFenced::TYPE, json!({}), &["order"]),
        (payment, PaymentRefunded::TYPE, json!({}), &["order"]),
        (payment, PaymentReview::TYPE, json!({}), &["order"]),
        (coupon, CouponSettled::TYPE, json!({}), &["order"]),
        (coupon, CompensationDue::TYPE, json!({}), &["coupon.compensate"]),
    ];
    let mut missing = Vec::new();
    for (by, kind, data, consumers) in rows {
        let event = scene.said(by, kind, &sale, data, &[]).await;
        missing.extend(consumers.iter().map(|consumer| (event, kind, *consumer)));
    }
    let found = |missing: &[(uuid::Uuid, &str, &str)]| -> Vec<(String, String)> {
        let what = |consumer: &str| format!("of order {}: not applied by {consumer}", sale.id);
        let mut found: Vec<_> = missing.iter().map(|(id, kind, by)| (format!("{kind} {id}"), what(by))).collect();
        found.sort();
        found
    };
    let judged = async || -> Vec<(String, String)> {
        let offenders = scene.judged().await.invariants.swap_remove(6).offenders;
        offenders.into_iter().map(|offender| (offender.subject, offender.what)).collect()
    };
    assert_eq!(judged().await, found(&missing));
    // What they take in is missed no longer.
    for (event, _, consumer) in missing {
        let store = match consumer {
            "order" => order,
            "payment" => payment,
            "inventory" => &scene.inventory,
            "recommendation" => &scene.recommendation,
            _ => coupon,
        };
        store.run(format!("insert into inbox (consumer, event_id) values ('{consumer}', '{event}')")).await;
    }
    assert_eq!(judged().await, []);
}

#[tokio::test]
async fn a_confirmation_that_was_counted_twice_is_found() {
    let scene = Scene::new().await;
    scene.confirmed("TEA").await;
    scene.cancelled("TEA").await;
    scene.recommendation.run("update trending set orders = orders + 1").await;
    // The second time that an order says it is an event of its own, and counts.
    let again = scene.confirmed("CUP").await;
    let data = json!({"items": [{"sku": "CUP"}]});
    let consumers = [(&scene.inventory, "inventory"), (&scene.recommendation, "recommendation")];
    for _ in 0..2 {
        scene.said(&scene.order, OrderConfirmed::TYPE, &again, data.clone(), &consumers).await;
    }
    scene.recommendation.run("update trending set orders = 2 where sku = 'CUP'").await;
    let offender = ("product TEA".to_owned(), "counted 3 orders, and was told of 2");
    Scene::expect(&scene.judged().await, 7, &[offender]);
}

#[tokio::test]
async fn an_event_that_a_consumer_gave_up_is_listed_apart() {
    let scene = Scene::new().await;
    let sale = scene.rejected("TEA", "expired").await;
    let dead = scene.said(&scene.order, OrderRejected::TYPE, &sale, json!({}), &[(&scene.coupon, "coupon")]).await;
    let letter = DeadLetter {
        topic: "orders.dlq".to_owned(),
        partition: 0,
        offset: 0,
        time: None,
        event_id: Some(dead.to_string()),
        event_type: Some(OrderRejected::TYPE.to_owned()),
        key: None,
        reason: Some("refused".to_owned()),
        detail: Some("never heard of it".to_owned()),
        group: Some("inventory".to_owned()),
        origin_topic: None,
        origin_partition: None,
        origin_offset: None,
        replayed: false,
        payload: None,
    };
    let stores = Stores::open(&scene.sources()).await.unwrap();
    let world = stores.look().await.unwrap();
    let verdict = |letters| invariants::events::applied_once(&World { letters, ..world.clone() });
    assert_eq!(verdict(vec![]).violated, 1);
    // Another's letter excuses nobody.
    assert_eq!(verdict(vec![DeadLetter { group: Some("coupon".to_owned()), ..letter.clone() }]).violated, 1);
    let excused = verdict(vec![letter]);
    assert_eq!((excused.violated, excused.apart.len()), (0, 1));
    assert!(excused.apart[0].what.contains("given up by inventory: never heard of it"));
}
