//! Reserving, committing and letting go.

use std::{num::NonZeroU32, time::Duration};

use contracts::{
    OrderId, ProblemType, headers,
    inventory::{Reservation, ReservationState},
};
use serde_json::{Value, json};
use testkit::{Link, TestDatabase, eventually};

use crate::shop::{Shop, fields, held, ok, patient, refused};

#[tokio::test]
async fn a_reservation_holds_all_items_at_todays_prices_in_the_order_of_the_request() {
    let shop = Shop::open().await;
    let order = OrderId::generate();
    let response = shop.reserve(order, &[("TEA-SENCHA-100", 2), ("COFFEE-HUILA-250", 1)]).await;
    assert_eq!(response.status(), 201);
    let body: Value = response.json().await.unwrap();
    assert_eq!(
        body,
        json!({
            "order_id": order, "state": "held", "currency": "USD",
            "items": [
                {"sku": "TEA-SENCHA-100", "name": "Japanese Sencha 100 g", "quantity": 2, "unit_price_minor": 1590},
                {"sku": "COFFEE-HUILA-250", "name": "Colombia Huila Whole Bean 250 g", "quantity": 1, "unit_price_minor": 1390},
            ]
        })
    );
    let level = shop.level("TEA-SENCHA-100").await;
    assert_eq!((level.on_hand, level.reserved, level.available), (10_000, 2, 9_998));
    let shown: Value = ok(shop.reservation(order).await).await;
    assert_eq!(shown, body);
}

#[tokio::test]
async fn a_reservation_that_is_sent_again_stands_at_the_price_it_was_made_at() {
    let shop = Shop::open().await;
    let order = OrderId::generate();
    let first = held(shop.reserve(order, &[("TEA-SENCHA-100", 2), ("COFFEE-HUILA-250", 1)]).await).await;
    sqlx::query("update products set unit_price_minor = 9999, name = 'renamed'")
        .execute(shop.database.pool())
        .await
        .unwrap();

    let again = shop.reserve(order, &[("TEA-SENCHA-100", 2), ("COFFEE-HUILA-250", 1)]).await;
    assert_eq!(again.status(), 200);
    assert_eq!(held(again).await, first);
    let turned = shop.reserve(order, &[("COFFEE-HUILA-250", 1), ("TEA-SENCHA-100", 2)]).await;
    assert_eq!(turned.status(), 200);
    assert_eq!(held(turned).await.items, first.items.iter().rev().cloned().collect::<Vec<_>>());
    assert_eq!(shop.units("TEA-SENCHA-100").await, (10_000, 2, 0));
}

/// Whoever waits for a commit and hears nothing knows nothing.
#[tokio::test]
async fn a_commit_whose_reply_was_lost_took_effect_and_the_same_call_again_finds_it() {
    let database = TestDatabase::create().await;
    let link = Link::to(&database).await;
    let shop = Shop::open_through(database, link.url.clone(), patient()).await;
    link.lose_replies_after(&["insert into reservations", "COMMIT"]);
    let order = OrderId::generate();
    let items = json!({"items": [{"sku": "TEA-SENCHA-100", "quantity": 2}]});
    let put = shop.put(&format!("/v1/reservations/{order}")).json(&items).header(headers::EXPECTED_TIMEOUT_MS, "1500");
    refused(put.send().await.unwrap(), ProblemType::StorageUnavailable).await;
    assert!(link.has_lost_replies(), "it was the commit");
    assert_eq!(shop.reserve(order, &[("TEA-SENCHA-100", 2)]).await.status(), 200, "it stood already");
    assert_eq!(shop.units("TEA-SENCHA-100").await, (10_000, 2, 0));
}

#[tokio::test]
async fn a_pool_that_is_full_is_told_as_such_with_when_to_return() {
    let mut rules = patient();
    rules.database.pool = Some(NonZeroU32::MIN);
    rules.database.acquire_timeout = Duration::from_millis(500);
    let database = TestDatabase::create().await;
    let url = database.url();
    let shop = Shop::open_through(database, url, rules).await;
    let mut tx = shop.database.pool().begin().await.unwrap();
    sqlx::query("select from stock where sku = 'CUP-MUG-BLUE' for update").execute(&mut *tx).await.unwrap();
    let order = OrderId::generate();
    let told = async {
        eventually("the one connection waits for the row", async || {
            let waiting = "select count(*) from pg_stat_activity
                            where datname = current_database() and wait_event_type = 'Lock'";
            let waiting: i64 = sqlx::query_scalar(waiting).fetch_one(shop.database.pool()).await.unwrap();
            (waiting == 1).then_some(())
        })
        .await;
        let refusal = shop.get("/v1/stock/TEA-SENCHA-100").send().await.unwrap();
        assert_eq!(refusal.headers()["retry-after"], "1");
        let problem = refused(refusal, ProblemType::StorageUnavailable).await;
        assert_eq!((problem.mechanism.as_deref(), problem.retryable), (Some("storage"), true));
        tx.rollback().await.unwrap();
    };
    let (reserved, ()) = tokio::join!(shop.reserve(order, &[("CUP-MUG-BLUE", 1)]), told);
    assert_eq!(reserved.status(), 201);
}

#[tokio::test]
async fn other_items_for_the_same_order_are_refused() {
    let shop = Shop::open().await;
    let order = shop.hold(&[("TEA-SENCHA-100", 2)]).await;
    for items in
        [&[("TEA-SENCHA-100", 3)][..], &[("TEA-HOJICHA-100", 2)], &[("TEA-SENCHA-100", 2), ("CUP-MUG-BLUE", 1)]]
    {
        let problem = refused(shop.reserve(order, items).await, ProblemType::ContentMismatch).await;
        assert_eq!(problem.order_id, Some(order));
    }
    assert_eq!(shop.units("TEA-SENCHA-100").await, (10_000, 2, 0));
}

#[tokio::test]
async fn an_order_that_wants_more_of_one_product_than_there_is_gets_nothing_of_any() {
    let shop = Shop::open().await;
    let order = OrderId::generate();
    let items = [("CUP-MUG-BLUE", 1), ("POSTER-SIGNED-10", 11), ("ZEBRA", 1)];
    let problem = refused(shop.reserve(order, &items[..2]).await, ProblemType::OutOfStock).await;
    assert_eq!((&problem.extra["sku"], &problem.extra["available"]), (&json!("POSTER-SIGNED-10"), &json!(10)));
    assert_eq!(shop.units("CUP-MUG-BLUE").await, (10_000, 0, 0));
    refused(shop.reservation(order).await, ProblemType::NotFound).await;

    let problem = refused(shop.reserve(order, &items).await, ProblemType::UnknownSku).await;
    assert_eq!(problem.extra["sku"], "ZEBRA");
    let problem = refused(shop.reserve(order, &[("POSTER-SOLD-OUT", 1)]).await, ProblemType::OutOfStock).await;
    assert_eq!(problem.extra["available"], 0);

    // A refusal leaves nothing behind that a smaller request would meet.
    assert_eq!(shop.reserve(order, &[("POSTER-SIGNED-10", 10)]).await.status(), 201);
}

#[tokio::test]
async fn products_that_are_priced_in_several_currencies_do_not_go_together() {
    let shop = Shop::open().await;
    shop.sell("EURO-1", 5).await;
    sqlx::query("update products set currency = 'EUR' where sku = 'EURO-1'")
        .execute(shop.database.pool())
        .await
        .unwrap();
    let response = shop.reserve(OrderId::generate(), &[("CUP-MUG-BLUE", 1), ("EURO-1", 1)]).await;
    let problem = refused(response, ProblemType::ValidationFailed).await;
    assert_eq!(fields(&problem), ["items[1].sku"]);
    let response = shop.reserve(OrderId::generate(), &[("EURO-1", 1)]).await;
    assert_eq!(held(response).await.currency.as_str(), "EUR");
}

#[tokio::test]
async fn a_commit_sells_and_a_release_after_it_takes_back_each_however_often_it_comes() {
    let shop = Shop::open().await;
    let order = shop.hold(&[("CUP-MUG-BLUE", 3)]).await;
    for _ in 0..2 {
        assert_eq!(held(shop.commit(order).await).await.state, ReservationState::Committed);
        assert_eq!(shop.units("CUP-MUG-BLUE").await, (9_997, 0, 3));
    }
    // A late repetition of the reservation sees that it stands.
    let again = shop.reserve(order, &[("CUP-MUG-BLUE", 3)]).await;
    assert_eq!(again.status(), 200);
    assert_eq!(held(again).await.state, ReservationState::Committed);

    for _ in 0..2 {
        assert_eq!(held(shop.release(order).await).await.state, ReservationState::Returned);
        assert_eq!(shop.units("CUP-MUG-BLUE").await, (10_000, 0, 0));
    }
    assert_eq!(held(shop.commit(order).await).await.state, ReservationState::Returned);
    assert_eq!(shop.units("CUP-MUG-BLUE").await, (10_000, 0, 0));
    let problem = refused(shop.reserve(order, &[("CUP-MUG-BLUE", 3)]).await, ProblemType::ReservationReleased).await;
    assert_eq!(problem.order_id, Some(order));
}

#[tokio::test]
async fn a_release_frees_what_was_held_and_a_commit_after_it_sells_nothing() {
    let shop = Shop::open().await;
    let order = shop.hold(&[("CUP-MUG-BLUE", 3), ("CUP-MUG-SAND", 1)]).await;
    for _ in 0..2 {
        let released = held(shop.release(order).await).await;
        assert_eq!((released.state, released.items.len()), (ReservationState::Released, 2));
    }
    assert_eq!(held(shop.commit(order).await).await.state, ReservationState::Released);
    assert_eq!(shop.units("CUP-MUG-BLUE").await, (10_000, 0, 0));
    assert_eq!(shop.units("CUP-MUG-SAND").await, (10_000, 0, 0));
    refused(shop.reserve(order, &[("CUP-MUG-BLUE", 3)]).await, ProblemType::ReservationReleased).await;
}

#[tokio::test]
async fn a_release_that_comes_first_leaves_a_tombstone_that_refuses_the_reservation() {
    let shop = Shop::open().await;
    let order = OrderId::generate();
    let tombstone: Reservation = held(shop.release(order).await).await;
    assert_eq!((tombstone.state, tombstone.items.len()), (ReservationState::Released, 0));
    refused(shop.reserve(order, &[("CUP-MUG-BLUE", 1)]).await, ProblemType::ReservationReleased).await;
    assert_eq!(shop.units("CUP-MUG-BLUE").await, (10_000, 0, 0));
    assert_eq!(held(shop.reservation(order).await).await, tombstone);
}

#[tokio::test]
async fn an_order_that_was_never_seen_can_be_neither_shown_nor_committed() {
    let shop = Shop::open().await;
    let order = OrderId::generate();
    let problem = refused(shop.commit(order).await, ProblemType::NotFound).await;
    assert_eq!(problem.order_id, Some(order));
    refused(shop.reservation(order).await, ProblemType::NotFound).await;
    // The refusal left no tombstone.
    assert_eq!(shop.reserve(order, &[("CUP-MUG-BLUE", 1)]).await.status(), 201);
}

#[tokio::test]
async fn items_out_of_range_are_named_by_their_place() {
    let shop = Shop::open().await;
    let put = |body: Value| shop.put(&format!("/v1/reservations/{}", OrderId::generate())).json(&body).send();
    for (body, field) in [
        (json!({"items": []}), "items"),
        (json!({"items": [{"sku": "CUP-MUG-BLUE", "quantity": 0}]}), "items[0].quantity"),
        (json!({"items": [{"sku": "CUP-MUG-BLUE", "quantity": 101}]}), "items[0].quantity"),
        (json!({"items": [{"sku": "", "quantity": 1}]}), "items[0].sku"),
        (json!({"items": [{"sku": "A\u{0}", "quantity": 1}]}), "items[0].sku"),
        (json!({"items": [{"sku": "A", "quantity": 1}, {"sku": "A", "quantity": 1}]}), "items[1].sku"),
    ] {
        let problem = refused(put(body.clone()).await.unwrap(), ProblemType::ValidationFailed).await;
        assert_eq!(fields(&problem), [field], "{body}");
    }
    for (body, field) in [
        (json!({}), "body"),
        (json!({"items": [{"sku": "A", "quantity": "1"}]}), "items[0].quantity"),
        (json!({"items": [{"sku": "A", "quantity": 1, "price": 1}]}), "items[0].price"),
        (json!({"items": [{"sku": "A", "quantity": 1}], "note": "x"}), "note"),
    ] {
        let problem = refused(put(body.clone()).await.unwrap(), ProblemType::InvalidRequest).await;
        assert_eq!(fields(&problem), [field], "{body}");
    }
}
