//! What a person has to decide is nobody's error.

use crate::scene::Scene;

#[tokio::test]
async fn an_attempt_in_review_is_listed_apart_with_its_order_and_its_stock() {
    let scene = Scene::new().await;
    let sale = scene.pending("TEA", "review").await;
    let report = scene.judged().await;
    assert!(report.clean() && report.unquiet.is_empty(), "{report}");
    let apart = &report.invariants[7].apart;
    assert_eq!((apart.len(), apart[0].subject.clone()), (1, sale.subject()));
}

#[tokio::test]
async fn a_discount_that_could_not_be_honoured_is_listed_apart() {
    let scene = Scene::new().await;
    let sale = scene.confirmed("TEA").await;
    scene
        .order
        .run(format!("update orders set coupon_state = 'pending', coupon_code = 'OFF' where id = '{}'", sale.id))
        .await;
    scene
        .coupon
        .run(format!(
            "insert into compensations (order_id, state, reason, settled_by)
             values ('{0}', 'refused', 'exhausted', gen_random_uuid());
             insert into manual_compensations (order_id, code, user_id, subtotal_minor, currency, reason)
             values ('{0}', 'OFF', '{1}', 1000, 'USD', 'exhausted')",
            sale.id, sale.user
        ))
        .await;
    let report = scene.judged().await;
    assert!(report.clean() && report.unquiet.is_empty(), "{report}");
    assert!(report.invariants[8].apart[0].what.contains("a promised discount: exhausted"), "{report}");
    assert!(report.to_string().contains("apart, for a person to decide: 1"));
}

#[tokio::test]
async fn a_refund_that_the_provider_refuses_is_listed_apart() {
    let scene = Scene::new().await;
    let sale = scene.cancelled("TEA").await;
    scene.channels[0].ledger.lock().unwrap().refunds.clear();
    scene.order.run(format!("update orders set payment_state = 'refund_due' where id = '{}'", sale.id)).await;
    // Beside it one of a second charge, which no order asked for.
    let double = scene.confirmed("TEA").await;
    let extra = scene.channels[1].charge(double.attempt, double.id, 1000);
    scene.refund(&sale, "primary", &sale.charge, "review").await;
    scene.refund(&double, "backup", &extra, "review").await;
    let report = scene.judged().await;
    assert!(report.clean() && report.unquiet.is_empty(), "{report}");
    assert_eq!((report.invariants[0].apart.len(), report.invariants[7].apart.len()), (2, 2), "{report}");

    scene.payment.run("update refunds set state = 'sent'").await;
    let report = scene.judged().await;
    assert_eq!((report.invariants[1].violated, report.invariants[2].violated), (1, 1), "{report}");
    assert!(report.unquiet.iter().any(|found| found.subject.starts_with("refund")), "{report}");
}
