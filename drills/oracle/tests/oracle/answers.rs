//! (6)

use contracts::{OrderId, UserId};
use oracle::Answer;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    sale::{PRICE, Sale, told},
    scene::Scene,
};

fn problem(slug: &str) -> Value {
    json!({"type": format!("urn:problem:{slug}"), "status": 400})
}

fn cancel(sale: &Sale, status: u16, body: Value) -> Answer {
    let path = format!("/v1/orders/{}/cancel", sale.id);
    Answer { key: None, path, ..told(sale, status, body) }
}

#[tokio::test]
async fn answers_that_are_not_so_are_found() {
    let mut scene = Scene::new().await;
    let sold = scene.confirmed("TEA").await;
    let dead = scene.rejected("TEA", "out_of_stock").await;
    let back = scene.cancelled("TEA").await;
    let late = scene.rejected("TEA", "payment_unavailable").await;
    scene.order.run(format!("update orders set attempt_id = '{}' where id = '{}'", late.attempt, late.id)).await;
    scene.channels[0].charge(late.attempt, late.id, 2 * PRICE);
    let nobody = Sale { id: Uuid::now_v7(), ..sold.clone() };
    let stranger = Sale { user: Uuid::new_v4(), ..sold.clone() };
    let read = |sale: &Sale, status: &str| Answer {
        method: "GET".to_owned(),
        path: format!("/v1/orders/{}", sale.id),
        ..told(sale, 200, json!({"status": status}))
    };
    for (answer, what) in [
        (told(&dead, 201, json!({"status": "confirmed"})), "it never was confirmed"),
        (told(&dead, 202, json!({"status": "created"})), "nothing was ever charged for it"),
        (told(&sold, 402, problem("payment-declined")), "it is confirmed"),
        (told(&back, 402, problem("payment-declined")), "it is cancelled (user_cancelled)"),
        (told(&sold, 409, problem("out-of-stock")), "it is confirmed"),
        (told(&dead, 409, problem("coupon-expired")), "it is rejected (out_of_stock)"),
        (told(&dead, 422, problem("unknown-sku")), "it is rejected (out_of_stock)"),
        (told(&sold, 503, problem("payment-unavailable")), "it is confirmed"),
        (told(&late, 503, problem("payment-unavailable")), "it is rejected"),
        (told(&nobody, 202, json!({"status": "payment_pending"})), "there is no such order"),
        (told(&stranger, 201, json!({"status": "confirmed"})), "it is another user's"),
        (read(&sold, "rejected"), "it never was rejected"),
        (read(&back, "payment_pending"), "it never was payment_pending"),
        (cancel(&sold, 200, json!({"status": "confirmed"})), "it is confirmed"),
        (cancel(&sold, 202, json!({"status": "confirmed"})), "it is confirmed"),
        (cancel(&back, 409, problem("not-cancellable")), "it is cancelled"),
    ] {
        let subject = format!("order {}", answer.order_id.map(OrderId::as_uuid).unwrap());
        scene.answers = vec![answer];
        Scene::expect(&scene.judged().await, 6, &[(subject, what)]);
    }
}

#[tokio::test]
async fn a_key_that_was_answered_with_two_orders_is_found() {
    let mut scene = Scene::new().await;
    let (first, second) = (scene.confirmed("TEA").await, scene.confirmed("TEA").await);
    scene.order.run(format!("update orders set user_id = '{}' where id = '{}'", first.user, second.id)).await;
    let answer = told(&first, 201, json!({"status": "confirmed"}));
    let other = Answer { order_id: Some(OrderId::from_uuid(second.id)), ..answer.clone() };
    // Given back in between, it stands for another order, and nothing is wrong with that.
    let freed = scene.rejected("TEA", "expired").await;
    scene.order.run(format!("update orders set user_id = '{}' where id = '{}'", first.user, freed.id)).await;
    let refused =
        Answer { key: answer.key.clone(), user: answer.user, ..told(&freed, 504, problem("deadline-exceeded")) };
    scene.answers = vec![refused, answer.clone()];
    Scene::expect(&scene.judged().await, 6, &[]);
    scene.answers = vec![answer.clone(), other];
    let subject = format!("POST key of {} of user {}", first.id, UserId::from_uuid(first.user));
    Scene::expect(&scene.judged().await, 6, &[(subject, "answered with orders")]);
}

#[tokio::test]
async fn a_success_that_names_no_order_is_found() {
    let mut scene = Scene::new().await;
    let sold = scene.confirmed("TEA").await;
    for status in [200, 201, 202] {
        scene.answers = vec![Answer { order_id: None, ..told(&sold, status, json!({"status": "confirmed"})) }];
        let subject = format!("POST key of {} of user {}", sold.id, UserId::from_uuid(sold.user));
        Scene::expect(&scene.judged().await, 6, &[(subject, "an order without an id")]);
    }
}

#[tokio::test]
async fn answers_that_promise_nothing_are_passed_over() {
    let mut scene = Scene::new().await;
    let sold = scene.confirmed("TEA").await;
    let lost = Answer { outcome: "timed_out".to_owned(), ..told(&sold, 504, json!({})) };
    scene.answers = vec![
        told(&sold, 409, problem("idempotency-in-flight")),
        told(&sold, 503, problem("storage-unavailable")),
        Answer { order_id: None, ..told(&sold, 429, problem("rate-limited")) },
        lost,
    ];
    let report = scene.judged().await;
    Scene::expect(&report, 6, &[]);
    assert_eq!(report.invariants[5].checked, 2);
}
