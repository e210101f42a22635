//! Redeeming, committing and letting go.

use contracts::{OrderId, ProblemType, UserId, coupon::RedemptionState};
use serde_json::{Value, json};

use crate::till::{Till, fields, redeemed, refused};

#[tokio::test]
async fn a_coupon_is_held_with_its_discount() {
    let till = Till::open().await;
    let order = OrderId::generate();
    let response = till.redeem(order, UserId::generate(), "WELCOME10", 4_995).await;
    assert_eq!(response.status(), 201);
    let body: Value = response.json().await.unwrap();
    let expected =
        json!({"order_id": order, "state": "held", "code": "WELCOME10", "discount_minor": 499, "currency": "USD"});
    assert_eq!(body, expected);
    let shown: Value = till.redemption(order).await.json().await.unwrap();
    assert_eq!(shown, expected);

    let fixed = till.redeem(OrderId::generate(), UserId::generate(), "FIVEOFF", 4_995).await;
    assert_eq!(redeemed(fixed).await.discount_minor, 500);
    let small = till.redeem(OrderId::generate(), UserId::generate(), "FIVEOFF", 300).await;
    assert_eq!(redeemed(small).await.discount_minor, 299);
}

#[tokio::test]
async fn a_redemption_that_is_sent_again_stands_whatever_has_become_of_the_coupon() {
    let till = Till::open().await;
    let (order, user) = (OrderId::generate(), UserId::generate());
    let first = redeemed(till.redeem(order, user, "ONCE20", 1_000).await).await;
    sqlx::query(
        "update coupons set percent = 1, total_limit = 1, valid_until = valid_from + interval '1 second'
          where code = 'ONCE20'",
    )
    .execute(till.database.pool())
    .await
    .unwrap();

    let again = till.redeem(order, user, "ONCE20", 1_000).await;
    assert_eq!(again.status(), 200);
    assert_eq!(redeemed(again).await, first);
    assert_eq!(till.coupon("ONCE20").await.redeemed, 1);
}

#[tokio::test]
async fn other_content_for_the_same_order_is_refused() {
    let till = Till::open().await;
    let (order, user) = (OrderId::generate(), UserId::generate());
    assert_eq!(till.redeem(order, user, "WELCOME10", 1_000).await.status(), 201);
    for (user, code, subtotal) in [
        (user, "WELCOME10", 1_001),
        (user, "FIVEOFF", 1_000),
        (user, "NONE", 1_000),
        (UserId::generate(), "WELCOME10", 1_000),
    ] {
        let problem = refused(till.redeem(order, user, code, subtotal).await, ProblemType::ContentMismatch).await;
        assert_eq!(problem.order_id, Some(order));
    }
}

#[tokio::test]
async fn a_coupon_that_cannot_be_redeemed_says_why_and_is_not_counted() {
    let till = Till::open().await;
    till.issue("TOMORROW", None, None).await;
    sqlx::query("update coupons set valid_from = now() + interval '1 hour' where code = 'TOMORROW'")
        .execute(till.database.pool())
        .await
        .unwrap();
    for (code, kind) in [
        ("NONE", ProblemType::CouponUnknown),
        ("EXPIRED5", ProblemType::CouponExpired),
        ("TOMORROW", ProblemType::CouponExpired),
        ("SOLDOUT5", ProblemType::CouponExhausted),
    ] {
        let order = OrderId::generate();
        refused(till.redeem(order, UserId::generate(), code, 1_000).await, kind).await;
        // Nothing stays behind: the order may try another coupon.
        assert_eq!(till.redeem(order, UserId::generate(), "WELCOME10", 1_000).await.status(), 201, "{code}");
    }
    assert_eq!(till.miscounted().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_user_redeems_a_coupon_as_often_as_it_allows_and_once_more_after_letting_go() {
    let till = Till::open().await;
    let (user, first) = (UserId::generate(), OrderId::generate());
    assert_eq!(till.redeem(first, user, "ONCE20", 1_000).await.status(), 201);
    for _ in 0..2 {
        let second = till.redeem(OrderId::generate(), user, "ONCE20", 1_000).await;
        refused(second, ProblemType::CouponAlreadyUsed).await;
        // A committed redemption counts like a held one.
        assert_eq!(till.commit(first).await.status(), 200);
    }
    assert_eq!(till.redeem(OrderId::generate(), UserId::generate(), "ONCE20", 1_000).await.status(), 201);
    assert_eq!(till.release(first).await.status(), 200);
    assert_eq!(till.redeem(OrderId::generate(), user, "ONCE20", 1_000).await.status(), 201);
    assert_eq!(till.miscounted().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_fixed_amount_is_refused_for_a_subtotal_in_another_currency() {
    let till = Till::open().await;
    let body = json!({"code": "FIVEOFF", "user_id": UserId::generate(), "subtotal_minor": 1_000, "currency": "EUR"});
    let path = format!("/v1/redemptions/{}", OrderId::generate());
    let problem = refused(till.put(&path).json(&body).send().await.unwrap(), ProblemType::ValidationFailed).await;
    assert_eq!(fields(&problem), ["currency"]);
}

#[tokio::test]
async fn a_commit_and_a_release_take_effect_once_however_often_they_come() {
    let till = Till::open().await;
    till.issue("FEW", Some(5), None).await;
    let order = till.hold("FEW").await;
    for _ in 0..2 {
        assert_eq!(redeemed(till.commit(order).await).await.state, RedemptionState::Committed);
        assert_eq!(till.coupon("FEW").await.redeemed, 1);
    }
    for _ in 0..2 {
        let returned = redeemed(till.release(order).await).await;
        assert_eq!((returned.state, returned.discount_minor), (RedemptionState::Returned, 100));
        assert_eq!(till.coupon("FEW").await.redeemed, 0);
    }
    assert_eq!(redeemed(till.commit(order).await).await.state, RedemptionState::Returned);

    let held = till.hold("FEW").await;
    for _ in 0..2 {
        assert_eq!(redeemed(till.release(held).await).await.state, RedemptionState::Released);
        assert_eq!(till.coupon("FEW").await.redeemed, 0);
    }
    assert_eq!(redeemed(till.commit(held).await).await.state, RedemptionState::Released);
}

// Trace 23.
#[tokio::test]
async fn a_redemption_that_comes_after_the_release_of_its_order_is_refused() {
    let till = Till::open().await;
    let order = OrderId::generate();
    let tombstone = redeemed(till.release(order).await).await;
    assert_eq!((tombstone.state, &tombstone.code, tombstone.discount_minor), (RedemptionState::Released, &None, 0));
    let late = till.redeem(order, UserId::generate(), "WELCOME10", 1_000).await;
    let problem = refused(late, ProblemType::ReservationReleased).await;
    assert_eq!(problem.order_id, Some(order));
    assert_eq!(redeemed(till.redemption(order).await).await, tombstone);
    assert_eq!(till.coupon("WELCOME10").await.redeemed, 0);
}

#[tokio::test]
async fn an_order_that_was_never_seen_can_be_neither_shown_nor_committed() {
    let till = Till::open().await;
    let order = OrderId::generate();
    refused(till.commit(order).await, ProblemType::NotFound).await;
    refused(till.redemption(order).await, ProblemType::NotFound).await;
}

#[tokio::test]
async fn a_coupon_is_shown_with_its_limits() {
    let till = Till::open().await;
    till.hold("ONCE20").await;
    let body: Value = till.get("/v1/coupons/ONCE20").send().await.unwrap().json().await.unwrap();
    let expected = json!({
        "code": "ONCE20", "kind": "percent", "percent": 20, "total_limit": null, "per_user_limit": 1, "redeemed": 1,
        "valid_from": body["valid_from"], "valid_until": body["valid_until"]
    });
    assert_eq!(body, expected);
    let body: Value = till.get("/v1/coupons/FIVEOFF").send().await.unwrap().json().await.unwrap();
    assert_eq!(
        (&body["kind"], &body["amount_minor"], &body["currency"]),
        (&json!("fixed"), &json!(500), &json!("USD"))
    );
    for code in ["NONE", "%00", "%ff", "A%20B", &"X".repeat(65)] {
        refused(till.get(&format!("/v1/coupons/{code}")).send().await.unwrap(), ProblemType::NotFound).await;
    }
}

#[tokio::test]
async fn values_out_of_range_are_named() {
    let till = Till::open().await;
    let sound = json!({"code": "WELCOME10", "user_id": UserId::generate(), "subtotal_minor": 1_000, "currency": "USD"});
    for (field, value, kind) in [
        ("code", json!(""), ProblemType::ValidationFailed),
        ("code", json!("A\u{0}"), ProblemType::ValidationFailed),
        ("subtotal_minor", json!(0), ProblemType::ValidationFailed),
        ("subtotal_minor", json!(-5), ProblemType::ValidationFailed),
        ("subtotal_minor", json!("5"), ProblemType::InvalidRequest),
        ("currency", json!("usd"), ProblemType::InvalidRequest),
        ("user_id", json!("me"), ProblemType::InvalidRequest),
        ("tip", json!(1), ProblemType::InvalidRequest),
    ] {
        let mut body = sound.clone();
        body[field] = value;
        let path = format!("/v1/redemptions/{}", OrderId::generate());
        let problem = refused(till.put(&path).json(&body).send().await.unwrap(), kind).await;
        assert_eq!(fields(&problem), [field], "{body}");
    }
}

#[tokio::test]
async fn the_greatest_subtotal_that_there_is_gets_its_discount() {
    let till = Till::open().await;
    let response = till.redeem(OrderId::generate(), UserId::generate(), "WELCOME10", i64::MAX).await;
    assert_eq!(redeemed(response).await.discount_minor, i64::MAX / 10);
}

#[tokio::test]
async fn a_second_start_adds_no_coupon_and_forgets_no_redemption() {
    let till = Till::open().await;
    till.hold("WELCOME10").await;
    assert_eq!(coupon::seed::seed(&till.database).await.unwrap(), 0);
    assert_eq!(till.coupon("WELCOME10").await.redeemed, 1);
}
