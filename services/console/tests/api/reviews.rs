//! What waits for a person, from both who have such lists.

use serde_json::{Value, json};
use testkit::{Reply, Stub};
use uuid::Uuid;

use crate::desk::{Desk, body as answered};

fn payment(id: Uuid) -> Value {
    json!({
        "attempt_id": id, "order_id": Uuid::now_v7(), "amount_minor": 4200, "currency": "USD", "channel": "primary",
        "since": "2026-11-30T11:00:00Z", "last_answer": "unanswered", "asked_again_at": null
    })
}

fn refund(id: Uuid) -> Value {
    json!({
        "refund_id": id, "order_id": null, "attempt_id": null, "amount_minor": 700, "currency": "USD",
        "channel": "backup", "provider_ref": "ch_9", "reason": "extra charge", "since": "2026-11-30T12:00:00Z",
        "sends": 3, "sent_again_at": "2026-11-30T13:00:00Z"
    })
}

fn coupon(order: Uuid) -> Value {
    json!({
        "order_id": order, "user_id": Uuid::now_v7(), "code": "SOLDOUT5", "subtotal_minor": 1000, "currency": "USD",
        "reason": "exhausted", "since": "2026-11-30T10:00:00Z"
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn payments_refunds_and_discounts_that_wait_are_one_list_oldest_first() {
    let (attempt, back, order) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
    let payments = Stub::start(move |asked| {
        let item = if asked.path.contains("refund") { refund(back) } else { payment(attempt) };
        Reply::Json(200, json!({"items": [item], "next_cursor": null}))
    })
    .await;
    let coupons = Stub::start(move |_| Reply::Json(200, json!({"items": [coupon(order)], "next_cursor": null}))).await;
    let (payment_url, coupon_url) = (payments.url(), coupons.url());
    let desk =
        Desk::with(|config| (config.callees.payment_url, config.callees.coupon_url) = (payment_url, coupon_url)).await;
    let shown = desk.seen("/v1/reviews").await;
    assert_eq!(shown["unavailable"], json!([]));
    let [first, second, third] = &shown["items"].as_array().unwrap()[..] else { panic!("{shown}") };
    assert_eq!(
        (&first["kind"], &first["id"], &first["last_answer"]),
        (&json!("coupon"), &json!(order), &json!("exhausted"))
    );
    assert_eq!((&first["amount_minor"], &first["coupon_code"]), (&json!(1000), &json!("SOLDOUT5")));
    assert_eq!(
        (&second["kind"], &second["id"], &second["attempt_id"]),
        (&json!("payment"), &json!(attempt), &json!(attempt))
    );
    assert_eq!((&second["channel"], &second["currency"]), (&json!("primary"), &json!("USD")));
    assert_eq!(
        (&third["kind"], &third["id"], &third["refund_id"], &third["order_id"]),
        (&json!("refund"), &json!(back), &json!(back), &json!(null))
    );
    assert_eq!(third["last_answer"], "refused, sent 3 times: of ch_9, extra charge");
    let mut asked: Vec<String> = payments.seen().into_iter().map(|seen| seen.path).collect();
    asked.sort();
    assert_eq!(asked, ["/v1/operator/refund-reviews?limit=100", "/v1/operator/reviews?limit=100"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gives_no_answer_is_named_and_keeps_nothing_of_the_others_back() {
    let order = Uuid::now_v7();
    let coupons = Stub::start(move |_| Reply::Json(200, json!({"items": [coupon(order)], "next_cursor": null}))).await;
    let url = coupons.url();
    let desk = Desk::with(|config| config.callees.coupon_url = url).await;
    let shown = desk.seen("/v1/reviews").await;
    assert_eq!((shown["items"].as_array().unwrap().len(), &shown["unavailable"]), (1, &json!(["payment"])));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_provider_is_asked_on_an_operators_word_and_who_it_was_is_kept() {
    let payments = Stub::start(|_| Reply::Json(202, json!({"state": "review"}))).await;
    let url = payments.url();
    let desk = Desk::with(|config| config.callees.payment_url = url).await;
    let attempt = Uuid::now_v7();
    let path = format!("/v1/reviews/{attempt}/ask");
    let asked =
        answered(desk.posting(&path, &json!({"reason": "the provider is back"})).send().await.unwrap(), 200).await;
    assert_eq!(asked["state"], "review");
    assert_eq!(payments.seen_at("POST", "/").last().unwrap().path, format!("/v1/operator/reviews/{attempt}/ask"));
    let did = ("ada".to_owned(), "ask".to_owned(), format!("attempt {attempt}"), "the provider is back".to_owned());
    assert_eq!(desk.audit().await, [did]);
    answered(desk.posting(&path, &json!({"reason": ""})).send().await.unwrap(), 422).await;
    answered(desk.posting("/v1/reviews/seven/ask", &json!({"reason": "x"})).send().await.unwrap(), 404).await;
    payments.behave(|_| Reply::Json(404, json!({
        "type": "urn:problem:not-found", "title": "x", "status": 404, "detail": "no such attempt", "retryable": false
    })));
    answered(desk.posting(&path, &json!({"reason": "x"})).send().await.unwrap(), 404).await;
}
