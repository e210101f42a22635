use std::collections::HashSet;

use futures_util::future::join_all;
use serde_json::json;

use super::{
    audit,
    shop::{fresh_key, order_of},
    system::turn,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_requests_with_one_key_are_one_order_one_charge_and_one_reservation() {
    let system = turn().await;
    let (key, order) = (fresh_key(), order_of("TEA-SAMPLER-12", 1, "tok_approve"));
    let charges_before = system.ledger().await.charges.len();
    let answers = join_all((0..100).map(|turn| system.shop.place_let_in(turn, &key, &order))).await;
    let mut ids = HashSet::new();
    for told in answers {
        match told.status {
            201 => _ = ids.insert(told.body["id"].as_str().unwrap().to_owned()),
            409 => assert_eq!(told.body["type"], "urn:problem:idempotency-in-flight"),
            other => panic!("{other}: {}", told.body),
        }
    }
    let settled = system.shop.place(&key, &order).await;
    ids.insert(settled.body["id"].as_str().unwrap().to_owned());
    assert_eq!((settled.status, ids.len()), (201, 1));
    assert_eq!(system.ledger().await.charges.len(), charges_before + 1);
    let id: uuid::Uuid = ids.into_iter().next().unwrap().parse().unwrap();
    let reserved: i64 = sqlx::query_scalar("select count(*) from reservation_items where order_id = $1")
        .bind(id)
        .fetch_one(&system.database("inventory").await)
        .await
        .unwrap();
    assert_eq!(reserved, 1);
    audit::clean(&system).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_unit_goes_to_exactly_one_of_fifty() {
    let system = turn().await;
    let order = order_of("POSTER-LAST-ONE", 1, "tok_approve");
    let answers = join_all((0..50).map(async |_| system.shop.place(&fresh_key(), &order).await)).await;
    let got = answers.iter().filter(|told| told.status == 201).count();
    let missed = answers.iter().filter(|told| told.body["type"] == json!("urn:problem:out-of-stock")).count();
    assert_eq!((got, missed), (1, 49), "{answers:?}");
    audit::clean(&system).await;
}
