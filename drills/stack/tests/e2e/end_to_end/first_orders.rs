use serde_json::json;
use testkit::eventually;

use super::{
    audit,
    shop::{fresh_key, order_of},
    system::{count, turn, user},
};

const TEA: &str = "TEA-EARLGREY-100";

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomers_first_orders() {
    let system = turn().await;
    let key = fresh_key();
    let confirmed = system.shop.place(&key, &order_of(TEA, 2, "tok_approve")).await;
    assert_eq!((confirmed.status, &confirmed.body["status"]), (201, &json!("confirmed")));
    let (replayed, _) = system.shop.place_once(1, &key, &order_of(TEA, 2, "tok_approve")).await.unwrap();
    assert_eq!((replayed.status, replayed.body), (201, confirmed.body.clone()), "the other replica's replay");

    let declined = system.shop.place(&fresh_key(), &order_of(TEA, 1, "tok_decline")).await;
    assert_eq!((declined.status, &declined.body["type"]), (402, &json!("urn:problem:payment-declined")));
    let sold_out = system.shop.place(&fresh_key(), &order_of("POSTER-SOLD-OUT", 1, "tok_approve")).await;
    assert_eq!((sold_out.status, &sold_out.body["type"]), (409, &json!("urn:problem:out-of-stock")));
    let unknown = system.shop.place(&fresh_key(), &order_of("NO-SUCH-THING", 1, "tok_approve")).await;
    assert_eq!((unknown.status, &unknown.body["type"]), (422, &json!("urn:problem:unknown-sku")));

    // What happened, and the events that followed from it.
    let id = confirmed.body["id"].as_str().unwrap();
    let history = system.shop.get(&format!("/v1/orders/{id}/history")).await.body;
    assert_eq!(history.as_array().unwrap().last().unwrap()["to"], "confirmed");
    audit::clean(&system).await;

    let (stranger, token) = user(&[]);
    let stranger = system.shop.of(stranger, token);
    assert_eq!(stranger.get(&format!("/v1/orders/{id}")).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coupon_is_bound_to_the_order_that_it_was_applied_to() {
    let system = turn().await;
    let mut order = order_of(TEA, 2, "tok_approve");
    order["coupon_code"] = json!("WELCOME10");
    let placed = system.shop.place(&fresh_key(), &order).await;
    assert_eq!((placed.status, &placed.body["coupon"]["state"]), (201, &json!("applied")));
    let id: uuid::Uuid = placed.body["id"].as_str().unwrap().parse().unwrap();
    let coupons = system.database("coupon").await;
    eventually("the coupon is committed", async || {
        let state: String = sqlx::query_scalar("select state from redemptions where order_id = $1")
            .bind(id)
            .fetch_one(&coupons)
            .await
            .unwrap();
        (state == "committed").then_some(())
    })
    .await;
    order["coupon_code"] = json!("EXPIRED5");
    let refused = system.shop.place(&fresh_key(), &order).await;
    assert_eq!((refused.status, &refused.body["type"]), (409, &json!("urn:problem:coupon-expired")));
    audit::clean(&system).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recommendations_learn_from_what_is_ordered() {
    let system = turn().await;
    let (cup, kettle) = ("CUP-TRAVEL-350", "BREW-FRENCHPRESS-350");
    let together = json!({
        "items": [{"sku": cup, "quantity": 1}, {"sku": kettle, "quantity": 1}], "payment_method": "tok_approve"
    });
    for _ in 0..3 {
        assert_eq!(system.shop.place(&fresh_key(), &together).await.status, 201);
    }
    let learned = system.database("recommendation").await;
    eventually("three orders are learned", async || {
        let sql = "select coalesce(max(orders), 0)::bigint from bought_together where sku = 'CUP-TRAVEL-350'";
        (count(&learned, sql).await >= 3).then_some(())
    })
    .await;
}
