//! (9)

use crate::scene::Scene;

#[tokio::test]
async fn coupons_that_were_redeemed_too_often_are_found() {
    let scene = Scene::new().await;
    let first = scene.confirmed_with_coupon("TEA").await;
    for _ in 0..2 {
        scene.confirmed_with_coupon("TEA").await;
    }
    let report = scene.judged().await;
    assert!(report.clean(), "{report}");
    scene.coupon.run("update coupons set total_limit = null").await;
    scene.confirmed_with_coupon("TEA").await;
    scene
        .coupon
        .run(format!(
            "alter table coupons drop constraint coupons_redeemed_check;
             update coupons set redeemed = 5, total_limit = 3;
             update redemptions set user_id = '{}'",
            first.user
        ))
        .await;
    let off = || "coupon OFF".to_owned();
    let user = format!("redeemed 4 times by user {}", first.user);
    let offenders =
        [(off(), "counts 5 redemptions, and there are 4"), (off(), "over its limit"), (off(), user.as_str())];
    Scene::expect(&scene.judged().await, 9, &offenders);
}

#[tokio::test]
async fn redemptions_that_do_not_fit_their_orders_are_found() {
    let scene = Scene::new().await;
    scene.coupon.run("update coupons set total_limit = null").await;
    let redemption = async |sale: &crate::sale::Sale, change: &str| {
        scene.coupon.run(format!("update redemptions set {change} where order_id = '{}'", sale.id)).await;
    };
    let held = scene.confirmed_with_coupon("TEA").await;
    redemption(&held, "state = 'held'").await;
    let dearer = scene.confirmed_with_coupon("TEA").await;
    redemption(&dearer, "discount_minor = 90").await;
    let lost = scene.confirmed_with_coupon("TEA").await;
    redemption(&lost, "state = 'returned'").await;
    scene.coupon.run("update coupons set redeemed = redeemed - 1").await;
    let dead = scene.confirmed_with_late_coupon("TEA").await;
    scene
        .order
        .run(format!(
            "update orders set status = 'cancelled', status_reason = 'user_cancelled' where id = '{}'",
            dead.id
        ))
        .await;
    let open = scene.confirmed_with_coupon("TEA").await;
    scene.order.run(format!("update orders set status = 'payment_pending' where id = '{}'", open.id)).await;
    let unasked = scene.confirmed_with_coupon("TEA").await;
    scene.order.run(format!("update orders set coupon_code = null where id = '{}'", unasked.id)).await;
    let nobody = uuid::Uuid::now_v7();
    scene
        .coupon
        .run(format!(
            "insert into redemptions (order_id, state, code, user_id, subtotal_minor, currency)
             values ('{nobody}', 'held', 'OFF', gen_random_uuid(), 1000, 'USD');
             update coupons set redeemed = redeemed + 1"
        ))
        .await;
    let offenders = [
        (held.subject(), "its coupon is only held"),
        (held.subject(), "no redemption is committed"),
        (dearer.subject(), "redeemed for 90, and 100 was given"),
        (lost.subject(), "no redemption is committed"),
        (dead.subject(), "cancelled, and its coupon is committed"),
        (open.subject(), "payment_pending, and its coupon is committed"),
        (unasked.subject(), "ordered with coupon None"),
        (format!("order {nobody}"), "no such order"),
    ];
    Scene::expect(&scene.judged().await, 9, &offenders);
}
