use contracts::provider::RefundReply;

use crate::setup::{problem, setup};

#[tokio::test]
async fn a_refund_happens_once_a_key_and_never_exceeds_the_charge() {
    let it = setup().await;
    let charge = it.api.charge("k", "tok_approve").await.id;

    let first: RefundReply = it.api.refund(&charge, "r-1", 600).await.json().await.unwrap();
    assert_eq!((first.charge_id.as_str(), first.amount_minor), (charge.as_str(), 600));
    let again = it.api.refund(&charge, "r-1", 600).await;
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!(again.json::<RefundReply>().await.unwrap(), first);
    problem(it.api.refund(&charge, "r-1", 1).await, 422, "idempotency-key-reused").await;

    let too_much = problem(it.api.refund(&charge, "r-2", 401).await, 422, "validation-failed").await;
    assert_eq!(too_much.extra["left_minor"], 400);
    assert_eq!(too_much.errors[0].field, "amount_minor");

    let sum: i64 = it.api.ledger().await.refunds.iter().map(|r| r.amount_minor).sum();
    assert_eq!(sum, 600);
}

#[tokio::test]
async fn refunds_at_once_share_what_is_left() {
    let it = setup().await;
    let charge = it.api.charge("k", "tok_approve").await.id;
    let refunds: Vec<_> = (0..20)
        .map(|n| {
            let (api, charge) = (it.api.clone(), charge.clone());
            tokio::spawn(async move { api.refund(&charge, &format!("r-{n}"), 300).await.status().as_u16() })
        })
        .collect();
    let mut made = 0;
    for refund in refunds {
        match refund.await.unwrap() {
            200 => made += 1,
            status => assert_eq!(status, 422),
        }
    }
    assert_eq!(made, 3, "three times 300 fit into 1000");
    assert_eq!(it.api.ledger().await.refunds.len(), 3);
}

#[tokio::test]
async fn a_charge_that_took_no_money_or_does_not_exist_is_not_refunded() {
    let it = setup().await;
    let declined = it.api.charge("k", "tok_decline").await.id;
    problem(it.api.refund(&declined, "r", 1).await, 422, "validation-failed").await;
    problem(it.api.refund("nobody", "r", 1).await, 404, "not-found").await;
    problem(it.api.refund(&declined, "r", 0).await, 422, "validation-failed").await;
    let url = it.api.url(&format!("/v1/charges/{declined}/refunds"));
    let no_key = it.api.client.post(url).json(&serde_json::json!({"amount_minor": 1})).send().await.unwrap();
    problem(no_key, 400, "idempotency-key-missing").await;
    assert_eq!(it.api.ledger().await.refunds, []);
}
