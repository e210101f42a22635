//! A charge whose reply was lost is neither taken for paid nor for failed.

use serde_json::json;
use testkit::eventually;
use uuid::Uuid;

use super::{
    audit,
    shop::{fresh_key, order_of},
    system::{System, turn},
};

const TEA: &str = "TEA-EARLGREY-100";

/// What the primary's ledger has of an order.
pub async fn charges(system: &System, order: &str) -> usize {
    system.ledger().await.charges.iter().filter(|charge| charge.reference == order).count()
}

/// Its status and its id.
pub async fn placed(system: &System, method: &str) -> (u16, String) {
    let told = system.shop.place(&fresh_key(), &order_of(TEA, 1, method)).await;
    assert!(told.status != 202 || told.body["status"] == "payment_pending", "{told:?}");
    (told.status, told.body["id"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_is_found_out_and_the_order_confirmed_without_anyones_help() {
    let system = turn().await;
    // Also without a webhook, with a late one, and with two.
    for webhook in ["on", "off", "late", "duplicate"] {
        system.provider_behaves(&json!({"webhook": webhook})).await;
        let (status, order) = placed(&system, "tok_lost_reply").await;
        assert_eq!(status, 202, "webhooks {webhook}");
        let confirmed = system.shop.once(&order, "confirmed").await;
        assert_eq!(confirmed["payment"]["state"], "approved", "webhooks {webhook}: {confirmed}");
        assert_eq!(charges(&system, &order).await, 1, "webhooks {webhook}");
    }
    system.provider_behaves(&json!({})).await;
    audit::clean(&system).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_request_is_found_out_and_the_order_rejected_with_its_stock_back() {
    let system = turn().await;
    let (status, order) = placed(&system, "tok_lost_request").await;
    assert_eq!(status, 202);
    let rejected = system.shop.once(&order, "rejected").await;
    assert_eq!(rejected["status_reason"], "payment_not_found", "{rejected}");
    assert_eq!(charges(&system, &order).await, 0);
    let id: Uuid = order.parse().unwrap();
    let inventory = system.database("inventory").await;
    eventually("the stock is back", async || {
        let state: String = sqlx::query_scalar("select state from reservations where order_id = $1")
            .bind(id)
            .fetch_one(&inventory)
            .await
            .unwrap();
        (state == "released").then_some(())
    })
    .await;
    audit::clean(&system).await;
}

// Trace 1: it was on its way for longer than anybody believed.
#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_reaches_the_provider_after_the_fence_is_found_and_paid_back() {
    let system = turn().await;
    system.provider_behaves(&json!({"webhook": "off"})).await;
    let (status, order) = placed(&system, "tok_lost_request").await;
    assert_eq!(status, 202);
    let rejected = system.shop.once(&order, "rejected").await;
    let total = rejected["total_minor"].as_i64().unwrap();
    let charge = json!({
        "amount_minor": total, "currency": rejected["currency"], "payment_method": "tok_approve", "reference": order,
    });
    let attempt = rejected["payment"]["attempt_id"].as_str().unwrap();
    system.charge_at_the_provider(attempt, &charge).await;
    eventually("the money is back", async || {
        let ledger = system.ledger().await;
        let charged = ledger.charges.iter().find(|charge| charge.reference == order)?;
        let back = ledger.refunds.iter().filter(|refund| refund.charge_id == charged.id);
        (back.map(|refund| refund.amount_minor).sum::<i64>() == total).then_some(())
    })
    .await;
    let path = format!("/v1/orders/{order}");
    eventually("the order says so", async || {
        let now = system.shop.get(&path).await.body;
        (now["status"] == "rejected" && now["payment"]["refunded_minor"] == total).then_some(())
    })
    .await;
    system.provider_behaves(&json!({})).await;
    audit::clean(&system).await;
}
