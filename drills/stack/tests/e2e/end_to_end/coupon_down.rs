//! A coupon service that does not answer costs nobody an order, and in the end nobody a discount.

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::eventually;

use super::{
    audit,
    shop::{fresh_key, order_of},
    system::turn,
};

const RULES: &str = "
[compensate]
delays_ms = [300, 700, 1500, 3000]
";

#[tokio::test(flavor = "multi_thread")]
async fn without_the_coupon_service_orders_pay_the_full_price_and_get_the_discount_back_later() {
    let system = turn().await;
    system.rule(81, RULES).await;
    let mut order = order_of("COFFEE-HOUSE-GROUND-250", 2, "tok_approve");
    order["coupon_code"] = json!("WELCOME10");
    let coupon = system.process("coupon", 0)["pid"].clone();
    system.signal(&coupon, "-STOP");
    // It goes on below on every path that does not end the test.
    let told = join_all((0..5).map(async |_| system.shop.place(&fresh_key(), &order).await)).await;
    system.signal(&coupon, "-CONT");
    for told in told {
        assert_eq!((told.status, &told.body["coupon"]["state"]), (201, &json!("pending")), "{told:?}");
        assert_eq!((&told.body["discount_minor"], &told.body["degraded"][0]), (&json!(0), &json!("coupon")));
        let path = format!("/v1/orders/{}", told.body["id"].as_str().unwrap());
        let settled: Value = eventually("the discount is back", async || {
            let now = system.shop.get(&path).await.body;
            (now["coupon"]["state"] == "refunded").then_some(now)
        })
        .await;
        let tenth = told.body["total_minor"].as_i64().unwrap() / 10;
        assert_eq!((&settled["status"], &settled["payment"]["refunded_minor"]), (&json!("confirmed"), &json!(tenth)));
    }
    system.rule(82, "").await;
    audit::clean(&system).await;
}
