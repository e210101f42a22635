//! Taking an order back.

use serde_json::json;
use testkit::eventually;

use super::{
    audit,
    shop::{fresh_key, order_of},
    system::turn,
};

const TEA: &str = "TEA-EARLGREY-100";

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_order_that_is_taken_back_is_refunded_and_its_stock_returned() {
    let system = turn().await;
    let mut order = order_of(TEA, 2, "tok_approve");
    order["coupon_code"] = json!("WELCOME10");
    let placed = system.shop.place(&fresh_key(), &order).await;
    assert_eq!(placed.status, 201, "{placed:?}");
    let id = placed.body["id"].as_str().unwrap();
    let cancelled = system.shop.cancel(id).await;
    assert_eq!((cancelled.status, &cancelled.body["status"]), (200, &json!("cancelled")), "{cancelled:?}");
    let path = format!("/v1/orders/{id}");
    let refunded = eventually("the money is back", async || {
        let now = system.shop.get(&path).await.body;
        (now["payment"]["state"] == "refunded").then_some(now)
    })
    .await;
    assert_eq!(refunded["payment"]["refunded_minor"], placed.body["total_minor"], "{refunded}");
    assert_eq!(system.shop.cancel(id).await.status, 200, "taking it back again says the same");
    audit::clean(&system).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_is_taken_back_while_its_payment_is_unknown_keeps_nobodys_money() {
    let system = turn().await;
    for method in ["tok_lost_reply", "tok_lost_request"] {
        let placed = system.shop.place(&fresh_key(), &order_of(TEA, 1, method)).await;
        assert_eq!(placed.status, 202, "{placed:?}");
        let id = placed.body["id"].as_str().unwrap();
        let told = system.shop.cancel(id).await;
        assert!(matches!(told.status, 200 | 202), "{told:?}");
        system.shop.once(id, "cancelled").await;
    }
    let declined = system.shop.place(&fresh_key(), &order_of(TEA, 1, "tok_decline")).await;
    let told = system.shop.cancel(declined.body["order_id"].as_str().unwrap()).await;
    assert_eq!((told.status, &told.body["type"]), (409, &json!("urn:problem:not-cancellable")), "{told:?}");
    audit::clean(&system).await;
}
