//! The manual list, as the console is shown it.

use chassis::dev_secrets;
use contracts::{OrderId, ProblemType, Service, UserId};
use serde_json::{Value, json};
use testkit::{caller_token, user_token};

use crate::till::{Till, fields, refused};

const LIST: &str = "/v1/operator/compensations";

async fn list(till: &Till, query: &str) -> reqwest::Response {
    let request = till.app.get(&format!("{LIST}{query}")).bearer_auth(dev_secrets::internal_token("console"));
    request.send().await.unwrap()
}

async fn put_on_the_list(till: &Till, order: OrderId) {
    sqlx::query(
        "insert into manual_compensations (order_id, code, user_id, subtotal_minor, currency, reason)
         values ($1, 'SOLDOUT5', $2, 1000, 'USD', 'exhausted')",
    )
    .bind(order.as_uuid())
    .bind(UserId::generate().as_uuid())
    .execute(till.database.pool())
    .await
    .unwrap();
}

#[tokio::test]
async fn discounts_that_wait_for_a_person_are_listed_page_by_page_but_for_those_of_dead_orders() {
    let till = Till::open().await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let order = OrderId::generate();
        put_on_the_list(&till, order).await;
        waiting.push(json!(order));
    }
    let dead = OrderId::generate();
    put_on_the_list(&till, dead).await;
    assert!(till.release(dead).await.status().is_success());

    let (mut listed, mut cursor) = (Vec::new(), String::new());
    loop {
        let page: Value = list(&till, &format!("?limit=2{cursor}")).await.json().await.unwrap();
        for row in page["items"].as_array().unwrap() {
            assert_eq!((&row["code"], &row["reason"]), (&json!("SOLDOUT5"), &json!("exhausted")), "{row}");
            assert_eq!((&row["subtotal_minor"], &row["currency"]), (&json!(1_000), &json!("USD")), "{row}");
            listed.push(row["order_id"].clone());
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(listed, waiting);
}

#[tokio::test]
async fn nobody_but_the_console_is_let_in() {
    let till = Till::open().await;
    refused(till.app.get(LIST).send().await.unwrap(), ProblemType::Unauthenticated).await;
    let user = till.app.get(LIST).bearer_auth(user_token(UserId::generate()));
    refused(user.send().await.unwrap(), ProblemType::Unauthenticated).await;
    for service in [Service::Order, Service::Coupon] {
        let other = till.app.get(LIST).bearer_auth(caller_token(service));
        refused(other.send().await.unwrap(), ProblemType::Forbidden).await;
    }
}

#[tokio::test]
async fn a_bad_query_is_refused_by_name() {
    let till = Till::open().await;
    for (query, field) in [
        ("?limit=0", "limit"),
        ("?limit=101", "limit"),
        ("?limit=x", "query"),
        ("?cursor=x", "cursor"),
        ("?a=b", "query"),
    ] {
        let problem = refused(list(&till, query).await, ProblemType::InvalidRequest).await;
        assert_eq!(fields(&problem), [field], "{query}");
    }
}
