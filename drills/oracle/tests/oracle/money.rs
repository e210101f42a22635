//! (1), (2), (3) and (5).

use serde_json::json;
use uuid::Uuid;

use crate::{
    sale::{PRICE, told},
    scene::Scene,
};

#[tokio::test]
async fn money_that_no_order_explains_is_found() {
    let scene = Scene::new().await;
    scene.confirmed("TEA").await;
    let short = scene.confirmed("TEA").await;
    scene.channels[0].refund(&short.charge, 1);
    let unpaid = scene.confirmed("TEA").await;
    scene.order.run(format!("update orders set refunded_minor = 300 where id = '{}'", unpaid.id)).await;
    // An order of which nobody knows, and one of which another charge says that it is its.
    let stranger = scene.channels[1].charge(Uuid::now_v7(), Uuid::now_v7(), 70);
    let other = scene.confirmed("TEA").await;
    let confused = scene.channels[1].charge(other.attempt, Uuid::now_v7(), 80);
    scene.channels[1].refund(&confused, 90);
    let invented = scene.confirmed("TEA").await;
    scene.payment.run(format!("update attempts set provider_ref = 'ch_none' where id = '{}'", invented.attempt)).await;
    let report = scene.judged().await;
    let offenders = [
        (short.subject(), "confirmed and 1000 to pay, the ledgers say 999"),
        (unpaid.subject(), "confirmed and 700 to pay, the ledgers say 1000"),
        (format!("charge {stranger}"), "no order has its attempt"),
        (format!("charge {confused}"), "it says"),
        (format!("charge {confused}"), "90 of 80 came back"),
        (other.subject(), "the ledgers say 990"),
        (format!("attempt {}", invented.attempt), "which no ledger has"),
    ];
    Scene::expect(&report, 1, &offenders);
    assert!(!report.clean());
}

#[tokio::test]
async fn an_order_that_is_charged_twice_or_never_is_found() {
    let scene = Scene::new().await;
    scene.confirmed("TEA").await;
    let twice = scene.confirmed("TEA").await;
    scene.channels[1].charge(twice.attempt, twice.id, 2 * PRICE);
    let never = scene.confirmed("TEA").await;
    scene.channels[0].ledger.lock().unwrap().charges.retain(|charge| charge.id != never.charge);
    // One too many that went back is none.
    let mended = scene.confirmed("TEA").await;
    let extra = scene.channels[1].charge(mended.attempt, mended.id, 2 * PRICE);
    scene.channels[1].refund(&extra, 2 * PRICE);
    let report = scene.judged().await;
    let offenders = [(twice.subject(), "with 2 charges"), (never.subject(), "with 0 charges")];
    Scene::expect(&report, 2, &offenders);
    assert!(report.unquiet.iter().any(|found| found.subject == twice.subject()), "payment gives the second one back");
}

#[tokio::test]
async fn a_dead_order_that_was_charged_is_found() {
    let scene = Scene::new().await;
    scene.cancelled("TEA").await;
    let kept = scene.cancelled("TEA").await;
    scene.channels[0].ledger.lock().unwrap().refunds.retain(|refund| refund.charge_id != kept.charge);
    let late = scene.rejected("TEA", "payment_not_found").await;
    scene.order.run(format!("update orders set attempt_id = '{}' where id = '{}'", late.attempt, late.id)).await;
    scene.channels[0].charge(late.attempt, late.id, 2 * PRICE);
    let report = scene.judged().await;
    let offenders = [(kept.subject(), "cancelled, with 1 charges"), (late.subject(), "rejected, with 1 charges")];
    Scene::expect(&report, 3, &offenders);
    Scene::expect(&report, 1, &[(kept.subject(), "0 to pay"), (late.subject(), "0 to pay")]);
}

#[tokio::test]
async fn a_key_that_was_charged_for_two_orders_is_found() {
    let mut scene = Scene::new().await;
    let (first, second) = (scene.confirmed("TEA").await, scene.confirmed("TEA").await);
    let key = |of: Uuid| format!("key of {of}");
    scene.order.run(format!("update orders set user_id = '{}' where id = '{}'", first.user, second.id)).await;
    // The key was given back in between, and stands for the second order now; the client remembers the first.
    scene
        .order
        .run(format!(
            "delete from idempotency_keys where resource_id = '{}';
             update idempotency_keys set key = '{}', user_id = '{}' where resource_id = '{}'",
            first.id,
            key(first.id),
            first.user,
            second.id
        ))
        .await;
    scene.answers = vec![told(&first, 201, json!({"status": "confirmed"}))];
    let report = scene.judged().await;
    let subject = format!("key {} of user {}", key(first.id), first.user);
    Scene::expect(&report, 5, &[(subject, "charged for orders")]);
}
